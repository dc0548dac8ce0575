// Soft-max along lines and down columns.
#include "ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "cpu/isa/line_walk.h"
#include "cpu/isa/softmax.h"
#include "cpu/isa/sums.h"
#include "kernels/math.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Shorter rows than a vector or two: preparing vectors would cost more than the row.
constexpr int64_t kFew = 16;

constexpr int64_t kFewest = 4;  // elements that are as fast one by one

template <class T>
T largest_of_few(int64_t n, const T* x) {
  constexpr int64_t lanes = VectorOf<T>::lanes;
  if (n > lanes) return extremum<T, true>(n, x);
  if (n > kFewest) {
    const auto all = n == lanes ? load_vector(x) : load_first(x, n, x[0]);
    return merge_all(all, [](auto a, auto b) { return (b > a) | (b != b) ? b : a; });
  }
  T largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = (x[i] > largest) | (x[i] != x[i]) ? x[i] : largest;
  return largest;
}

template <class T>
T sum_of_few(int64_t n, const T* x) {
  T total = 0;
  if (n <= kFewest) {
    for (int64_t i = 0; i < n; ++i) total += x[i];
    return total;
  }
  constexpr int64_t lanes = VectorOf<T>::lanes;
  auto sums = n >= lanes ? load_vector(x) : load_first(x, n, T(0));
  for (int64_t i = lanes; i < n; i += lanes)
    sums += n - i >= lanes ? load_vector(x + i) : load_first(x + i, n - i, T(0));
  return sum_of_lanes<T>(sums);
}

/// Soft-max of rows of at most a vector each, which do not wait for one another. A NaN need not be the largest: its
/// exponential makes the sum NaN.
template <bool log, class T>
void rows_of_one_vector(int64_t rows, int64_t n, const T* x, T* out) {
  constexpr int64_t lanes = VectorOf<T>::lanes, kBlock = 16;
  const ExpOfLanes<T> exponential;
  const auto read = [=](const T* row) {
    return n == lanes ? load_vector(row) : load_first(row, n, -std::numeric_limits<T>::infinity());
  };
  for (; rows > 0; rows -= kBlock, x += kBlock * n, out += kBlock * n) {
    const int64_t count = std::min(rows, kBlock);
    T largest[kBlock], last[kBlock] = {};
    for (int64_t row = 0; row < count; ++row) {
      const auto all = read(x + row * n);
      largest[row] = merge_all(all, [](auto a, auto b) { return b > a ? b : a; });
      const auto terms = exponential(all, largest[row]);
      const T total = sum_of_lanes<T>(terms);
      if constexpr (log) last[row] = total;
      else store_first(out + row * n, n, terms * (T(1) / total));
    }
    if constexpr (!log) continue;
    FACULA_SIMD
    for (int64_t row = 0; row < kBlock; ++row) last[row] = kernels::log(last[row]);
    for (int64_t row = 0; row < count; ++row) {
      const auto shifted = read(x + row * n) - largest[row] - last[row];
      store_first(out + row * n, n, shifted);
    }
  }
}

/// Whether rows of n elements are those above.
template <class T>
constexpr bool is_one_vector(int64_t n) {
  return kVectorBytes == 64 && std::is_same_v<T, float> && n > kFewest && n <= VectorOf<T>::lanes;
}

/// Soft-max of short rows, one behind the other: a row alone fills no vector, so the exponentials of many are one loop.
template <bool log, class T>
void rows_of_few(int64_t rows, int64_t n, const T* x, T* out) {
  if (is_one_vector<T>(n)) return rows_of_one_vector<log>(rows, n, x, out);
  constexpr int64_t kTerms = 16 * kFew;
  T terms[kTerms];
  for (int64_t block = kTerms / n; rows > 0; rows -= block, x += block * n, out += block * n) {
    const int64_t count = std::min(rows, block) * n;
    for (int64_t row = 0; row < count; row += n) {
      const T largest = largest_of_few(n, x + row);
      for (int64_t i = row; i < row + n; ++i) out[i] = x[i] - largest;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i) terms[i] = exp_of_shifted(out[i]);
    for (int64_t row = 0; row < count; row += n) {
      const T total = sum_of_few(n, terms + row);
      const T last = log ? kernels::log(total) : T(1) / total;
      for (int64_t i = row; i < row + n; ++i) out[i] = log ? out[i] - last : terms[i] * last;
    }
  }
}

struct Softmax {
  static constexpr bool kLog = false;
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    if (n <= kFew && n > 0) return rows_of_few<kLog>(1, n, x, out);
    constexpr int64_t lanes = VectorOf<T>::lanes;
    typename VectorOf<T>::type rest = {};  // is written once: what was just written in part takes long to read
    const T scale = T(1) / sum_of_exp(n, x, extremum<T, true>(n, x), out, &rest);
    const int64_t whole = n / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto scaled = load_vector(out + i) * scale;
      std::memcpy(out + i, &scaled, sizeof scaled);
    }
    if (whole < n) store_first(out + whole, n - whole, rest * scale);
  }
};

struct LogSoftmax {
  static constexpr bool kLog = true;
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    if (n <= kFew && n > 0) return rows_of_few<kLog>(1, n, x, out);
    T largest = extremum<T, true>(n, x), rest = std::log(sum_of_exp<T>(n, x, largest, nullptr));
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] - largest - rest;
  }
};

