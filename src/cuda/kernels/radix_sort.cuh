// A stable sort of rows of keys that are unsigned whole numbers, with a number beside each: passes over 8 bits, from
// the lowest.
#pragma once

#include "block.cuh"
#include "radix_sort_args.h"

namespace facula::cuda {

template <class Key, class Count>
__global__ __launch_bounds__(256) void count_digits(DigitArgs d) {
  FACULA_SHARED(UInt32, found, kDigits);
  for (Int64 unit = blockIdx.x; unit < d.rows * d.tiles; unit += gridDim.x) {
    const Int64 row = unit / d.tiles, tile = unit % d.tiles, from = tile * kSortTile,
                to = from + kSortTile < d.n ? from + kSortTile : d.n;
    const Key* keys = static_cast<const Key*>(d.keys) + row * d.n;
    found[threadIdx.x] = 0;
    __syncthreads();
    for (Int64 i = from + threadIdx.x; i < to; i += 256) atomicAdd(&found[keys[i] >> d.shift & 255], 1u);
    __syncthreads();
    static_cast<Count*>(d.counts)[(row * kDigits + threadIdx.x) * d.tiles + tile] = found[threadIdx.x];
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

/// Moves every element to its place; `counts` are running sums by now. A warp takes 512 neighbors, so that its
/// elements of one digit stay in their order.
template <class Key, class Number, class Count>
__global__ __launch_bounds__(256) void move_digits(DigitArgs d) {
  constexpr int kWarps = 8, kEach = kSortTile / 256;
  FACULA_SHARED(Count, found, kWarps * kDigits);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Count* mine = found + warp * kDigits;
  for (Int64 unit = blockIdx.x; unit < d.rows * d.tiles; unit += gridDim.x) {
    const Int64 row = unit / d.tiles, tile = unit % d.tiles, from = tile * kSortTile + warp * kEach * 32 + lane;
    const Key* keys = static_cast<const Key*>(d.keys) + row * d.n;
    for (int w = 0; w < kWarps; ++w) found[w * kDigits + threadIdx.x] = 0;
    __syncthreads();
    Key key[kEach];
    UInt32 rank[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const bool is_there = from + 32 * j < d.n;
      key[j] = is_there ? keys[from + 32 * j] : Key(0);
      const UInt32 digit = UInt32(key[j] >> d.shift & 255), peers = lanes_with(digit, is_there),
                   before = UInt32(__popc(peers & ((1u << lane) - 1))), sofar = UInt32(mine[digit]);
      rank[j] = sofar + before;
      __syncwarp();
      if (is_there && before == 0) mine[digit] = sofar + UInt32(__popc(peers));
      __syncwarp();
    }
    __syncthreads();
    Count total = 0;
    for (int w = 0; w < kWarps; ++w) total += found[w * kDigits + threadIdx.x];
    Count next = static_cast<const Count*>(d.counts)[(row * kDigits + threadIdx.x) * d.tiles + tile] - total;
    for (int w = 0; w < kWarps; ++w) {
      const Count here = found[w * kDigits + threadIdx.x];
      found[w * kDigits + threadIdx.x] = next;
      next += here;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (const Int64 i = from + 32 * j; i < d.n) {
        const Int64 to = row * d.n + Int64(mine[key[j] >> d.shift & 255]) + rank[j];
        static_cast<Key*>(d.keys_out)[to] = key[j];
        static_cast<Number*>(d.numbers_out)[to] = static_cast<const Number*>(d.numbers)[row * d.n + i];
      }
    __syncthreads();
  }
}

}  // namespace facula::cuda
