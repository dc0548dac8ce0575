// Running sums, products and extrema.
#include "ops/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "cpu/isa/lines.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<int64_t> {
  using type = uint64_t;  // wraps around
};
template <>
struct Wide<float> {
  using type = double;
};
template <>
struct Wide<std::complex<float>> {
  using type = std::complex<double>;
};

// Four sums at a time, so that the chain of dependent additions has one link per four elements.
struct CumSum {
  static constexpr bool product = false;
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    using W = typename Wide<T>::type;
    W total = W(0);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      W a = W(x[i]), b = a + W(x[i + 1]), c = b + W(x[i + 2]), d = c + W(x[i + 3]);
      out[i] = T(total + a);
      out[i + 1] = T(total + b);
      out[i + 2] = T(total + c);
      total += d;
      out[i + 3] = T(total);
    }
    for (; i < n; ++i) out[i] = T(total += W(x[i]));
  }
};

struct CumProd {
  static constexpr bool product = true;
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    using W = typename Wide<T>::type;
    W total = W(1);
    for (int64_t i = 0; i < n; ++i) out[i] = T(total *= W(x[i]));
  }
};

template <class T>
T log_add_exp(T a, T b) {
  T high = a < b || a != a ? b : a, low = a < b || a != a ? a : b;
  if (a != a) return a;
  if (b != b) return b;
  return std::isinf(high) && (high < 0 || low == high) ? high : high + std::log1p(std::exp(low - high));
}

template <class T>
std::complex<T> log_add_exp(std::complex<T> a, std::complex<T> b) {
  if (a.real() != a.real() || b.real() != b.real() || a.imag() != a.imag() || b.imag() != b.imag())
    return {T(NAN), T(NAN)};
  if (a.real() < b.real()) std::swap(a, b);
  if (b.real() == -INFINITY) return a;
  if (a.real() == INFINITY) return a;
  return a + std::log(T(1) + std::exp(b - a));
}

struct LogCumSumExp {
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    using W = typename Wide<T>::type;
    W total = W(-INFINITY);
    for (int64_t i = 0; i < n; ++i) out[i] = T(total = log_add_exp(total, W(x[i])));
  }
};

template <bool largest>
struct CumExtremum {
  template <class T>
  void operator()(int64_t n, const T* x, T* out, int64_t* position) const {
    T best = x[0];
    int64_t at = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] != x[i] || (best == best && (largest ? x[i] >= best : x[i] <= best))) {
        best = x[i];
        at = i;
      }
      out[i] = best;
      position[i] = at;
    }
  }
};

constexpr int64_t kColumns = 64;

/// Sums or products down `width` neighbouring columns, whose rows are `stride` elements apart.
template <bool product, class T>
void scan_columns(int64_t n, int64_t stride, int64_t width, const T* x, T* out) {
  using W = typename Wide<T>::type;
  W total[kColumns];
  std::fill_n(total, kColumns, W(product));
  for (int64_t r = 0; r < n; ++r, x += stride, out += stride) {
    FACULA_SIMD
    for (int64_t c = 0; c < width; ++c) {
      if constexpr (product) total[c] *= W(x[c]);
      else total[c] += W(x[c]);
      out[c] = T(total[c]);
    }
  }
}

/// Along lines, or down the columns of contiguous tensors, where neighbouring lines are worked on side by side.
template <class Line>
void scan(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  const int64_t inner = in.dim() && in.size(dim) != 1 ? in.stride(dim) : 1;
  if (inner < kColumns / 4 || in.numel() == 0 || in.dtype() != compute || out.dtype() != compute ||
      !in.is_contiguous() || !out.is_contiguous())
    return map_lines<Line, Numbers>(compute, dim, in, out);
  const int64_t n = in.size(dim), tiles = (inner + kColumns - 1) / kColumns, outer = in.numel() / (n * inner);
  LockRelease unlocked(in.numel() > 4 * kGrain);
  visit_types(Numbers(), compute, [&]<class T>(TypeTag<T>) {
    parallel_for(0, outer * tiles, std::max<int64_t>(1, kGrain / (n * kColumns)), [&](int64_t from, int64_t to) {
      for (int64_t task = from; task < to; ++task) {
        const int64_t column = task % tiles * kColumns, at = task / tiles * n * inner + column;
        scan_columns<Line::product>(n, inner, std::min(kColumns, inner - column), in.data<T>() + at,
                                    out.data<T>() + at);
      }
    });
  });
}

}  // namespace

void register_scan() {
  cumsum_kernel.set(DeviceType::CPU, scan<CumSum>);
  cumprod_kernel.set(DeviceType::CPU, scan<CumProd>);
  logcumsumexp_kernel.set(DeviceType::CPU, map_lines<LogCumSumExp, Inexact>);
  cummax_kernel.set(DeviceType::CPU, position_lines<CumExtremum<true>, Reals>);
  cummin_kernel.set(DeviceType::CPU, position_lines<CumExtremum<false>, Reals>);
}

}  // namespace facula::cpu::FACULA_ISA
