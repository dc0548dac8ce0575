// Stable sorting of rows, and search in them. An element becomes an unsigned key whose order is the wanted one. Rows
// that fit are sorted by key and position in shared memory; longer ones digit by digit, from the lowest.
#pragma once

#include "block.cuh"
#include "report.cuh"
#include "sort_args.h"

namespace facula::cuda {

template <int kBytes>
struct KeyOfSize {
  using type = UInt32;
};
template <>
struct KeyOfSize<8> {
  using type = UInt64;
};
template <>
struct KeyOfSize<2> {
  using type = UInt16;
};
template <>
struct KeyOfSize<1> {
  using type = UInt8;
};
template <class T>
using Key = typename KeyOfSize<sizeof(T)>::type;

/// Negative numbers are inverted, the others get the top bit; -0 equals 0, NaN comes last.
template <class T>
FACULA_FN Key<T> key_of(T value) {
  using K = Key<T>;
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
FACULA_FN Key<T> sort_key(T value, bool descending) {
  const Key<T> key = key_of(value);
  return descending ? Key<T>(~key) : key;
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
  using K = Key<T>;
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

// ---- by digits

template <class T>
__global__ __launch_bounds__(256) void sort_keys(SortArgs s, void* keys, UInt32* positions) {
  for (Int64 i = thread_number(); i < s.rows * s.n; i += thread_count()) {
    static_cast<Key<T>*>(keys)[i] = sort_key(static_cast<const T*>(s.values)[i], s.descending);
    positions[i] = UInt32(i % s.n);
  }
}

template <class K>
__global__ __launch_bounds__(256) void count_digits(DigitArgs d) {
  FACULA_SHARED(UInt32, found, kDigits);
  for (Int64 unit = blockIdx.x; unit < d.rows * d.tiles; unit += gridDim.x) {
    const Int64 row = unit / d.tiles, tile = unit % d.tiles, from = tile * kTile,
                to = from + kTile < d.n ? from + kTile : d.n;
    const K* keys = static_cast<const K*>(d.keys) + row * d.n;
    found[threadIdx.x] = 0;
    __syncthreads();
    for (Int64 i = from + threadIdx.x; i < to; i += 256) atomicAdd(&found[keys[i] >> d.shift & 255], 1u);
    __syncthreads();
    d.counts[(row * kDigits + threadIdx.x) * d.tiles + tile] = found[threadIdx.x];
    __syncthreads();
  }
}

/// The lanes with the same digit as this one.
FACULA_FN UInt32 lanes_with(UInt32 digit, bool is_there) {
  UInt32 peers = __ballot_sync(kAllLanes, is_there);
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const UInt32 set = __ballot_sync(kAllLanes, int(digit >> bit & 1));
    peers &= digit >> bit & 1 ? set : ~set;
  }
  return peers;
}

/// Moves every element to its place; `counts` are running sums by now. A warp takes 512 neighbours, so that its
/// elements of one digit stay in their order.
template <class K>
__global__ __launch_bounds__(256) void move_digits(DigitArgs d) {
  constexpr int kWarps = 8, kEach = kTile / 256;
  FACULA_SHARED(UInt32, found, kWarps * kDigits);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  UInt32* mine = found + warp * kDigits;
  for (Int64 unit = blockIdx.x; unit < d.rows * d.tiles; unit += gridDim.x) {
    const Int64 row = unit / d.tiles * d.n, tile = unit % d.tiles, from = tile * kTile + warp * kEach * 32 + lane;
    const K* keys = static_cast<const K*>(d.keys) + row;
    for (int w = 0; w < kWarps; ++w) found[w * kDigits + threadIdx.x] = 0;
    __syncthreads();
    K key[kEach];
    UInt32 rank[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const bool is_there = from + 32 * j < d.n;
      key[j] = is_there ? keys[from + 32 * j] : K(0);
      const UInt32 digit = UInt32(key[j] >> d.shift & 255), peers = lanes_with(digit, is_there),
                   before = UInt32(__popc(peers & ((1u << lane) - 1)));
      const UInt32 sofar = mine[digit];
      rank[j] = sofar + before;
      __syncwarp();
      if (is_there && before == 0) mine[digit] = sofar + UInt32(__popc(peers));
      __syncwarp();
    }
    __syncthreads();
    UInt32 total = 0;
    for (int w = 0; w < kWarps; ++w) total += found[w * kDigits + threadIdx.x];
    UInt32 next = d.counts[(unit / d.tiles * kDigits + threadIdx.x) * d.tiles + tile] - total;
    for (int w = 0; w < kWarps; ++w) {
      const UInt32 here = found[w * kDigits + threadIdx.x];
      found[w * kDigits + threadIdx.x] = next;
      next += here;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (const Int64 i = from + 32 * j; i < d.n) {
        const Int64 to = row + mine[key[j] >> d.shift & 255] + rank[j];
        static_cast<K*>(d.keys_out)[to] = key[j];
        d.positions_out[to] = d.positions[row + i];
      }
    __syncthreads();
  }
}

/// The elements of `from` in their order.
template <class T>
__global__ __launch_bounds__(256) void gather_sorted(SortArgs s, const void* from, const UInt32* positions) {
  for (Int64 i = thread_number(); i < s.rows * s.n; i += thread_count()) {
    const Int64 at = positions[i];
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
