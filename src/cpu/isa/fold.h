// Reductions ("folds") of strided tensors. Whatever the layout, a fold becomes one of two shapes: rows, where the
// elements that lie closest together are reduced, and columns, where they belong to different results. Partial results
// are merged pairwise over blocks of fixed size, so that rounding errors grow with the logarithm of the length and the
// result does not depend on the number of threads. Sums of floats are double between short runs.
//
// The walk over the tensor (fold.cpp) is compiled once for all folds: elements and accumulators are bytes to it, and a
// fold is five functions (FolderOf), each of which does much in one call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/float_lanes.h"
#include "cpu/isa/lanes.h"
#include "ops/reduce.h"

namespace facula::cpu::FACULA_ISA {

/// Elements folded by one pass of vector accumulators.
constexpr int64_t kFoldBlock = std::min(4096, 128 * kVectorBytes);
/// Elements that enter an accumulator of floats one after the other, before it is added to another one: the rounding
/// errors of a sum grow with the length of such runs.
constexpr int64_t kRun = 8;

struct Folder;

/// A fold's `rows` and `columns` of float16 or bfloat16 as it lies, without centers; null where it is converted first.
struct NarrowFolder {
  void (*rows)(const Folder&, const char* first, int64_t stride, int64_t rows, int64_t n, const char*, int64_t,
               char* acc) = nullptr;
  void (*columns)(const Folder&, const char* first, int64_t stride, int64_t rows, int64_t width, const char*,
                  char* acc) = nullptr;
};

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
  NarrowFolder bfloats, halves;
};

/// Folds `in` into the results; `centers` are contiguous, shaped as `out`.
void run_fold(const Folder& folder, const Tensor& out, const Tensor& in, const char* centers);
/// The same of `n` elements one after the other, given the accumulators of their blocks of kFoldBlock elements, which
/// are used up.
void merge_blocks(const Folder& folder, char* blocks, int64_t n);
/// The fold that a kernel for sums or extrema makes of Float32 or Float64.
Folder folder_of(const FoldKernel& kernel, const FoldArgs& args, void* results);

/// Whether a fold keeps sums of its values in a wider type.
template <class Op>
constexpr bool is_wide() {
  if constexpr (requires { Op::wide; }) return Op::wide;
  else return false;
}

/// Enters `steps` times `count` vectors from `p` on into as many accumulators.
template <int count, class Op, class T, class V>
[[gnu::always_inline]] inline void enter_vectors(const Op& op, const T* p, int64_t steps, V middle, V* acc) {
  constexpr int64_t lanes = kWideLanes<T>;
  V a[count];
  std::copy_n(acc, count, a);
  for (const T* end = p + steps * count * lanes; p < end; p += count * lanes) {
#pragma GCC unroll 8
    for (int k = 0; k < count; k += 2) {
      const auto pair = load_pair(p + k * lanes);
      a[k] = op.step(a[k], pair.first, middle);
      a[k + 1] = op.step(a[k + 1], pair.second, middle);
    }
  }
  std::copy_n(a, count, acc);
}

/// Folds as many contiguous values as four vectors take at a time, into one vector; `done` receives their number.
template <class Op, class T>
auto fold_vectors(const Op& op, const T* p, int64_t n, Computed<T> center, int64_t& done) {
  using V = WideVector<T>;
  constexpr int64_t four = 4 * kWideLanes<T>;
  const V start = V{} + static_cast<Computed<T>>(op.identity()), middle = V{} + center;
  V acc[4] = {start, start, start, start};
  const int64_t steps = n / four;
  done = steps * four;
  if constexpr (is_wide<Op>()) {
    enter_vectors<4>(op, p, std::min(steps, kRun), middle, acc);
    for (int64_t i = kRun; i < steps; i += kRun) {
      V run[4] = {start, start, start, start};
      enter_vectors<4>(op, p + i * four, std::min(steps - i, kRun), middle, run);
      for (int k = 0; k < 4; ++k) acc[k] = op.merge(acc[k], run[k]);
    }
  } else if constexpr (kVectorBytes == 64) {  // 32 registers, and comparisons that take their time
    V eight[8] = {start, start, start, start, start, start, start, start};
    enter_vectors<8>(op, p, steps / 2, middle, eight);
    for (int k = 0; k < 4; ++k) acc[k] = op.merge(eight[k], eight[k + 4]);
    enter_vectors<4>(op, p + steps / 2 * 2 * four, steps % 2, middle, acc);
  } else {
    enter_vectors<4>(op, p, steps, middle, acc);
  }
  return static_cast<V>(op.merge(static_cast<V>(op.merge(acc[0], acc[1])), static_cast<V>(op.merge(acc[2], acc[3]))));
}

