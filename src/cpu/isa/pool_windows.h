// The windows that the outputs of a pool see, written out axis by axis.
#pragma once

#include <array>
#include <memory>

#include "cpu/isa.h"
#include "cpu/isa/types.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {

inline int64_t spatial_count(const Tensor& t) {
  int64_t count = 1;
  for (int64_t s : spatial_part(t)) count *= s;
  return count;
}

// Sizes of one let a tensor have both formats: then the other tensor decides.
inline bool channels_last(const Tensor& a, const Tensor& b) { return !a.is_contiguous() || !b.is_contiguous(); }

/// Numbers of an axis; few of them where they are.
template <class T>
class AxisNumbers {
 public:
  AxisNumbers() = default;
  explicit AxisNumbers(size_t size) { resize(size); }
  AxisNumbers(const AxisNumbers&) = delete;
  void resize(size_t size) {
    if (size > kFew) many_ = std::make_unique_for_overwrite<T[]>(size);
    size_ = size;
  }
  size_t size() const { return size_; }
  T* data() { return size_ > kFew ? many_.get() : few_; }
  const T* data() const { return size_ > kFew ? many_.get() : few_; }
  T& operator[](size_t i) { return data()[i]; }
  T operator[](size_t i) const { return data()[i]; }

 private:
  static constexpr size_t kFew = 32;
  size_t size_ = 0;
  T few_[kFew];
  std::unique_ptr<T[]> many_;
};

// The rule of an axis, written out.
struct AxisTable {
  int64_t in = 1, step = 1;
  AxisNumbers<int64_t> begin, end;
  AxisNumbers<double> divisor;

  AxisTable() { set(PoolAxis()); }
  void set(const PoolAxis& axis) {
    in = axis.in, step = axis.step;
    resize(static_cast<size_t>(axis.out));
    for (size_t o = 0; o < begin.size(); ++o) {
      const auto at = static_cast<int64_t>(o);
      begin[o] = axis.begin(at);
      end[o] = axis.end(at);
      divisor[o] = axis.adaptive ? static_cast<double>(end[o] - begin[o]) : axis.divisor(at);
    }
  }
  void resize(size_t outputs) { begin.resize(outputs), end.resize(outputs), divisor.resize(outputs); }
  int64_t out() const { return static_cast<int64_t>(begin.size()); }
};

struct WindowTables {
  std::array<AxisTable, 3> axes;
  double divisor = 0;

  WindowTables() = default;
  explicit WindowTables(const PoolGeometry& geometry) : divisor(geometry.divisor) {
    for (size_t d = 0; d < axes.size(); ++d) axes[d].set(geometry.axes[d]);
  }
};

// Splits a flat output position into its window along each axis.
struct Window {
  int64_t begin[3], end[3], step[3];
  double divisor = 1;
  bool empty() const { return begin[0] >= end[0] || begin[1] >= end[1] || begin[2] >= end[2]; }
};

inline Window window_at(const WindowTables& g, int64_t position) {
  Window w;
  for (int d = 2; d >= 0; --d) {
    const AxisTable& axis = g.axes[d];
    size_t o = static_cast<size_t>(position % axis.out());
    position /= axis.out();
    w.begin[d] = axis.begin[o];
    w.end[d] = axis.end[o];
    w.step[d] = axis.step;
    w.divisor *= axis.divisor[o];
  }
  if (g.divisor != 0) w.divisor = g.divisor;
  return w;
}

// Calls f(flat input position) for every element of a window.
template <class F>
inline void for_each_in(const WindowTables& g, const Window& w, F&& f) {
  for (int64_t i0 = w.begin[0]; i0 < w.end[0]; i0 += w.step[0])
    for (int64_t i1 = w.begin[1]; i1 < w.end[1]; i1 += w.step[1])
      for (int64_t i2 = w.begin[2]; i2 < w.end[2]; i2 += w.step[2]) f((i0 * g.axes[1].in + i1) * g.axes[2].in + i2);
}

inline int64_t window_size(const WindowTables& g) {
  int64_t size = 1;
  for (const AxisTable& axis : g.axes) size *= (axis.end[0] - axis.begin[0]) / axis.step + 1;
  return size;
}

// The outputs [from, to) of an axis whose windows are alike and equally far apart.
struct UniformRange {
  int64_t from = 0, to = 0, size = 0, stride = 1;

  explicit UniformRange(const AxisTable& axis) {
    size_t n = axis.begin.size(), middle = n / 2, low = middle, high = middle;
    if (n == 0) return;
    size = axis.end[middle] - axis.begin[middle];
    stride = middle + 1 < n ? axis.begin[middle + 1] - axis.begin[middle] : 1;
    auto alike = [&](size_t o) { return axis.end[o] - axis.begin[o] == size; };
    while (low > 0 && alike(low - 1) && axis.begin[low] - axis.begin[low - 1] == stride) --low;
    while (high < n && alike(high) && axis.begin[high] == axis.begin[low] + static_cast<int64_t>(high - low) * stride)
      ++high;
    from = static_cast<int64_t>(low), to = static_cast<int64_t>(high);
  }
};

// Calls f(position of the row) for the rows of a window.
template <class F>
void for_window_rows(const WindowTables& g, int64_t o0, int64_t o1, F&& f) {
  const AxisTable &a0 = g.axes[0], &a1 = g.axes[1];
  for (int64_t i0 = a0.begin[o0]; i0 < a0.end[o0]; i0 += a0.step)
    for (int64_t i1 = a1.begin[o1]; i1 < a1.end[o1]; i1 += a1.step) f((i0 * a1.in + i1) * g.axes[2].in);
}

/// What elements are compared and added in.
template <class T>
using PoolCompute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

using PooledFloats = Types<float, double, Half, BFloat16>;

}  // namespace facula::cpu::FACULA_ISA
