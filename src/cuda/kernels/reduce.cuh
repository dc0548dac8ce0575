// Folds. Rows: every result is made by a group of threads (block.cuh); columns: neighboring results are made by
// neighboring threads. Where there are too few results for that, their elements are divided into parts, and the last
// block to come folds what the parts have made, always in the same order.
#pragma once

#include "block.cuh"
#include "reduce_args.h"
#include "statistics.cuh"
#include "vector.cuh"

namespace facula::cuda {

FACULA_FN Int64 offset_of(const FoldDims& d, Int64 at, int first = 0) {
  Int64 offset = 0;
  for (int k = first; k < d.dims; ++k) {
    const Int64 next = k + 1 < d.dims ? at / d.shape[k] : 0;
    offset += (at - next * d.shape[k]) * d.strides[k];
    at = next;
  }
  return offset;
}

// A fold: how elements enter (`enter`: of the compute type C, with the fold's parameters) and how results are merged.
/// Also of what parts have made.
template <class Merge>
struct Plain : Merge {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    return convert<A>(x);
  }
};
using SumFold = Plain<Add>;
using ProdFold = Plain<Multiply>;
using MaxFold = Plain<Max>;
using MinFold = Plain<Min>;
using AnyFold = Plain<Or>;
using AllFold = Plain<And>;
using XorFold = Plain<Xor>;

struct NanSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    return x != x ? A{} : convert<A>(x);
  }
};
struct CountFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    return A(convert<bool>(x));
  }
};
template <class A, class C>
FACULA_FN A magnitude(C x) {
  return kernels::abs(x);
}
template <class Merge>
struct MagnitudeFold : Merge {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    return magnitude<A>(x);
  }
};
using AbsSumFold = MagnitudeFold<Add>;
using AbsMaxFold = MagnitudeFold<Max>;
using AbsMinFold = MagnitudeFold<Min>;
struct SquareSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    if constexpr (is_complex_type<C>) return x.re * x.re + x.im * x.im;
    else return x * x;
  }
};
template <class A>
FACULA_RARE A power_of(A x, A power) {
  return kernels::pow(x, power);
}
struct PowerSumFold : Add {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid& g) {
    return power_of(magnitude<A>(x), A(g.power));
  }
};
/// Moments, of a size whose multiples are aligned.
template <class A>
struct EvenMoments {
  A count, mean, squares, nothing;
};
/// Squares around the mean, in one pass.
struct MomentsFold : MergeMoments {
  template <class A, class C>
  FACULA_FN static A enter(C x, const FoldGrid&) {
    return {1, x, 0};
  }
  /// Totals of n columns, which have as many elements each, with kRows more of each: one division for them all. Sums of
  /// few elements are taken around the first of them, so that equal elements have no squares.
  template <int kRows, int n, class A, class C>
  FACULA_FN static void take(A (&total)[n], const C (&x)[kRows][n]) {
    const C all = total[0].count + kRows, share = kRows / all, weight = total[0].count * share;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      C sum = 0, squares = 0;
#pragma unroll
      for (int r = 1; r < kRows; ++r) {
        const C d = x[r][j] - x[0][j];
        sum += d;
        squares += d * d;
      }
      const C middle = sum * C(1.0 / kRows), apart = x[0][j] + middle - total[j].mean;
      squares -= sum * middle;
      total[j] = {all, total[j].mean + apart * share, total[j].squares + squares + apart * weight * apart};
    }
  }
};

// ---- extrema with their positions

template <class C>
struct Best {
  C value;
  Int64 at;  // -1: nothing, or what is no better than that
};
/// NaN wins; the first of equals.
template <bool kLargest>
struct FirstBest {
  template <class A>
  FACULA_FN static A identity() {
    using C = decltype(A::value);
    return {kLargest ? lowest<C>() : highest<C>(), -1};
  }
  template <class C>
  FACULA_FN static bool is_better(C a, C b) {
    return b == b && (a != a || (kLargest ? a > b : a < b));
  }
  template <class A>
  FACULA_FN static A merge(A a, A b) {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    if (is_better(a.value, b.value)) return a;
    if (is_better(b.value, a.value)) return b;
    return a.at < b.at ? a : b;
  }
};
template <class Fold>
constexpr bool is_placed = false;
template <bool kLargest>
constexpr bool is_placed<FirstBest<kLargest>> = true;
template <class Fold>
constexpr bool is_moments = is_same_type<Fold, MomentsFold>;
template <class Fold, class A>
struct MadeBy {
  using type = A;
};
template <class A>
struct MadeBy<MomentsFold, A> {
  using type = EvenMoments<A>;
};
template <bool kLargest, class A>
struct MadeBy<FirstBest<kLargest>, A> {
  using type = Best<A>;
};
/// What a fold accumulates in.
template <class Fold, class A>
using Made = typename MadeBy<Fold, A>::type;