/// The sums of the lanes with even and with odd numbers, in double where they are floats.
template <class V>
auto pair_of(V v) {
  constexpr auto add = [](auto a, auto b) { return a + b; };
  using T = std::remove_cvref_t<decltype(v[0])>;
  if constexpr (std::is_same_v<T, float>) {
    typedef T Half __attribute__((vector_size(sizeof(V) / 2)));
    using Wide = typename VectorOf<double>::type;
    static_assert(sizeof(V) == sizeof(Wide));
    Half halves[2];
    std::memcpy(halves, &v, sizeof v);
    return merge_lanes<2>(__builtin_convertvector(halves[0], Wide) + __builtin_convertvector(halves[1], Wide), add);
  } else {
    return merge_lanes<2>(v, add);
  }
}

/// Folds up to kFoldBlock contiguous values, of which memory has `Stored`.
template <class Op, class Stored>
typename Op::Acc fold_block(const Op& op, const Stored* p, int64_t n, typename Op::Value center) {
  using Acc = typename Op::Acc;
  Acc total(op.identity());
  int64_t i = 0;
  if constexpr (Op::vectorized) {
    using V = typename VectorOf<typename Op::Value>::type;
    constexpr int64_t lanes = VectorOf<typename Op::Value>::lanes;
    if (n >= lanes) {
      const V middle = V{} + center;
      V folded = V{} + static_cast<typename Op::Value>(op.identity());
      if (n >= 4 * lanes) folded = fold_vectors(op, p, n, center, i);
      for (; i + lanes <= n; i += lanes) folded = op.step(folded, load_wide(p + i), middle);
      if constexpr (is_wide<Op>()) {
        const auto pair = pair_of(folded);
        total = pair[0] + pair[1];
      } else {
        total = Acc(merge_all(folded, [&](auto a, auto b) { return op.merge(a, b); }));
      }
    }
  } else if constexpr (requires { typename Op::Parts; }) {  // complex numbers, folded as their parts side by side
    using Real = typename Op::Value::value_type;
    const auto pair = pair_of(fold_vectors(typename Op::Parts(), reinterpret_cast<const Real*>(p), 2 * n, Real(0), i));
    total = Acc(pair[0], pair[1]);
    i /= 2;
  } else if constexpr (requires { op.run(p, n); }) {
    return op.run(p, n);
  }
  for (; i < n; ++i) total = op.step(total, load(p[i]), center);
  return total;
}

template <class Acc, class Result>
void store_folded(const Folder& folder, int64_t place, int64_t step, const char* acc, int64_t n) {
  const Acc* from = reinterpret_cast<const Acc*>(acc);
  Result* to = static_cast<Result*>(folder.results) + place;
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
    to[i * step] = static_cast<Result>(value);
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
    Value c{};
    if constexpr (requires { Op::centered; }) c = center[w];
    if constexpr (is_wide<Op>()) {
      Value run = op.identity();
      for (int r = 0; r < rows; ++r) run = op.step(run, x[r][w], c);
      acc[w] += typename Op::Acc(run);
    } else {
      typename Op::Acc a = acc[w];
      for (int r = 0; r < rows; ++r) a = op.step(a, x[r][w], c);
      acc[w] = a;
    }
  }
}

