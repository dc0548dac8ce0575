// What happens along one line: scans, soft-max, order statistics.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/isa/lines.h"
#include "kernels/math.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
struct Wide {
  using type = T;
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
template <class T>
void cumsum_line(int64_t n, const T* x, T* out) {
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

template <class T>
void cumprod_line(int64_t n, const T* x, T* out) {
  using W = typename Wide<T>::type;
  W total = W(1);
  for (int64_t i = 0; i < n; ++i) out[i] = T(total *= W(x[i]));
}

template <class T>
T log_add_exp(T a, T b) {
  T high = a < b || a != a ? b : a, low = a < b || a != a ? a : b;
  if (a != a) return a;
  if (b != b) return b;
  return std::isinf(high) && (high < 0 || low == high) ? high : high + std::log1p(std::exp(low - high));
}

template <class T>
std::complex<T> log_add_exp(std::complex<T> a, std::complex<T> b) {
  if (a.real() != a.real() || b.real() != b.real() || a.imag() != a.imag() || b.imag() != b.imag()) return {T(NAN), T(NAN)};
  if (a.real() < b.real()) std::swap(a, b);
  if (b.real() == -INFINITY) return a;
  if (a.real() == INFINITY) return a;
  return a + std::log(T(1) + std::exp(b - a));
}

template <class T>
void logcumsumexp_line(int64_t n, const T* x, T* out) {
  using W = typename Wide<T>::type;
  W total = W(-INFINITY);
  for (int64_t i = 0; i < n; ++i) out[i] = T(total = log_add_exp(total, W(x[i])));
}

template <class T, bool largest>
void cum_extremum_line(int64_t n, const T* x, T* out, int64_t* position) {
  if (n == 0) return;
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

// The largest of a line, vectorised; NaN wins.
template <class T, bool largest>
T extremum(int64_t n, const T* x) {
  constexpr int lanes = 64 / sizeof(T);
  typedef T V __attribute__((vector_size(64)));
  auto better = [](auto a, auto b) {
    if constexpr (largest) return (b > a) | (b != b) ? b : a;
    else return (b < a) | (b != b) ? b : a;
  };
  T best = x[0];
  int64_t i = 0;
  if (n >= 4 * lanes) {
    V a[4];
    std::memcpy(a, x, sizeof a);
    V p = a[0], q = a[1], r = a[2], s = a[3];
    for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
      std::memcpy(a, x + i, sizeof a);
      p = better(p, a[0]);
      q = better(q, a[1]);
      r = better(r, a[2]);
      s = better(s, a[3]);
    }
    p = better(better(p, q), better(r, s));
    best = p[0];
    for (int k = 1; k < lanes; ++k) best = better(best, T(p[k]));
  }
  for (; i < n; ++i) best = better(best, x[i]);
  return best;
}

template <class T>
bool same_value(T a, T b) {
  return a == b || (a != a && b != b);
}

// Blocks that stay in the fastest cache: first the block with the best value, then its place.
template <class T, bool largest>
void arg_extremum_line(int64_t n, const T* x, T* value, int64_t* position) {
  constexpr int64_t kBlock = 2048;
  T best = x[0];
  int64_t block = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    T here = extremum<T, largest>(std::min(kBlock, n - i), x + i);
    if (best == best && (here != here || (largest ? here > best : here < best))) {
      best = here;
      block = i;
    }
  }
  while (!same_value(x[block], best)) ++block;
  *value = best;
  *position = block;
}

template <class T>
T sum_of_exp(int64_t n, const T* x, T shift, T* out) {
  constexpr int lanes = 64 / sizeof(T);
  T partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) {
      T e = kernels::exp(x[i + k] - shift);
      if (out) out[i + k] = e;
      partial[k] += e;
    }
  }
  T total = 0;
  for (int k = 0; k < lanes; ++k) total += partial[k];
  for (; i < n; ++i) {
    T e = kernels::exp(x[i] - shift);
    if (out) out[i] = e;
    total += e;
  }
  return total;
}

template <class T>
void softmax_line(int64_t n, const T* x, T* out) {
  if (n == 0) return;
  T scale = T(1) / sum_of_exp(n, x, extremum<T, true>(n, x), out);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <class T>
void log_softmax_line(int64_t n, const T* x, T* out) {
  if (n == 0) return;
  T largest = extremum<T, true>(n, x), rest = std::log(sum_of_exp<T>(n, x, largest, nullptr));
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - largest - rest;
}

template <class T>
T dot(int64_t n, const T* a, const T* b) {
  constexpr int lanes = 64 / sizeof(T);
  T partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) partial[k] += a[i + k] * b[i + k];
  }
  T total = 0;
  for (int k = 0; k < lanes; ++k) total += partial[k];
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

template <class T>
T sum_line(int64_t n, const T* x) {
  constexpr int lanes = 64 / sizeof(T);
  T partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) partial[k] += x[i + k];
  }
  T total = 0;
  for (int k = 0; k < lanes; ++k) total += partial[k];
  for (; i < n; ++i) total += x[i];
  return total;
}

template <class T>
void softmax_backward_line(int64_t n, const T* grad, const T* result, T* out) {
  T mean = dot(n, grad, result);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = result[i] * (grad[i] - mean);
}

template <class T>
void log_softmax_backward_line(int64_t n, const T* grad, const T* result, T* out) {
  T total = sum_line(n, grad);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = grad[i] - kernels::exp(result[i]) * total;
}

template <class T>
bool less_nan_last(T a, T b) {
  return a < b || (b != b && a == a);
}