// ---- results

template <class A>
FACULA_FN A finished(A value, const FoldGrid& g) {
  if constexpr (is_complex_type<A>) {
    using R = decltype(A::re);
    return {value.re / R(g.divisor), value.im / R(g.divisor)};
  } else if constexpr (is_floating_type<A>) {
    if (g.divisor != 1) value /= A(g.divisor);
    if (g.finish == kFinishSqrt) value = kernels::sqrt(value);
    if (g.finish == kFinishPower) value = A(kernels::pow(double(value), 1 / g.power));
  }
  return value;
}

template <class O, class A>
FACULA_FN void give_result(const FoldGrid& g, Int64 result, const A& total) {
  static_cast<O*>(g.out)[result] = convert<O>(finished(total, g));
}
template <class O, class A>
FACULA_FN void give_result(const FoldGrid& g, Int64 result, const EvenMoments<A>& total) {
  give_result<O>(g, result, total.squares);
}
/// All elements of a row may be the worst that there are.
template <class O, class C>
FACULA_FN void give_result(const FoldGrid& g, Int64 result, const Best<C>& total) {
  static_cast<O*>(g.out)[result] = convert<O>(total.value);
  g.positions[result] = total.at < 0 ? 0 : total.at;
}

// ---- what a thread folds: vectors of 16 bytes of neighbors, else single elements

constexpr int kInFlight = 4;  // vectors that a thread requests before it looks at the first

/// The elements of a result as vectors. Where they are neighbors (kBytes > 0), their numbers alone say which of them
/// are a vector: rows at odd addresses have the same sums as others, by more accesses. Lines of kManyLines are of whole
/// vectors.
template <class M, int kBytes, int kPlaces>
struct FoldLine {
  static constexpr int kWide = kBytes ? fold_wide(sizeof(M)) : 1, kMany = kWide == 1 && sizeof(M) < 8 ? 8 : kInFlight;
  using Index = typename BitsOfSize<kPlaces == kAnyPlaces ? 8 : 4>::type;
  using Read = Vector<M, kWide>;
  const M* first;
  Int64 step;    // from an element to the next
  Int64 before;  // elements of other parts
  const FoldGrid& g;

  /// The number of the first element of a vector.
  FACULA_FN Int64 number(Index v) const { return before + Int64(v) * kWide; }
  /// Where the vector begins that is `ahead` of number v.
  FACULA_FN const M* at(Index v, int ahead) const {
    const Int64 apart = kBytes ? Int64(kWide) : step;
    if constexpr (kPlaces == kOneLine) {
      return first + v * apart + ahead * apart;
    } else if constexpr (kPlaces == kManyLines) {
      UInt32 rest = v + ahead;
      const UInt32 line = g.line.divide(rest);
      return first + line * g.reduced.strides[1] + rest * apart;
    } else {
      return first + offset_of(g.reduced, v + ahead);
    }
  }
  FACULA_FN Read load(Index v, int ahead) const {
    return load_neighbors<kWide, kBytes ? kBytes : int(sizeof(M))>(at(v, ahead));
  }
};

/// The element whose number is `at`; those before it have entered.
template <class Fold, class C, class A>
FACULA_FN A enter_one(const A& total, C x, Int64 at, const FoldGrid& g) {
  if constexpr (is_placed<Fold>) return Fold::is_better(x, total.value) ? A{x, at} : total;
  else return Fold::merge(total, Fold::template enter<A>(x, g));
}
template <class M>
constexpr bool is_small_whole =
    is_same_type<M, Int8> || is_same_type<M, UInt8> || is_same_type<M, Int16> || is_same_type<M, UInt16>;
/// In what elements of a vector are compared that become a C: 32 bits where they fit.
template <class M, class C>
struct WordOfWhole {
  using type = C;
};
template <class M>
  requires(is_small_whole<M> || is_same_type<M, Int32>)
struct WordOfWhole<M, Int64> {
  using type = Int32;
};
/// Whether the elements of a vector are folded as 32 bits, which the result fits, and only then as 64.
template <class Fold, class M, class A>
constexpr bool folds_words =
    is_same_type<A, Int64> &&
    (is_same_type<Fold, CountFold> || (is_same_type<Fold, SumFold> && is_small_whole<M>) ||
     ((is_same_type<Fold, MaxFold> || is_same_type<Fold, MinFold>) && (is_small_whole<M> || is_same_type<M, Int32>)));

