// Stable sorting of rows, and search in them. An element becomes an unsigned key whose order is the wanted one. Rows
// that fit are sorted by key and position in shared memory; longer ones digit by digit.
#pragma once

#include "block.cuh"
#include "report.cuh"
#include "sort_args.h"

namespace facula::cuda {

/// Negative numbers are inverted, the others get the top bit; -0 equals 0, NaN comes last.
template <class T>
FACULA_FN Bits<T> key_of(T value) {
  using K = Bits<T>;
  constexpr K top = K(K(1) << (8 * sizeof(K) - 1));
  const K bits = __builtin_bit_cast(K, value);
  if constexpr (is_floating_type<Compute<T>>) {
    const Compute<T> x = convert<Compute<T>>(value);
    if (x != x) return K(-1);
    if (x == 0) return top;
    return bits & top ? K(~bits) : K(bits | top);
  } else if constexpr (is_same_type<T, bool>) {
    return K(value);
  } else {
    return T(-1) < T(0) ? K(bits ^ top) : bits;
  }
}
template <class T>
FACULA_FN Bits<T> sort_key(T value, bool descending) {
  const Bits<T> key = key_of(value);
  return descending ? Bits<T>(~key) : key;
}

// ---- in shared memory: a bitonic network over `padded` elements, a power of two of at most 8 for each thread

template <class K>
struct Pairs {
  K* keys;
  UInt32* positions;
  /// Puts the elements at a and b, a < b, in order.
  FACULA_FN void order(int a, int b, bool ascending) const {
    const bool is_after = keys[a] > keys[b] || (keys[a] == keys[b] && positions[a] > positions[b]);
    if (is_after != ascending) return;
    const K key = keys[a];
    keys[a] = keys[b];
    keys[b] = key;
    const UInt32 position = positions[a];
    positions[a] = positions[b];
    positions[b] = position;
  }
};

template <class T>
__global__ __launch_bounds__(256) void sort_short(SortArgs s, int padded) {
  using K = Bits<T>;
  constexpr int kEach = 8;
  FACULA_DYNAMIC_SHARED(UInt32, positions);
  const Pairs<K> pairs{reinterpret_cast<K*>(positions + padded), positions};
  for (Int64 r = blockIdx.x; r < s.rows; r += gridDim.x) {
    T* row = static_cast<T*>(s.values) + r * s.n;
    for (int i = threadIdx.x; i < padded; i += blockDim.x) {
      pairs.keys[i] = i < s.n ? sort_key(row[i], s.descending) : K(-1);
      positions[i] = i < s.n ? UInt32(i) : 0xffffffffu;
    }
    for (int length = 2; length <= padded; length *= 2)
      for (int apart = length / 2; apart > 0; apart /= 2) {
        __syncthreads();
        for (int p = threadIdx.x; p < padded / 2; p += blockDim.x) {
          const int a = p / apart * 2 * apart + p % apart;
          pairs.order(a, a + apart, (a & length) == 0);
        }
      }
    __syncthreads();
    T sorted[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (const int i = threadIdx.x + j * blockDim.x; i < s.n) sorted[j] = row[positions[i]];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (const int i = threadIdx.x + j * blockDim.x; i < s.n) {
        row[i] = sorted[j];
        if (s.indices) s.indices[r * s.n + i] = positions[i];
      }
    __syncthreads();
  }
}

// ---- by digits (radix_sort.cuh): before and after

template <class T, class Position>
__global__ __launch_bounds__(256) void sort_keys(SortArgs s, void* keys, void* positions) {
  for (Int64 i = thread_number(); i < s.rows * s.n; i += thread_count()) {
    static_cast<Bits<T>*>(keys)[i] = sort_key(static_cast<const T*>(s.values)[i], s.descending);
    static_cast<Position*>(positions)[i] = Position(i % s.n);
  }
}

/// The elements of `from` in their order.
template <class T, class Position>
__global__ __launch_bounds__(256) void gather_sorted(SortArgs s, const void* from, const void* positions) {
  for (Int64 i = thread_number(); i < s.rows * s.n; i += thread_count()) {
    const Int64 at = Int64(static_cast<const Position*>(positions)[i]);
    static_cast<T*>(s.values)[i] = static_cast<const T*>(from)[i / s.n * s.n + at];
    if (s.indices) s.indices[i] = at;
  }
}

// ---- the first elements of long rows, without sorting them: a block for each row

/// The key of the element that would stand at `place` (from 0) of the sorted row; `place` becomes its place among those
/// with its key. Digit by digit, from the highest: how many of the keys that begin as it does have which digit.
template <class T>
FACULA_FN Bits<T> key_at(const T* row, Int64 n, Int64& place, bool descending, UInt32* found) {
  FACULA_SHARED(Int64, chosen, 2);  // the digit, and how many are before its first
  Bits<T> key = 0;
  for (int shift = 8 * int(sizeof(T)) - 8; shift >= 0; shift -= 8) {
    found[threadIdx.x] = 0;
    __syncthreads();
    for (Int64 i = threadIdx.x; i < n; i += 256) {
      const Bits<T> other = sort_key(row[i], descending);
      if (UInt64(other ^ key) >> shift >> 8 == 0) atomicAdd(&found[other >> shift & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      Int64 before = 0;
      int digit = 0;
      while (before + found[digit] <= place) before += found[digit++];
      chosen[0] = digit;
      chosen[1] = before;
    }
    __syncthreads();
    key |= Bits<T>(Bits<T>(chosen[0]) << shift);
    place -= chosen[1];
  }
  return key;
}

/// act(i, how many hold before it), for the i < n for which holds(i), in order.
template <class Holds, class F>
FACULA_FN void for_holding(Int64 n, UInt32* found, Holds holds, F act) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Int64 start = 0;
  for (Int64 from = 0; from < n; from += 256) {
    const Int64 i = from + threadIdx.x;
    const bool here = i < n && holds(i);
    const UInt32 votes = __ballot_sync(kAllLanes, here);
    if (lane == 0) found[warp] = UInt32(__popc(votes));
    __syncthreads();
    Int64 before = start + __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < 8; ++w) {
      if (w < warp) before += found[w];
      start += found[w];
    }
    if (here) act(i, before);
    __syncthreads();
  }
}

/// The first k elements of every row as it would be sorted, in the order of the row, or (kLast) only the k-th.
template <class T, bool kLast>
__global__ __launch_bounds__(256) void select_first(SortArgs s, Int64 k, const void* in, Int64 row_step) {
  FACULA_SHARED(UInt32, found, 256);
  FACULA_SHARED(Int64, last, 1);
  const Int64 wide = kLast ? 1 : k;
  for (Int64 r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const T* row = static_cast<const T*>(in) + r * row_step;
    T* values = static_cast<T*>(s.values) + r * wide;
    Int64 among = k - 1;
    const Bits<T> key = key_at(row, s.n, among, s.descending, found);
    const auto key_of_element = [&](Int64 i) { return sort_key(row[i], s.descending); };
    for_holding(
        s.n, found, [&](Int64 i) { return key_of_element(i) == key; },
        [&](Int64 i, Int64 before) {
          if (before == among) *last = i;
        });
    const Int64 end = *last;  // of several equal elements the first ones are taken
    if constexpr (kLast) {
      if (threadIdx.x == 0) values[0] = row[end], s.indices[r] = end;
    } else {
      const auto is_among = [&](Int64 i) {
        const Bits<T> other = key_of_element(i);
        return other < key || (other == key && i <= end);
      };
      for_holding(s.n, found, is_among, [&](Int64 i, Int64 before) {
        values[before] = row[i];
        s.indices[r * wide + before] = i;
      });
    }
    __syncthreads();
  }
}

/// What stands at the places of a row that `order` names, into `order`.
__global__ __launch_bounds__(256) void name_places(Int64 count, Int64 n, const Int64* places, Int64* order) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) order[i] = places[i / n * n + order[i]];
}

// ---- search

/// The place of every value (rows, m) in the sequence (rows or 1, n).
template <bool kRight, class T, class I>
__global__ __launch_bounds__(256) void searchsorted(Int64 count, Int64 m, Int64 n, Int64 step, const void* sequence,
                                                    const void* values, const Int64* sorter, void* out,
                                                    Reporter reporter) {
  using C = Compute<T>;
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 row = i / m * step;
    const T* elements = static_cast<const T*>(sequence) + row;
    const C value = convert<C>(static_cast<const T*>(values)[i]);
    Int64 low = 0, high = n;
    while (low < high) {
      const Int64 middle = (low + high) / 2;
      Int64 at = sorter ? sorter[row + middle] : middle;
      if (at < 0 || at >= n) {
        report_value(reporter, double(at));
        at = middle;
      }
      const C element = convert<C>(elements[at]);
      if (kRight ? !(element > value) : !(element >= value)) low = middle + 1;
      else high = middle;
    }
    static_cast<I*>(out)[i] = I(low);
  }
}

}  // namespace facula::cuda
