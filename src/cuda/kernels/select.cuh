// Positions and elements selected by truth values: tiles count theirs, the counts become places (offsets.cuh), tiles
// write.
#pragma once

#include "block.cuh"
#include "select_args.h"

namespace facula::cuda {

template <class M>
FACULA_FN bool is_selected(const SelectArgs& a, Int64 i) {
  return i < a.count && convert<bool>(static_cast<const M*>(a.mask)[i]);
}

template <class M>
__global__ __launch_bounds__(256) void select_count(SelectArgs a, Int64* counts) {
  const Int64 tiles = (a.count + kSelectTile - 1) / kSelectTile;
  for (Int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    Int64 found = 0;
    for (int k = 0; k < kSelectTile; k += 256)
      found += __syncthreads_count(is_selected<M>(a, tile * kSelectTile + k + threadIdx.x));
    if (threadIdx.x == 0) counts[tile] = found;
  }
}

/// act(element, how many are selected before it) for the selected elements.
template <class M, class F>
FACULA_FN void for_selected(const SelectArgs& a, F act) {
  FACULA_SHARED(UInt32, found, 8);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Int64 tiles = (a.count + kSelectTile - 1) / kSelectTile;
  for (Int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    Int64 start = a.starts[tile];
    for (int k = 0; k < kSelectTile; k += 256) {
      const Int64 i = tile * kSelectTile + k + threadIdx.x;
      const bool selected = is_selected<M>(a, i);
      const UInt32 votes = __ballot_sync(kAllLanes, selected);
      if (lane == 0) found[warp] = __popc(votes);
      __syncthreads();
      Int64 before = start + __popc(votes & ((1u << lane) - 1));
      for (int w = 0; w < 8; ++w) {
        if (w < warp) before += found[w];
        start += found[w];
      }
      if (selected) act(i, before);
      __syncthreads();
    }
  }
}

template <class M>
__global__ __launch_bounds__(256) void select_positions(SelectArgs a) {
  for_selected<M>(a, [&](Int64 i, Int64 row) {
    if (row >= a.rows) return;
    Int64* out = static_cast<Int64*>(a.out) + row * a.row;
    for (int d = 0; d < a.dims; ++d) {
      const Int64 next = i / a.shape[d];
      out[(a.dims - 1 - d) * a.column] = i - next * a.shape[d];
      i = next;
    }
  });
}

/// T is any type of the elements' size.
template <class T>
__global__ __launch_bounds__(256) void select_elements(SelectArgs a) {
  for_selected<bool>(a, [&](Int64 i, Int64 place) {
    if (place < a.rows) static_cast<T*>(a.out)[place] = static_cast<const T*>(a.in)[i];
  });
}

template <class T>
__global__ __launch_bounds__(256) void spread_elements(SelectArgs a) {
  for_selected<bool>(a, [&](Int64 i, Int64 place) {
    if (place < a.rows) static_cast<T*>(a.out)[i] = static_cast<const T*>(a.in)[place];
  });
}

}  // namespace facula::cuda