std::vector<int64_t> iota(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

template <class T>
void sort_line(int64_t n, const T* x, T* out, int64_t* position) {
  std::iota(position, position + n, 0);
  std::stable_sort(position, position + n, [x](int64_t a, int64_t b) { return less_nan_last(x[a], x[b]); });
  for (int64_t i = 0; i < n; ++i) out[i] = x[position[i]];
}

template <class T, bool ignore_nan>
void median_line(int64_t n, const T* x, T* value, int64_t* position) {
  int64_t nans = 0, first_nan = -1;
  for (int64_t i = n; i-- > 0;) {
    if (x[i] == x[i]) continue;
    ++nans;
    first_nan = i;
  }
  if (nans == n || (nans && !ignore_nan)) {
    *position = first_nan;
  } else {
    std::vector<int64_t> order = iota(n);
    auto middle = order.begin() + (n - nans - 1) / 2;
    std::nth_element(order.begin(), middle, order.end(), [x](int64_t a, int64_t b) {
      return less_nan_last(x[a], x[b]) || (!less_nan_last(x[b], x[a]) && a < b);
    });
    *position = *middle;
  }
  *value = x[*position];
}

template <class T>
void mode_line(int64_t n, const T* x, T* value, int64_t* position) {
  std::vector<T> sorted(static_cast<size_t>(n));
  std::vector<int64_t> order(static_cast<size_t>(n));
  sort_line(n, x, sorted.data(), order.data());
  int64_t best = 0, at = 0;
  for (int64_t from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && sorted[to] == sorted[from]; ++to) {}
    if (to - from <= best) continue;
    best = to - from;
    at = to - 1;
  }
  *value = sorted[at];
  *position = order[at];
}

template <class T>
void prod_others_line(int64_t n, const T* x, T* out) {
  T before = T(1), after = T(1);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = before;
    before *= x[i];
  }
  for (int64_t i = n; i-- > 0;) {
    out[i] *= after;
    after *= x[i];
  }
}

template <class T>
using Line1 = void (*)(int64_t, const T*, T*);
template <class T>
using LinePosition = void (*)(int64_t, const T*, T*, int64_t*);
template <class T>
using Line2 = void (*)(int64_t, const T*, const T*, T*);

template <class T>
Line1<T> one_result(LineOp op) {
  switch (op) {
    case LineOp::CumSum: return cumsum_line<T>;
    case LineOp::CumProd: return cumprod_line<T>;
    case LineOp::ProdOthers: return prod_others_line<T>;
    default: break;
  }
  if constexpr (!std::is_integral_v<T>) {
    if (op == LineOp::LogCumSumExp) return logcumsumexp_line<T>;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op == LineOp::Softmax) return softmax_line<T>;
    if (op == LineOp::LogSoftmax) return log_softmax_line<T>;
  }
  return nullptr;
}

template <class T>
LinePosition<T> with_position(LineOp op) {
  switch (op) {
    case LineOp::CumMax: return cum_extremum_line<T, true>;
    case LineOp::CumMin: return cum_extremum_line<T, false>;
    case LineOp::ArgMax: return arg_extremum_line<T, true>;
    case LineOp::ArgMin: return arg_extremum_line<T, false>;
    case LineOp::Median: return median_line<T, false>;
    case LineOp::NanMedian: return median_line<T, true>;
    case LineOp::Mode: return mode_line<T>;
    default: return nullptr;
  }
}

template <class T>
Line2<T> two_inputs(LineOp op) {
  return op == LineOp::SoftmaxBackward ? softmax_backward_line<T> : log_softmax_backward_line<T>;
}

template <class T>
void run_lines(LineOp op, DType compute, int64_t dim, TensorList in, TensorList out) {
  std::vector<LineOperand> inputs, outputs;
  for (const Tensor& t : in) inputs.emplace_back(t, dim, compute);
  for (const Tensor& t : out) outputs.emplace_back(t, dim, t.dtype());
  IntList sizes = in[0].sizes();
  int64_t n = sizes.empty() ? 1 : sizes[dim];
  LineFunction line;
  if (auto f = one_result<T>(op)) {
    line = [=](const void* const* x, void* const* y) { f(n, static_cast<const T*>(x[0]), static_cast<T*>(y[0])); };
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (auto g = with_position<T>(op)) {
      line = [=](const void* const* x, void* const* y) {
        g(n, static_cast<const T*>(x[0]), static_cast<T*>(y[0]), static_cast<int64_t*>(y[1]));
      };
    } else if constexpr (std::is_floating_point_v<T>) {
      auto h = two_inputs<T>(op);
      line = [=](const void* const* x, void* const* y) {
        h(n, static_cast<const T*>(x[0]), static_cast<const T*>(x[1]), static_cast<T*>(y[0]));
      };
    }
  }
  FACULA_CHECK(line, ErrorKind::NotImplemented, "scan: not implemented for dtype ", compute);
  for_lines(sizes, dim, inputs, outputs, line);
}

void line_cpu(LineOp op, DType compute, int64_t dim, TensorList in, TensorList out) {
  if (in[0].numel() == 0) return;
  switch (compute) {
    case DType::Float32: return run_lines<float>(op, compute, dim, in, out);
    case DType::Float64: return run_lines<double>(op, compute, dim, in, out);
    case DType::Int64: return run_lines<int64_t>(op, compute, dim, in, out);
    case DType::Complex64: return run_lines<std::complex<float>>(op, compute, dim, in, out);
    case DType::Complex128: return run_lines<std::complex<double>>(op, compute, dim, in, out);
    default: throw_error(ErrorKind::NotImplemented, "scan: not implemented for dtype ", compute);
  }
}

}  // namespace

void register_scan() {
  line_kernel.set(DeviceType::CPU, line_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