/// The same of float16 or bfloat16, in vectors.
template <int rows, class Stored, class Op>
[[gnu::always_inline]] inline void enter_narrow_rows(const Op& op, typename Op::Acc* acc, const char* first,
                                                     int64_t stride, int64_t width) {
  using V = WideVector<Stored>;
  using Acc = typename Op::Acc;
  constexpr int64_t lanes = kWideLanes<Stored>, parts = static_cast<int64_t>(sizeof(Acc) / sizeof(float));
  using Part = typename VectorOf<float, kVectorBytes / parts>::type;
  using Sums = typename VectorOf<Acc>::type;
  const auto fold = [&](auto read) {
    PairOf<V> run{V{} + static_cast<float>(op.identity()), V{} + static_cast<float>(op.identity())};
    for (int r = 0; r < rows; ++r) {
      const PairOf<V> x = read(reinterpret_cast<const Stored*>(first + r * stride));
      run = {op.step(run.first, x.first, V{}), op.step(run.second, x.second, V{})};
    }
    return in_order<Stored>(run);
  };
  const auto enter = [&](PairOf<V> run, Acc* to) {
    Part part[2 * parts];
    std::memcpy(part, &run, sizeof run);
    for (int k = 0; k < 2 * parts; ++k) {
      Sums sums = load_vector(to + k * (lanes / parts));
      sums = op.merge(sums, __builtin_convertvector(part[k], Sums));
      std::memcpy(to + k * (lanes / parts), &sums, sizeof sums);
    }
  };
  int64_t w = 0;
  for (; w + 2 * lanes <= width; w += 2 * lanes)
    enter(fold([=](const Stored* x) { return load_pair(x + w); }), acc + w);
  if (w == width) return;
  Acc rest[2 * lanes];
  const auto bytes = static_cast<size_t>(width - w) * sizeof(Acc);
  std::fill_n(rest, 2 * lanes, Acc(op.identity()));
  std::memcpy(rest, acc + w, bytes);
  enter(fold([=](const Stored* x) { return load_first_pair(x + w, width - w); }), rest);
  std::memcpy(acc + w, rest, bytes);
}

/// The five functions of a fold: `Op` names its Value and Acc and has identity(), step() and merge().
template <class Op>
struct FolderOf {
  using Value = typename Op::Value;
  using Acc = typename Op::Acc;

  static const Op& op(const Folder& folder) { return *static_cast<const Op*>(folder.fold); }
  static Acc* accumulators(char* acc) { return reinterpret_cast<Acc*>(acc); }

  static void start(const Folder& folder, char* acc, int64_t n) {
    std::fill_n(accumulators(acc), n, Acc(op(folder).identity()));
  }
  template <class Stored>
  static void rows(const Folder& folder, const char* first, int64_t stride, int64_t rows, int64_t n,
                   [[maybe_unused]] const char* centers, [[maybe_unused]] int64_t center_stride, char* acc) {
    for (int64_t i = 0; i < rows; ++i) {
      Value c{};
      if constexpr (requires { Op::centered; }) c = *reinterpret_cast<const Value*>(centers + i * center_stride);
      accumulators(acc)[i] = fold_block(op(folder), reinterpret_cast<const Stored*>(first + i * stride), n, c);
    }
  }
  static constexpr int kTogether = is_wide<Op>() ? kRun : 4;  // rows for which an accumulator is loaded and stored once
  template <class Stored>
  static void narrow_columns(const Folder& folder, const char* first, int64_t stride, int64_t rows, int64_t width,
                             const char*, char* acc) {
    int64_t r = 0;
    for (; r + kTogether <= rows; r += kTogether)
      enter_narrow_rows<kTogether, Stored>(op(folder), accumulators(acc), first + r * stride, stride, width);
    for (; r < rows; ++r)
      enter_narrow_rows<1, Stored>(op(folder), accumulators(acc), first + r * stride, stride, width);
  }
  template <class Stored>
  static NarrowFolder narrow() {
    if constexpr (std::is_same_v<Value, float> && Op::vectorized && !requires { Op::centered; })
      return {rows<Stored>, narrow_columns<Stored>};
    else return {};
  }
  static void columns(const Folder& folder, const char* first, int64_t stride, int64_t rows, int64_t width,
                      const char* centers, char* acc) {
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
