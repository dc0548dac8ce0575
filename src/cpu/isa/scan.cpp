// Running sums, products and extrema.
#include "ops/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "cpu/isa/line_walk.h"

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

struct Sum {
  template <class W>
  W operator()(W total, W x) const {
    return total + x;
  }
};
struct Product {
  template <class W>
  W operator()(W total, W x) const {
    return total * x;
  }
};

/// `Line` does the same to lines one by one.
template <class Line, class Op>
void running_cpu(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (!lie_side_by_side(compute, dim, in, {&out}) || out.dtype() != compute)
    return map_lines<Line, Numbers>(compute, dim, in, out);
  visit_types(Numbers(), compute, [&]<class T>(TypeTag<T>) {
    for_side_by_side(in, dim, [&](const SideBySide& s) {
      using W = typename Wide<T>::type;
      const T* x = in.data<T>() + s.at;
      T* to = out.data<T>() + s.at;
      W total[kSideBySide];
      for (int64_t c = 0; c < s.width; ++c) total[c] = W(x[c]);
      std::copy_n(x, s.width, to);
      for (int64_t r = 1; r < s.n; ++r) {
        x += s.stride, to += s.stride;
        FACULA_SIMD
        for (int64_t c = 0; c < s.width; ++c) to[c] = T(total[c] = Op()(total[c], W(x[c])));
      }
    });
  });
}

struct CumProd {
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    using W = typename Wide<T>::type;
    W total = W(1);
    int64_t i = 0;
    if constexpr (std::is_same_v<T, float>) {  // as sums; the product of four floats is a number of double
      for (; i + 4 <= n; i += 4) {
        const W a = W(x[i]), b = a * W(x[i + 1]), c = b * W(x[i + 2]), d = c * W(x[i + 3]);
        out[i] = T(total * a);
        out[i + 1] = T(total * b);
        out[i + 2] = T(total * c);
        total *= d;
        out[i + 3] = T(total);
      }
    }
    for (; i < n; ++i) out[i] = T(total *= W(x[i]));
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
  static constexpr int64_t kBlock = 16;
  template <class T>
  void operator()(int64_t n, const T* x, T* out, int64_t* position) const {
    T best = x[0];
    int64_t at = 0;
    for (int64_t from = 0; from < n; from += kBlock) {
      const int64_t count = std::min(kBlock, n - from);
      if (count == kBlock && best == best) {  // most blocks have nothing better
        int64_t better = 0;
        FACULA_SIMD
        for (int64_t i = 0; i < kBlock; ++i) better += !(largest ? x[from + i] < best : x[from + i] > best);
        if (better == 0) {
          std::fill_n(out + from, kBlock, best);
          std::fill_n(position + from, kBlock, at);
          continue;
        }
      }
      for (int64_t i = from; i < from + count; ++i) {
        if (x[i] != x[i] || (best == best && (largest ? x[i] >= best : x[i] <= best))) {
          best = x[i];
          at = i;
        }
        out[i] = best;
        position[i] = at;
      }
    }
  }
};

}  // namespace

void register_scan() {
  cumsum_kernel.set(DeviceType::CPU, running_cpu<CumSum, Sum>);
  cumprod_kernel.set(DeviceType::CPU, running_cpu<CumProd, Product>);
  logcumsumexp_kernel.set(DeviceType::CPU, map_lines<LogCumSumExp, Inexact>);
  cummax_kernel.set(DeviceType::CPU, position_lines<CumExtremum<true>, Reals>);
  cummin_kernel.set(DeviceType::CPU, position_lines<CumExtremum<false>, Reals>);
}

}  // namespace facula::cpu::FACULA_ISA
