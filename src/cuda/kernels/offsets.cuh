// Counts become the places where what was counted begins.
#pragma once

#include "block.cuh"

namespace facula::cuda {

/// The sum of the values of the threads before this one in the block, and of all; `room` holds kMostWarps values.
FACULA_FN Int64 sum_before(Int64 value, Int64* room, Int64* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Int64 sum = value;
  for (int by = 1; by < 32; by *= 2) {
    const Int64 other = Int64(__shfl_up_sync(kAllLanes, UInt64(sum), unsigned(by)));
    if (lane >= by) sum += other;
  }
  if (lane == 31) room[warp] = sum;
  __syncthreads();
  Int64 before = 0, all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += room[w];
    all += room[w];
  }
  *total = all;
  __syncthreads();  // before the room is used again
  return before + sum - value;
}

/// offsets[i] = the sum of the first i counts, for 0 <= i <= count; one block of 1024 threads. Both may be one memory.
__global__ __launch_bounds__(1024) void offsets(const Int64* counts, Int64 count, Int64* offsets) {
  FACULA_SHARED(Int64, room, kMostWarps);
  Int64 done = 0;
  for (Int64 from = 0; from < count; from += blockDim.x) {
    const Int64 i = from + threadIdx.x;
    Int64 all;
    const Int64 before = sum_before(i < count ? counts[i] : 0, room, &all);
    if (i < count) offsets[i] = done + before;
    done += all;
  }
  if (threadIdx.x == 0) offsets[count] = done;
}

}  // namespace facula::cuda
