// Reductions ("folds") of strided tensors. Whatever the layout, a fold becomes one of two shapes: rows, where the
// elements that lie closest together are reduced, and columns, where they belong to different results. Partial results
// are merged pairwise over blocks of fixed size, so that rounding errors grow with the logarithm of the length and the
// result does not depend on the number of threads.
//
// The walk over the tensor (fold.cpp) is compiled once for all folds: elements and accumulators are bytes to it, and a
// fold is five functions (FolderOf), each of which does much in one call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/lanes.h"
#include "ops/reduce.h"

namespace facula::cpu::FACULA_ISA {

/// Elements folded by one pass of vector accumulators: at most 128 floats enter one of them, however short they are.
constexpr int64_t kFoldBlock = std::min(4096, 128 * kVectorBytes);

/// A fold as the walk sees it. Strides are in bytes, and what `centers` points at is null where the fold has none.
struct Folder {
  const FoldArgs& args;
  void* results;
  int64_t value_size, acc_size;  // bytes of an element and of an accumulator, at most 16
  const void* fold;              // what the functions below call step() and merge() of

  /// n accumulators that nothing has entered.
  void (*start)(const Folder&, char* acc, int64_t n);
  /// acc[i] = the fold of the n <= kFoldBlock values that lie from `first + i * stride` on, for i < rows.
  void (*rows)(const Folder&, const char* first, int64_t stride, int64_t rows, int64_t n, const char* centers,
               int64_t center_stride, char* acc);
  /// Enters the values [first + i * stride][w] into acc[w], for i < rows and w < width.
  void (*columns)(const Folder&, const char* first, int64_t stride, int64_t rows, int64_t width, const char* centers,
                  char* acc);
  /// acc[w] = merge(acc[w], other[w]) for w < n.
  void (*merge)(const Folder&, char* acc, const char* other, int64_t n);
  /// results[place + i * step] = what acc[i] comes to, for i < n.
  void (*store)(const Folder&, int64_t place, int64_t step, const char* acc, int64_t n);
  /// acc[0] = the fold of n <= kFoldBlock neighbours in bfloat16; null where they are converted first.
  void (*bfloats)(const char* first, int64_t n, char* acc) = nullptr;
};

/// Folds `in` into the results; `centers` are contiguous, shaped as `out`.
void run_fold(const Folder& folder, const Tensor& out, const Tensor& in, const char* centers);

/// Folds as many contiguous values as four vectors take at a time, into one vector; `done` receives their number.
template <class Op, class T>
auto fold_vectors(const Op& op, const T* p, int64_t n, T center, int64_t& done) {
  using V = typename VectorOf<T>::type;
  constexpr int lanes = VectorOf<T>::lanes;
  V start = V{} + op.identity(), middle = V{} + center;
  V a = start, b = start, c = start, d = start;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = op.step(a, load_vector(p + i), middle);
    b = op.step(b, load_vector(p + i + lanes), middle);
    c = op.step(c, load_vector(p + i + 2 * lanes), middle);
    d = op.step(d, load_vector(p + i + 3 * lanes), middle);
  }
  done = i;
  return static_cast<V>(op.merge(static_cast<V>(op.merge(a, b)), static_cast<V>(op.merge(c, d))));
}

/// Folds up to kFoldBlock contiguous values.
template <class Op>
typename Op::Acc fold_block(const Op& op, const typename Op::Value* p, int64_t n, typename Op::Value center) {
  using Acc = typename Op::Acc;
  Acc total = op.identity();
  int64_t i = 0;
  if constexpr (Op::vectorised) {
    if (n >= 4 * VectorOf<Acc>::lanes) {
      auto pair = merge_lanes<2>(fold_vectors(op, p, n, center, i), [&](auto a, auto b) { return op.merge(a, b); });
      total = op.merge(Acc(pair[0]), Acc(pair[1]));
    }
  } else if constexpr (requires { typename Op::Parts; }) {  // complex numbers, folded as their parts side by side
    using Real = typename Acc::value_type;
    typename Op::Parts parts;
    auto pair = merge_lanes<2>(fold_vectors(parts, reinterpret_cast<const Real*>(p), 2 * n, Real(0), i),
                               [&](auto a, auto b) { return parts.merge(a, b); });
    total = Acc(pair[0], pair[1]);
    i /= 2;
  } else if constexpr (requires { op.run(p, n); }) {
    return op.run(p, n);
  }
  for (; i < n; ++i) total = op.step(total, p[i], center);
  return total;
}

