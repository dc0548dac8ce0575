// Extrema with their positions, and what is read off sorted rows: medians and the most frequent elements.
#pragma once

#include "lines.cuh"

namespace facula::cuda {

template <class C>
struct Best {
  C value;
  Int64 at;  // -1: nothing
};
/// NaN wins; the first of equals.
template <bool kLargest>
struct FirstBest {
  template <class A>
  FACULA_FN static A identity() {
    A none{};
    none.at = -1;
    return none;
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

template <bool kLargest, class M, class C, int kWarps>
__global__ __launch_bounds__(256) void extremum(ExtremumArgs e) {
  using Op = FirstBest<kLargest>;
  FACULA_SHARED(Best<C>, room, kMostWarps);
  const Int64 units = e.shape.outer * e.shape.inner * e.parts;
  for_groups<kWarps>(units, [&](Int64 unit, int member) {
    Best<C> best = Op::template identity<Best<C>>();
    if (unit < units) {
      const Int64 from = unit % e.parts * e.part, to = from + e.part < e.shape.n ? from + e.part : e.shape.n,
                  start = line_start(e.shape, unit / e.parts);
      for (Int64 i = from + member; i < to; i += group_threads(kWarps)) {
        const Int64 at = start + i * e.shape.inner;
        best = Op::merge(best, Best<C>{convert<C>(static_cast<const M*>(e.in)[at]), e.from ? e.from[at] : i});
      }
    }
    best = fold_group<Op, kWarps>(best, room);
    if (unit >= units || member) return;
    static_cast<C*>(e.values)[unit] = best.value;
    e.positions[unit] = best.at;
  });
}

// ---- of sorted rows, NaN last; `order` tells where the elements were

/// The number of elements of a sorted row that are not NaN.
template <class C>
FACULA_FN Int64 count_numbers(const C* row, Int64 n) {
  Int64 low = 0, high = n;
  while (low < high) {
    const Int64 middle = (low + high) / 2;
    if (row[middle] == row[middle]) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <bool kIgnoreNan, class C>
__global__ __launch_bounds__(256) void median(Int64 rows, Int64 n, const void* sorted, const Int64* order, void* values,
                                              Int64* positions) {
  for (Int64 r = thread_number(); r < rows; r += thread_count()) {
    const C* row = static_cast<const C*>(sorted) + r * n;
    const Int64 numbers = count_numbers(row, n);
    const Int64 at = numbers == n || (kIgnoreNan && numbers > 0) ? (numbers - 1) / 2 : numbers < n ? numbers : 0;
    static_cast<C*>(values)[r] = row[at];
    positions[r] = order[r * n + at];
  }
}

struct Run {
  Int64 length, from;
};
/// The first of the longest.
struct LongestRun {
  FACULA_FN static Run merge(Run a, Run b) {
    return a.length > b.length || (a.length == b.length && a.from < b.from) ? a : b;
  }
};
/// The end of the run of equal elements that begins at `from`.
template <class C>
FACULA_FN Int64 run_end(const C* row, Int64 n, Int64 from) {
  Int64 low = from + 1, high = n;
  while (low < high) {
    const Int64 middle = (low + high) / 2;
    if (row[middle] == row[from]) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <class C>
__global__ __launch_bounds__(256) void mode(Int64 rows, Int64 n, const void* sorted, const Int64* order, void* values,
                                            Int64* positions) {
  FACULA_SHARED(Run, room, kMostWarps);
  for (Int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    const C* row = static_cast<const C*>(sorted) + r * n;
    Run best{0, 0};
    for (Int64 i = threadIdx.x; i < n; i += 256)
      if (i == 0 || !(row[i - 1] == row[i])) best = LongestRun::merge(best, Run{run_end(row, n, i) - i, i});
    best = fold_block<LongestRun>(best, room);
    if (threadIdx.x) continue;
    const C value = row[best.from];
    static_cast<C*>(values)[r] = value;
    positions[r] = order[r * n + best.from + best.length - 1];
    if (value != value) positions[r] = order[r * n];
  }
}

}  // namespace facula::cuda