/// The sum of term(at), in blocks, so that rounding errors do not grow with the whole length. Inlined: lines may be
/// short.
template <class T, class F>
[[gnu::always_inline]] inline T sum_terms(int64_t n, F term) {
  constexpr int64_t kBlock = 1024, lanes = VectorOf<T>::lanes;
  T total = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + kBlock);
    typename VectorOf<T>::type sums[4] = {};
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) sums[k] += term(VectorAt<T>{i + k * lanes});
    }
    for (; i + lanes <= end; i += lanes) sums[0] += term(VectorAt<T>{i});
    T sum = sum_of_lanes<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < end; ++i) sum += term(ElementAt<T>{i});
    total += sum;
  }
  return total;
}

template <class T>
[[gnu::always_inline]] inline T sum_line(int64_t n, const T* x) {
  return sum_terms<T>(n, [=](auto at) { return at(x); });
}

struct SoftmaxBackward {
  template <class T>
  void operator()(int64_t n, const T* grad, const T* result, T* out) const {
    const auto mean = sum_terms<Computed<T>>(n, [=](auto at) { return at(grad) * at(result); });
    write_by(n, out, [=](auto at) { return at(result) * (at(grad) - mean); });
  }
};

struct LogSoftmaxBackward {
  template <class T>
  void operator()(int64_t n, const T* grad, const T* result, T* out) const {
    T total = sum_line(n, grad);
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = grad[i] - kernels::exp(result[i]) * total;
  }
};

// ---- soft-max down columns: neighboring lines side by side, nothing packed

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

template <bool log>
struct SoftmaxTile {
  template <class T>
  void operator()(const Tile<T>& t, const T* x, const T*, T* out) const {
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
        T e = exp_of_shifted(x[at + c] - largest[c]);
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
};

template <bool log>
struct SoftmaxBackwardTile {
  template <class T>
  void operator()(const Tile<T>& t, const T* grad, const T* result, T* out) const {
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
};

// Whether the lines of contiguous tensors lie side by side, so that columns are the better way to go.
bool as_columns(DType compute, int64_t dim, const Tensor& a, const Tensor& b) {
  int64_t inner = a.dim() ? a.stride(dim) : 1, n = a.dim() ? a.size(dim) : 1;
  return inner >= kColumns / 4 && n != 1 && a.numel() > 0 && a.dtype() == compute && b.dtype() == compute &&
         a.is_contiguous() && b.is_contiguous();
}

template <class TileFunction>
void run_columns(int64_t dim, const Tensor& a, const Tensor& b, const Tensor& out) {
  int64_t n = a.size(dim), inner = a.stride(dim);
  int64_t tiles = (inner + kColumns - 1) / kColumns, outer = a.numel() / (n * inner);
  LockRelease unlocked(a.numel() > 4 * kGrain);
  visit_types(Floats(), a.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, outer * tiles, std::max<int64_t>(1, kGrain / (n * kColumns)), [&](int64_t from, int64_t to) {
      for (int64_t task = from; task < to; ++task) {
        int64_t column = task % tiles * kColumns, at = task / tiles * n * inner + column;
        Tile<T> tile{n, inner, std::min(kColumns, inner - column)};
        TileFunction()(tile, a.data<T>() + at, b.data<T>() + at, out.data<T>() + at);
      }
    });
  });
}

// The shortest way of the smallest tensors: short rows that need neither packing nor a second thread.
template <class Line>
bool run_few(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  const int64_t n = in.dim() ? in.size(dim) : 1, elements = in.numel();
  if (n > kFew || elements > kGrain || elements == 0 || dim < in.dim() - 1 || in.dtype() != compute ||
      !in.is_contiguous() || !out.is_contiguous())
    return false;
  visit_types(Floats(), compute,
              [&]<class T>(TypeTag<T>) { rows_of_few<Line::kLog>(elements / n, n, in.data<T>(), out.data<T>()); });
  return true;
}

template <class Line, class TileFunction>
void forward(DType compute, int64_t dim, const Tensor& in, const Tensor& out) {
  if (run_few<Line>(compute, dim, in, out)) return;
  if (as_columns(compute, dim, in, in)) return run_columns<TileFunction>(dim, in, in, out);
  map_lines<Line, Floats>(compute, dim, in, out);
}

template <class Line, class TileFunction>
void backward(DType compute, int64_t dim, const Tensor& grad, const Tensor& result, const Tensor& out) {
  if (as_columns(compute, dim, grad, result)) return run_columns<TileFunction>(dim, grad, result, out);
  // lines of narrow floats are read as they lie: converted ones do not fit the first-level cache
  const DType dtype = grad.dtype();
  if constexpr (std::is_same_v<Line, SoftmaxBackward>) {
    if (is_half(dtype) && result.dtype() == dtype && out.dtype() == dtype)
      return map_lines2<Line, Types<Half, BFloat16>>(dtype, dim, grad, result, out);
  }
  map_lines2<Line, Floats>(compute, dim, grad, result, out);
}

}  // namespace

void register_softmax() {
  softmax_kernel.set(DeviceType::CPU, forward<Softmax, SoftmaxTile<false>>);
  log_softmax_kernel.set(DeviceType::CPU, forward<LogSoftmax, SoftmaxTile<true>>);
  softmax_backward_kernel.set(DeviceType::CPU, backward<SoftmaxBackward, SoftmaxBackwardTile<false>>);
  log_softmax_backward_kernel.set(DeviceType::CPU, backward<LogSoftmaxBackward, SoftmaxBackwardTile<true>>);
}

}  // namespace facula::cpu::FACULA_ISA
