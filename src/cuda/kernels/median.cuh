// What is read off sorted rows, NaN last: medians and the most frequent elements. `order` says where elements were.
#pragma once

#include "block.cuh"

namespace facula::cuda {

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

template <bool kIgnoreNan, class C, class O>
__global__ __launch_bounds__(256) void median(Int64 rows, Int64 n, const void* sorted, const Int64* order, void* values,
                                              Int64* positions) {
  for (Int64 r = thread_number(); r < rows; r += thread_count()) {
    const C* row = static_cast<const C*>(sorted) + r * n;
    const Int64 numbers = count_numbers(row, n);
    const Int64 at = numbers == n || (kIgnoreNan && numbers > 0) ? (numbers - 1) / 2 : numbers < n ? numbers : 0;
    static_cast<O*>(values)[r] = convert<O>(row[at]);
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

template <class C, class O>
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
    static_cast<O*>(values)[r] = convert<O>(value);
    positions[r] = order[r * n + best.from + best.length - 1];
    if (value != value) positions[r] = order[r * n];
  }
}

}  // namespace facula::cuda