/// A vector of elements from number `at` on.
template <class Fold, class C, class A, class M, int n>
FACULA_FN A enter_all(A total, const Vector<M, n>& elements, Int64 at, const FoldGrid& g) {
  const auto wide = widen_all(elements);
  if constexpr (is_moments<Fold>) {
    A totals[1] = {total};
    C x[n][1];
#pragma unroll
    for (int j = 0; j < n; ++j) x[j][0] = convert<C>(wide.at[j]);
    MomentsFold::take<n>(totals, x);
    return totals[0];
  } else if constexpr (is_placed<Fold>) {
    using Word = typename WordOfWhole<M, C>::type;
    Word best = convert<Word>(wide.at[0]);
    int place = 0;
#pragma unroll
    for (int j = 1; j < n; ++j) {
      const Word x = convert<Word>(wide.at[j]);
      const bool better = Fold::is_better(x, best);
      best = better ? x : best;
      place = better ? j : place;
    }
    return enter_one<Fold>(total, C(best), at + place, g);
  } else if constexpr (folds_words<Fold, M, A>) {
    Int32 words = Fold::template identity<Int32>();
#pragma unroll
    for (int j = 0; j < n; ++j) words = Fold::merge(words, Fold::template enter<Int32>(convert<C>(wide.at[j]), g));
    return Fold::merge(total, A(words));
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) total = enter_one<Fold>(total, convert<C>(wide.at[j]), at, g);
    return total;
  }
}

/// The moments of several vectors.
template <class C, class A, class M, int n, int kMany>
FACULA_FN A enter_together(const A& total, const Vector<M, n> (&elements)[kMany]) {
  A totals[1] = {total};
  C x[kMany * n][1];
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    const auto wide = widen_all(elements[m]);
#pragma unroll
    for (int j = 0; j < n; ++j) x[m * n + j][0] = convert<C>(wide.at[j]);
  }
  MomentsFold::take<kMany * n>(totals, x);
  return totals[0];
}

/// A thread's totals: each is of every kInFlight-th of its vectors; of moments the first is of what is read together.
template <class Fold, class A>
struct FoldTotals {
  A at[kInFlight];
  FACULA_FN FoldTotals() {
#pragma unroll
    for (int m = 0; m < kInFlight; ++m) at[m] = Fold::template identity<A>();
  }
  FACULA_FN A merged() const { return Fold::merge(Fold::merge(at[0], at[1]), Fold::merge(at[2], at[3])); }
};

/// What a thread folds of the vectors from `begin` to `end`, of which it takes every kThreads-th, and of the `rest`, a
/// part of a vector behind them.
template <class Fold, class C, class A, int kThreads, class Line>
FACULA_FN A fold_line(const Line& line, typename Line::Index begin, typename Line::Index end, int rest, int member,
                      const FoldGrid& g) {
  constexpr int kMany = Line::kMany, kTurn = kMany * kThreads;
  typename Line::Index v = begin + member;
  typename Line::Read read[kMany];
  FoldTotals<Fold, A> total;
  const auto enter = [&](int m) {
    A& mine = total.at[m % kInFlight];
    mine = enter_all<Fold, C>(mine, read[m], line.number(v + m * kThreads), g);
  };
#pragma unroll 1
  for (; v + (kTurn - kThreads) < end; v += kTurn) {
#pragma unroll
    for (int m = 0; m < kMany; ++m) read[m] = line.load(v, m * kThreads);
    if constexpr (is_moments<Fold>) {
      total.at[0] = enter_together<C>(total.at[0], read);
    } else {
#pragma unroll
      for (int m = 0; m < kMany; ++m) enter(m);
    }
  }
#pragma unroll
  for (int m = 0; m < kMany - 1; ++m)
    if (v + m * kThreads < end) read[m] = line.load(v, m * kThreads);
#pragma unroll
  for (int m = 0; m < kMany - 1; ++m)
    if (v + m * kThreads < end) enter(m);
  if constexpr (Line::kWide > 1) {
    if (rest == 0 || (end - begin) % kThreads != UInt32(member)) return total.merged();
#pragma unroll 1
    for (int j = 0; j < rest; ++j) {
      const C x = convert<C>(line.at(end, 0)[j]);
#pragma unroll
      for (int m = 0; m < kInFlight; ++m)
        if (v + m * kThreads == end) total.at[m] = enter_one<Fold>(total.at[m], x, line.number(end) + j, g);
    }
  }
  return total.merged();
}

// ---- rows

