// Groups whose steps look at rows, which lie along the innermost dimension: a group of threads for each row, of the
// size that the ops choose when they run alone (lines.h, reduce.cpp), and vectors as they read them, so that elements
// are taken in the same order and results have the same bits. Every thread keeps its elements of every value, and all
// of them keep what there is once a row.
#pragma once

#include "group.cuh"
#include "reduce.cuh"
#include "row_norm.cuh"
#include "softmax.cuh"

namespace facula::cuda {

/// A row as one thread of its group sees it: every kGroup-th vector of kWide elements. Where rows are not made of whole
/// vectors, or do not lie at multiples of them (kWhole is false), these are read and written element by element.
template <int kThreads, int kElements, int kVector, bool kAligned>
struct RowPart {
  static constexpr int kWarps = kThreads, kHeld = kElements, kWide = kVector, kGroup = group_threads(kWarps);
  static constexpr bool kWhole = kAligned;
  Int64 row, n;
  int member;
  bool has;    // there is such a row; else n is 0, and the thread only comes along to barriers
  char* room;  // of shared memory

  /// Calls f(j, i) for each of the thread's vectors, whose first element is its j-th, and number i of the row.
  template <class F>
  FACULA_FN void each_vector(F f) const {
#pragma unroll
    for (int j = 0; j < kHeld; j += kWide)
      if (const Int64 i = member * kWide + Int64(j) * kGroup; i < n) f(j, i);
  }
  /// The same for each element.
  template <class F>
  FACULA_FN void each(F f) const {
    each_vector([&](int j, Int64 i) {
#pragma unroll
      for (int k = 0; k < kWide; ++k)
        if (kWhole || i + k < n) f(j + k, i + k);
    });
  }
  template <class C>
  FACULA_FN C* room_of() const {
    return reinterpret_cast<C*>(room);
  }
};

/// Where a row of the first inputs lies, in bytes.
template <int kDims, int kCount, class Index>
struct RowOffsets {
  Int64 from[kCount] = {};
  FACULA_FN RowOffsets(const GroupArgs& p, Int64 row) {
    Index rest = static_cast<Index>(row);
#pragma unroll
    for (int d = 1; d < kDims; ++d) {
      const Index size = static_cast<Index>(p.shape[d]), next = d + 1 < kDims ? rest / size : 0,
                  at = rest - next * size;
      for (int k = 0; k < kCount; ++k) from[k] += at * p.in[k].strides[d];
      rest = next;
    }
  }
};

template <class M, class Part>
FACULA_FN void take_in_order(M* to, const GroupInput& in, const Part& part) {
  const M* from = static_cast<const M*>(in.data) + part.row * part.n;
  if constexpr (Part::kWhole) {
    part.each_vector([&](int j, Int64 i) {
      const auto vector = load_vector<Part::kWide>(from + i);
#pragma unroll
      for (int k = 0; k < Part::kWide; ++k) to[j + k] = vector.at[k];
    });
  } else {
    part.each([&](int j, Int64 i) { to[j] = from[i]; });
  }
}
template <class M, class Part>
FACULA_FN void take_apart(M* to, const GroupInput& in, Int64 offset, const Part& part) {
  const char* from = static_cast<const char*>(in.data) + offset;
  part.each([&](int j, Int64 i) { to[j] = *reinterpret_cast<const M*>(from + i * in.strides[0]); });
}
/// What there is once a row.
template <class M, class Part>
FACULA_FN M take_of_row(const GroupInput& in, Int64 offset, const Part& part) {
  return part.has ? *reinterpret_cast<const M*>(static_cast<const char*>(in.data) + offset) : M{};
}
template <class O, class Part>
FACULA_FN void give(void* out, const O* elements, const Part& part) {
  O* to = static_cast<O*>(out) + part.row * part.n;
  if constexpr (Part::kWhole) {
    part.each_vector([&](int j, Int64 i) {
      Vector<O, Part::kWide> vector;
#pragma unroll
      for (int k = 0; k < Part::kWide; ++k) vector.at[k] = elements[j + k];
      store_vector(to + i, vector);
    });
  } else {
    part.each([&](int j, Int64 i) { to[i] = elements[j]; });
  }
}
template <class O, class Part>
FACULA_FN void give_of_row(void* out, O element, const Part& part) {
  if (part.has && part.member == 0) static_cast<O*>(out)[part.row] = element;
}

// ---- steps on rows; `zero` as in apart()

template <class Op, class C, class Part>
FACULA_FN C fold_part(const C* elements, UInt32 zero, const Part& part) {
  FoldTotals<Op, C> total;
  part.each([&](int j, Int64) {
    C& mine = total.at[j / Part::kWide % kInFlight];
    mine = Op::merge(mine, apart(elements[j], zero));
  });
  return fold_group<Op, Part::kWarps>(total.merged(), part.template room_of<C>());
}
template <bool kLargest, class C, class Part>
FACULA_FN Best<C> best_part(const C* elements, UInt32 zero, const Part& part) {
  using Op = FirstBest<kLargest>;
  Best<C> best = Op::template identity<Best<C>>();  // every element is better
  part.each([&](int j, Int64 i) { best = Op::merge(best, Best<C>{apart(elements[j], zero), i}); });
  return fold_group<Op, Part::kWarps>(best, part.template room_of<Best<C>>());
}
/// The elements of a row that a step on it changes.
template <class C, class Part>
struct ChangedPart {
  static constexpr bool kHolds = true;
  C* elements;
  const Part& part;

  template <class F>
  FACULA_FN void each(F f) {
    part.each([&](int j, Int64 i) { f(elements[j], i); });
  }
};
template <class C, class Part>
FACULA_FN ChangedPart<C, Part> changed(C* results, const C* elements, UInt32 zero, const Part& part) {
  part.each([&](int j, Int64) { results[j] = apart(elements[j], zero); });
  return {results, part};
}

template <bool kLog, class C, class Part>
FACULA_FN void softmax_part(C* results, const C* elements, UInt32 zero, const Part& part) {
  auto x = changed(results, elements, zero, part);
  softmax_line<kLog, Part::kWarps>(x, part.template room_of<C>(),
                                   [](C& element, Int64, C result) { element = result; });
}
/// `numbers`: what is added to the variance, and whether rows are centered.
template <class C, class Part>
FACULA_FN RowStatistics<C> norm_part(C* results, const C* elements, const void* weight, const void* bias,
                                     const C* numbers, Int64 n, UInt32 zero, const Part& part) {
  auto x = changed(results, elements, zero, part);
  const RowStatistics<C> made = norm_line<Part::kWarps>(x, part.template room_of<C>(), n, numbers[1] != 0, numbers[0]);
  const C *weights = static_cast<const C*>(weight), *biases = static_cast<const C*>(bias);
  x.each([&](C& v, Int64 i) {
    v = scaled(v, made.rstd, weights, weights ? weights[i] : C(), biases, biases ? biases[i] : C());
  });
  return made;
}

template <class Group, int kWarps, int kHeld, int kWide, bool kWhole, class Index>
__global__ __launch_bounds__(256) void group_rows(GroupArgs p) {
  FACULA_SHARED(Best<double>, room, kMostWarps);
  const Int64 n = p.shape[0], rows = p.numel / n;
  for_groups<kWarps>(rows, [&](Int64 row, int member) {
    const bool has = row < rows;
    const RowPart<kWarps, kHeld, kWide, kWhole> part{row, has ? n : 0, member, has, reinterpret_cast<char*>(room)};
    Group::template row<Index>(p, part, has ? row : 0);
  });
}

}  // namespace facula::cuda
