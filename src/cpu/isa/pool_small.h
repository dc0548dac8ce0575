// Pools of small planes of float32: tables of windows (pool_windows.h) would take longer to write than the windows to
// look at.
#pragma once

#include <limits>

#include "cpu/isa/pool_windows.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kSmallPlanes = 1 << 10;  // elements of all inputs, or of all results

/// The only share of an axis is a window; more of them have edges that take divisions to find.
inline PoolAxis as_window(const PoolAxis& axis) {
  return axis.adaptive && axis.out == 1 ? PoolAxis{.in = axis.in, .kernel = axis.in, .stride = axis.in} : axis;
}

inline bool are_small_planes(const Tensor& in, const Tensor& out, const PoolGeometry& g) {
  const bool slide = !as_window(g.axes[1]).adaptive && !as_window(g.axes[2]).adaptive;
  return in.dtype() == DType::Float32 && slide && in.dim() <= 4 && in.numel() <= kSmallPlanes &&
         out.numel() <= kSmallPlanes && !channels_last(in, out);
}

/// Where a result lies and what its window shows: elements of a plane from (top, left) to before (bottom, right).
struct SmallWindow {
  int64_t plane, result, row, column, top, bottom, left, right;
  bool empty() const { return top >= bottom || left >= right; }
};

template <class F>
[[gnu::always_inline]] inline void for_small_windows(const PoolAxis& rows, const PoolAxis& columns, int64_t planes,
                                                     F f) {
  int64_t at = 0;
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t y = 0; y < rows.out; ++y) {
      const int64_t top = rows.begin(y), bottom = rows.end(y);
      for (int64_t x = 0; x < columns.out; ++x, ++at)
        f(SmallWindow{p, at, y, x, top, bottom, columns.begin(x), columns.end(x)});
    }
  }
}

/// Windows of two elements side by side.
inline bool are_pairs(const PoolAxis& axis) {
  return axis.kernel == 2 && axis.stride == 2 && axis.padding == 0 && axis.step == 1 && 2 * axis.out <= axis.in;
}

inline float larger(float best, float value) { return (value > best) | (value != value) ? value : best; }

/// The largest of squares of two by two elements.
inline void max_of_squares(const Tensor& out, const Tensor& in, const PoolAxis& rows, const PoolAxis& columns) {
  const float* plane = in.data<float>();
  float* to = out.data<float>();
  const int64_t planes = in.size(0) * in.size(1);
  for (int64_t p = 0; p < planes; ++p, plane += rows.in * columns.in) {
    for (int64_t y = 0; y < rows.out; ++y, to += columns.out) {
      const float *a = plane + 2 * y * columns.in, *b = a + columns.in;
      for (int64_t x = 0; x < columns.out; ++x)
        to[x] = larger(larger(larger(a[2 * x], a[2 * x + 1]), b[2 * x]), b[2 * x + 1]);
    }
  }
}

/// Of equals the first, of NaNs the last. The place of no element is -1.
template <bool places>
void max_of_small(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& g) {
  const PoolAxis rows = as_window(g.axes[1]), columns = as_window(g.axes[2]);
  if (!places && are_pairs(rows) && are_pairs(columns)) return max_of_squares(out, in, rows, columns);
  const float* from = in.data<float>();
  float* to = out.data<float>();
  int64_t* where = places ? indices.data<int64_t>() : nullptr;
  for_small_windows(rows, columns, in.size(0) * in.size(1), [=](const SmallWindow& w) {
    const float* plane = from + w.plane * rows.in * columns.in;
    float best = -std::numeric_limits<float>::infinity();
    int64_t place = w.empty() ? -1 : w.top * columns.in + w.left;
    for (int64_t y = w.top; y < w.bottom; y += rows.step) {
      for (int64_t x = w.left; x < w.right; x += columns.step) {
        const float value = plane[y * columns.in + x];
        const bool better = (value > best) | (value != value);
        best = better ? value : best;
        if constexpr (places) place = better ? y * columns.in + x : place;
      }
    }
    to[w.result] = best;
    if constexpr (places) where[w.result] = place;
  });
}

inline void mean_of_small(const Tensor& out, const Tensor& in, const PoolGeometry& g) {
  const PoolAxis rows = as_window(g.axes[1]), columns = as_window(g.axes[2]);
  const float* from = in.data<float>();
  float* to = out.data<float>();
  for_small_windows(rows, columns, in.size(0) * in.size(1), [=, &g](const SmallWindow& w) {
    const float* plane = from + w.plane * rows.in * columns.in;
    float sum = 0;
    for (int64_t y = w.top; y < w.bottom; ++y) {
      float line = 0;
      for (int64_t x = w.left; x < w.right; ++x) line += plane[y * columns.in + x];
      sum += line;
    }
    const double divisor = g.divisor != 0 ? g.divisor : rows.divisor(w.row) * columns.divisor(w.column);
    to[w.result] = w.empty() ? 0 : sum / static_cast<float>(divisor);
  });
}

}  // namespace facula::cpu::FACULA_ISA