/// The part of a result's elements that a group of threads folds.
template <class Fold, class M, class C, class A, int kThreads, int kBytes, int kPlaces>
FACULA_FN A fold_part(const FoldGrid& g, Int64 result, Int64 from, int member) {
  using Line = FoldLine<M, kBytes, kPlaces>;
  using Index = typename Line::Index;
  Line line{static_cast<const M*>(g.in) + offset_of(g.retained, result), g.reduced.strides[0], 0, g};
  const bool is_last = from + g.part >= g.units;
  const Int64 size = is_last ? g.units - from : g.part;
  const int rest = is_last ? g.rest : 0;
  if constexpr (kPlaces != kOneLine) {
    return fold_line<Fold, C, A, kThreads>(line, Index(from), Index(from + size), rest, member, g);
  } else {
    line.before = from * Line::kWide;
    line.first += line.before * (kBytes ? 1 : line.step);
    return fold_line<Fold, C, A, kThreads>(line, 0, Index(size), rest, member, g);
  }
}

/// What the parts of a result have made, by the block that comes last.
template <class Fold, class A>
FACULA_FN A fold_made(const A* made, const FoldGrid& g) {
  const FoldLine<A, 0, kOneLine> line{made, 1, 0, g};
  return fold_line<Plain<Fold>, A, A, 256>(line, 0u, UInt32(g.parts), 0, int(threadIdx.x), g);
}

template <class Fold, class M, class C, class A, class O, int kWarps, int kBytes, int kPlaces>
__global__ __launch_bounds__(256) void fold_rows(FoldGrid g) {
  using T = Made<Fold, A>;
  FACULA_SHARED(T, room, kMostWarps);
  const Int64 groups = g.results * g.parts;
  for_groups<kWarps>(groups, [&](Int64 group, int member) {
    const Int64 result = g.parts > 1 ? group / g.parts : group, number = group - result * g.parts;
    T total = Fold::template identity<T>();
    if (group < groups)
      total = fold_part<Fold, M, C, T, group_threads(kWarps), kBytes, kPlaces>(g, result, number * g.part, member);
    total = fold_group<Fold, kWarps>(total, room);
    if constexpr (kWarps == 8) {
      if (g.parts > 1) {
        T* made = static_cast<T*>(g.made) + result * g.parts;
        if (member == 0) made[number] = total;
        if (!is_last_block(g.tickets + result, g.parts)) return;
        total = fold_block<Fold>(fold_made<Fold>(made, g), room);
      }
    }
    if (group < groups && member == 0) give_result<O>(g, result, total);
  });
}

// ---- columns: a block has a strip of g.lanes vectors, and folds as many rows at once as it has threads for

/// The rows that a thread folds: every `pace`-th from number `row` on, where one is, and the next, of a matrix,
template <class M>
struct EvenRows {
  const M* at;
  Int64 apart;  // in elements
  Int64 row;
  int pace;
  FACULA_FN const M* ahead(int rows) const { return at + rows * apart; }
  FACULA_FN void go_on(int rows) {
    at += rows * apart;
    row += rows * pace;
  }
};
/// or where FoldPlaces says.
template <class M, int kPlaces>
struct OtherRows {
  const M* first;
  Int64 row;
  int pace;
  const FoldGrid& g;
  FACULA_FN const M* ahead(int rows) const {
    if constexpr (kPlaces == kManyLines) {
      UInt32 rest = UInt32(row) + rows * pace;
      const UInt32 line = g.line.divide(rest);
      return first + line * g.reduced.strides[1] + rest * g.reduced.strides[0];
    } else {
      return first + offset_of(g.reduced, row + rows * pace);
    }
  }
  FACULA_FN void go_on(int rows) { row += rows * pace; }
};
template <int kPlaces, class M>
FACULA_FN auto rows_from(const M* first, Int64 row, int pace, const FoldGrid& g) {
  const Int64 step = g.reduced.strides[0];
  if constexpr (kPlaces != kOneLine) return OtherRows<M, kPlaces>{first, row, pace, g};
  else return EvenRows<M>{first + row * step, pace * step, row, pace};
}