template <class Acc>
void store_folded(const Folder& folder, int64_t place, int64_t step, const char* acc, int64_t n) {
  const Acc* from = reinterpret_cast<const Acc*>(acc);
  Acc* to = static_cast<Acc*>(folder.results) + place;
  const FoldArgs& args = folder.args;
  for (int64_t i = 0; i < n; ++i) {
    Acc value = from[i];
    if constexpr (std::is_floating_point_v<Acc>) {
      if (args.divisor != 1) value /= static_cast<Acc>(args.divisor);
      if (args.finish == Finish::Sqrt) value = std::sqrt(value);
      if (args.finish == Finish::Power) value = static_cast<Acc>(std::pow(static_cast<double>(value), 1 / args.power));
    } else if constexpr (!std::is_integral_v<Acc>) {
      if (args.divisor != 1) value /= static_cast<typename Acc::value_type>(args.divisor);
    }
    to[i * step] = value;
  }
}

/// acc[w] = step(acc[w], x[w], center[w]) for `rows` rows at once.
template <int rows, class Op>
[[gnu::always_inline]] inline void enter_rows(const Op& op, typename Op::Acc* acc, const char* first, int64_t stride,
                                              [[maybe_unused]] const typename Op::Value* center, int64_t width) {
  using Value = typename Op::Value;
  const Value* x[rows];
  for (int r = 0; r < rows; ++r) x[r] = reinterpret_cast<const Value*>(first + r * stride);
  FACULA_SIMD
  for (int64_t w = 0; w < width; ++w) {
    typename Op::Acc a = acc[w];
    Value c{};
    if constexpr (requires { Op::centered; }) c = center[w];
    for (int r = 0; r < rows; ++r) a = op.step(a, x[r][w], c);
    acc[w] = a;
  }
}

/// The five functions of a fold: `Op` names its Value and Acc and has identity(), step() and merge().
template <class Op>
struct FolderOf {
  using Value = typename Op::Value;
  using Acc = typename Op::Acc;

  static const Op& op(const Folder& folder) { return *static_cast<const Op*>(folder.fold); }
  static Acc* accumulators(char* acc) { return reinterpret_cast<Acc*>(acc); }

  static void start(const Folder& folder, char* acc, int64_t n) {
    std::fill_n(accumulators(acc), n, op(folder).identity());
  }
  static void rows(const Folder& folder, const char* first, int64_t stride, int64_t rows, int64_t n,
                   [[maybe_unused]] const char* centers, [[maybe_unused]] int64_t center_stride, char* acc) {
    for (int64_t i = 0; i < rows; ++i) {
      Value c{};
      if constexpr (requires { Op::centered; }) c = *reinterpret_cast<const Value*>(centers + i * center_stride);
      accumulators(acc)[i] = fold_block(op(folder), reinterpret_cast<const Value*>(first + i * stride), n, c);
    }
  }
  static void columns(const Folder& folder, const char* first, int64_t stride, int64_t rows, int64_t width,
                      const char* centers, char* acc) {
    constexpr int kTogether = 4;  // rows for which an accumulator is loaded and stored once
    const Value* center = reinterpret_cast<const Value*>(centers);
    int64_t r = 0;
    for (; r + kTogether <= rows; r += kTogether)
      enter_rows<kTogether>(op(folder), accumulators(acc), first + r * stride, stride, center, width);
    for (; r < rows; ++r) enter_rows<1>(op(folder), accumulators(acc), first + r * stride, stride, center, width);
  }
  static void merge(const Folder& folder, char* acc, const char* other, int64_t n) {
    Acc* a = accumulators(acc);
    const Acc* b = reinterpret_cast<const Acc*>(other);
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) a[i] = op(folder).merge(a[i], b[i]);
  }
};

}  // namespace facula::cpu::FACULA_ISA
