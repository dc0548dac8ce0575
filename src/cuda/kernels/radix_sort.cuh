// A stable sort of keys that are unsigned whole numbers, with a number beside each: passes over 8 bits, from the
// lowest.
#pragma once

#include "block.cuh"

namespace facula::cuda {

constexpr int kDigits = 256, kSortTile = 4096;  // a block of 256 threads takes a tile

/// counts[digit * tiles + tile]
template <class Key>
__global__ __launch_bounds__(256) void radix_count(const void* keys, Int64 count, int shift, Int64* counts) {
  FACULA_SHARED(UInt32, found, kDigits);
  const Int64 tiles = (count + kSortTile - 1) / kSortTile;
  for (Int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    found[threadIdx.x] = 0;
    __syncthreads();
    const Int64 to = (tile + 1) * kSortTile < count ? (tile + 1) * kSortTile : count;
    for (Int64 i = tile * kSortTile + threadIdx.x; i < to; i += 256)
      atomicAdd(&found[static_cast<const Key*>(keys)[i] >> shift & 255], 1u);
    __syncthreads();
    counts[Int64(threadIdx.x) * tiles + tile] = found[threadIdx.x];
    __syncthreads();
  }
}

/// The lanes of the warp with the same digit; 0 lanes where there is none.
FACULA_FN UInt32 peers_of(UInt32 digit, bool is_there) {
  UInt32 peers = __ballot_sync(kAllLanes, is_there);
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const UInt32 set = __ballot_sync(kAllLanes, digit >> bit & 1);
    peers &= digit >> bit & 1 ? set : ~set;
  }
  return peers;
}

/// Every element to its place; `starts` are the sums of the counts before.
template <class Key, class Number>
__global__ __launch_bounds__(256) void radix_move(const void* keys, const void* numbers, void* keys_out,
                                                  void* numbers_out, Int64 count, int shift, const Int64* starts) {
  constexpr int kWarps = 8;
  FACULA_SHARED(Int64, places, kWarps * kDigits);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Int64 tiles = (count + kSortTile - 1) / kSortTile;
  for (Int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    Int64 next = starts[Int64(threadIdx.x) * tiles + tile];  // of the digit that this thread looks after
    for (Int64 from = tile * kSortTile; from < (tile + 1) * kSortTile && from < count; from += 256) {
      const Int64 i = from + threadIdx.x;
      const bool is_there = i < count;
      const Key key = is_there ? static_cast<const Key*>(keys)[i] : Key(0);
      const UInt32 digit = UInt32(key >> shift & 255);
      for (int w = 0; w < kWarps; ++w) places[w * kDigits + threadIdx.x] = 0;
      __syncthreads();
      const UInt32 peers = peers_of(digit, is_there);
      const int rank = __popc(peers & ((1u << lane) - 1));
      if (is_there && rank == 0) places[warp * kDigits + digit] = __popc(peers);
      __syncthreads();
      for (int w = 0; w < kWarps; ++w) {
        const Int64 here = places[w * kDigits + threadIdx.x];
        places[w * kDigits + threadIdx.x] = next;
        next += here;
      }
      __syncthreads();
      if (is_there) {
        const Int64 to = places[warp * kDigits + digit] + rank;
        static_cast<Key*>(keys_out)[to] = key;
        static_cast<Number*>(numbers_out)[to] = static_cast<const Number*>(numbers)[i];
      }
      __syncthreads();
    }
  }
}

}  // namespace facula::cuda
