// What happens along one line: scans, soft-max, order statistics.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/isa/lines.h"
#include "cpu/isa/softmax.h"
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
  if (a.real() != a.real() || b.real() != b.real() || a.imag() != a.imag() || b.imag() != b.imag())
    return {T(NAN), T(NAN)};
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
  constexpr int lanes = kLanes<T>;
  T partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) partial[k] += a[i + k] * b[i + k];
  }
  T total = sum_lanes(partial);
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

template <class T>
T sum_line(int64_t n, const T* x) {
  constexpr int lanes = kLanes<T>;
  T partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) partial[k] += x[i + k];
  }
  T total = sum_lanes(partial);
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
    // the element in the middle of the sorted line, equal ones in their order
    std::vector<T> sorted(x, x + n);
    int64_t middle = (n - nans - 1) / 2;
    std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.end(),
                     [](T a, T b) { return less_nan_last(a, b); });
    T wanted = sorted[static_cast<size_t>(middle)];
    int64_t skip = std::count(sorted.begin(), sorted.begin() + middle, wanted);
    int64_t at = std::find(x, x + n, wanted) - x;
    for (; skip > 0; --skip) at = std::find(x + at + 1, x + n, wanted) - x;
    *position = at;
  }
  *value = x[*position];
}

template <class T>
void mode_line(int64_t n, const T* x, T* value, int64_t* position) {
  std::vector<T> sorted(x, x + n);
  std::sort(sorted.begin(), sorted.end(), [](T a, T b) { return less_nan_last(a, b); });
  int64_t best = 0, at = 0;
  for (int64_t from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && sorted[to] == sorted[from]; ++to) {
    }
    if (to - from <= best) continue;
    best = to - from;
    at = from;
  }
  *position = 0;
  for (int64_t i = n; i-- > 0 && sorted[at] == sorted[at];) {
    if (x[i] != sorted[at]) continue;
    *position = i;
    break;
  }
  *value = x[*position];
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

// ---- soft-max down columns: neighbouring lines side by side, nothing packed

constexpr int64_t kColumns = 64;

// The columns of one tile: `n` rows, `stride` elements apart.
template <class T>
struct Tile {
  int64_t n, stride, width;
  template <class F>
  void rows(F&& f) const {
    for (int64_t r = 0; r < n; ++r) f(r * stride);
  }
};

template <class T, bool log>
void softmax_tile(const Tile<T>& t, const T* x, T* out) {
  T largest[kColumns], total[kColumns] = {}, factor[kColumns];
  std::copy_n(x, t.width, largest);
  t.rows([&](int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < t.width; ++c) {
      T value = x[at + c];
      largest[c] = (value > largest[c]) | (value != value) ? value : largest[c];
    }
  });
  t.rows([&](int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < t.width; ++c) {
      T e = kernels::exp(x[at + c] - largest[c]);
      if constexpr (!log) out[at + c] = e;
      total[c] += e;
    }
  });
  FACULA_SIMD
  for (int64_t c = 0; c < t.width; ++c) factor[c] = log ? kernels::log(total[c]) : T(1) / total[c];
  t.rows([&](int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < t.width; ++c) {
      if constexpr (log) out[at + c] = x[at + c] - largest[c] - factor[c];
      else out[at + c] *= factor[c];
    }
  });
}

template <class T, bool log>
void softmax_backward_tile(const Tile<T>& t, const T* grad, const T* result, T* out) {
  T total[kColumns] = {};
  t.rows([&](int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < t.width; ++c) total[c] += log ? grad[at + c] : grad[at + c] * result[at + c];
  });
  t.rows([&](int64_t at) {
    FACULA_SIMD
    for (int64_t c = 0; c < t.width; ++c) {
      if constexpr (log) out[at + c] = grad[at + c] - kernels::exp(result[at + c]) * total[c];
      else out[at + c] = result[at + c] * (grad[at + c] - total[c]);
    }
  });
}

template <class T>
bool run_columns(LineOp op, DType compute, int64_t dim, TensorList in, TensorList out) {
  if (op < LineOp::Softmax || op > LineOp::LogSoftmaxBackward) return false;
  for (const Tensor& t : in) {
    if (!t.is_contiguous() || t.dtype() != compute) return false;
  }
  const Tensor& first = in[0];
  int64_t n = first.dim() ? first.size(dim) : 1, inner = first.dim() ? first.stride(dim) : 1;
  if (inner < kColumns / 4 || n == 1) return false;
  int64_t tiles = (inner + kColumns - 1) / kColumns, outer = first.numel() / (n * inner);
  LockRelease unlocked(first.numel() > 4 * kGrain);
  parallel_for(0, outer * tiles, std::max<int64_t>(1, kGrain / (n * kColumns)), [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      int64_t column = task % tiles * kColumns, at = task / tiles * n * inner + column;
      Tile<T> tile{n, inner, std::min(kColumns, inner - column)};
      const T *x = first.data<T>() + at, *result = in[in.size() - 1].template data<T>() + at;
      T* y = out[0].template data<T>() + at;
      switch (op) {
        case LineOp::Softmax: softmax_tile<T, false>(tile, x, y); break;
        case LineOp::LogSoftmax: softmax_tile<T, true>(tile, x, y); break;
        case LineOp::SoftmaxBackward: softmax_backward_tile<T, false>(tile, x, result, y); break;
        default: softmax_backward_tile<T, true>(tile, x, result, y);
      }
    }
  });
  return true;
}

template <class T>
void run_lines(LineOp op, DType compute, int64_t dim, TensorList in, TensorList out) {
  if constexpr (std::is_floating_point_v<T>) {
    if (run_columns<T>(op, compute, dim, in, out)) return;
  }
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

void register_scan() { line_kernel.set(DeviceType::CPU, line_cpu); }

}  // namespace facula::cpu::FACULA_ISA
