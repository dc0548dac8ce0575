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