/// Folds a vector of columns of so many rows into `total`.
template <class Fold, class C, int kBytes, int kMany, class A, int kWide, class Rows>
FACULA_FN void fold_column(A (&total)[kWide], Rows rows, Int64 count, const FoldGrid& g) {
  const auto enter = [&](const auto& read, Int64 row) {
    const auto wide = widen_all(read);
#pragma unroll
    for (int j = 0; j < kWide; ++j) total[j] = enter_one<Fold>(total[j], convert<C>(wide.at[j]), row, g);
  };
#pragma unroll 1
  for (; count >= kMany; count -= kMany, rows.go_on(kMany)) {
    decltype(load_neighbors<kWide, kBytes>(rows.ahead(0))) read[kMany];
#pragma unroll
    for (int m = 0; m < kMany; ++m) read[m] = load_neighbors<kWide, kBytes>(rows.ahead(m));
    if constexpr (is_moments<Fold>) {
      C x[kMany][kWide];
#pragma unroll
      for (int m = 0; m < kMany; ++m) {
        const auto wide = widen_all(read[m]);
#pragma unroll
        for (int j = 0; j < kWide; ++j) x[m][j] = convert<C>(wide.at[j]);
      }
      MomentsFold::take<kMany>(total, x);
    } else {
#pragma unroll
      for (int m = 0; m < kMany; ++m) enter(read[m], rows.row + m * rows.pace);
    }
  }
#pragma unroll 1
  for (; count > 0; --count, rows.go_on(1)) enter(load_neighbors<kWide, kBytes>(rows.ahead(0)), rows.row);
}
/// How many rows a thread has: every `pace`-th of `count`, from number y on.
FACULA_FN Int64 rows_of(Int64 count, int y, int pace) { return y < count ? (count - y + pace - 1) / pace : 0; }

/// Merges what the threads of a block have of the same columns; `give` gets (number in the strip, total) of each.
template <class Fold, class A, int kWide, class F>
FACULA_FN void merge_columns(A (&total)[kWide], int lanes, A* room, F give) {
  for (int by = lanes; by < 32; by *= 2)
#pragma unroll
    for (int j = 0; j < kWide; ++j) total[j] = Fold::merge(total[j], shuffle_across(total[j], by));
  const int apart = lanes < 32 ? 32 : lanes, x = threadIdx.x % apart, y = threadIdx.x / apart, columns = lanes * kWide;
#pragma unroll
  for (int j = 0; j < kWide; ++j)
    if (x < lanes) room[y * columns + x * kWide + j] = total[j];
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += 256) {
    A all = room[c];
    for (int k = 1; k < 256 / apart; ++k) all = Fold::merge(all, room[k * columns + c]);
    give(c, all);
  }
  __syncthreads();  // before the room is used again
}

template <class Fold, class M, class C, class A, class O, int kBytes, int kPlaces>
__global__ __launch_bounds__(256) void fold_columns(FoldGrid g) {
  using T = Made<Fold, A>;
  constexpr int kWide = kBytes == 16 ? column_wide(sizeof(M), sizeof(T)) : 1;
  FACULA_SHARED(T, room, 256 * kWide);
  const int x = threadIdx.x & (g.lanes - 1), y = threadIdx.x / g.lanes, pace = 256 / g.lanes;
  const Int64 outer = blockIdx.x / g.strips, columns = g.retained.shape[0],
              strip = Int64(blockIdx.x % g.strips) * g.lanes * kWide, column = strip + x * kWide;
  const bool has = column < columns;
  T total[kWide];
#pragma unroll
  for (int j = 0; j < kWide; ++j) {
    total[j] = Fold::template identity<T>();
  }
  const M* first = static_cast<const M*>(g.in) + column * g.retained.strides[0] + offset_of(g.retained, outer, 1);
  const Int64 from = blockIdx.y * g.part, count = from + g.part < g.units ? g.part : g.units - from;
  if (has)
    fold_column<Fold, C, kBytes, kBytes == 16 ? 4 : 8>(total, rows_from<kPlaces>(first, from + y, pace, g),
                                                       rows_of(count, y, pace), g);
  T* made = static_cast<T*>(g.made) + outer * columns;
  const auto give = [&](int c, const T& all) {
    if (strip + c < columns) give_result<O>(g, outer * columns + strip + c, all);
  };
  if (g.parts == 1) return merge_columns<Fold>(total, g.lanes, room, give);
  merge_columns<Fold>(total, g.lanes, room, [&](int c, const T& all) {
    if (strip + c < columns) made[blockIdx.y * g.results + strip + c] = all;
  });
  if (!is_last_block(g.tickets + blockIdx.x, g.parts)) return;
#pragma unroll
  for (int j = 0; j < kWide; ++j) total[j] = Fold::template identity<T>();
  if (has)
    fold_column<Plain<Fold>, T, (kWide > 1 ? 16 : int(sizeof(T))), 2>(
        total, EvenRows<T>{made + y * g.results + column, pace * g.results, 0, 0}, rows_of(g.parts, y, pace), g);
  merge_columns<Fold>(total, g.lanes, room, give);
}

}  // namespace facula::cuda
