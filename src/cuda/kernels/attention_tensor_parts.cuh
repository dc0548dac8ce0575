// Attention for few queries and many keys, as when text is generated: what counts is how fast keys and values are read.
// The keys are divided into parts, with a block for each. Its four warps have the same rows, and a warp has every
// fourth 16 keys. What the warps have made is added up in their order; and so is what the parts have made, by the block
// that comes last.
#pragma once

#include "attention_tensor.cuh"

namespace facula::cuda {

/// Of a row: the largest score, as a power of two, and the sum of powers beside it.
struct PartSum {
  float largest, sum;
};
/// The power that largest scores are divided by: not that of rows that see nothing.
FACULA_FN float base_of(float largest) { return largest == never<float>() ? 0.0f : largest; }

FACULA_FN void store_sum(const AttentionArgs& p, Int64 row, float largest, float all) {
  static_cast<float*>(p.sums)[row] = all == 0 ? -never<float>() : largest / kLog2e + kernels::log(all);
}

/// The last step: `rows` rows from `first` on of all parts become results. `factors` has room for kMostParts of each.
template <class T>
FACULA_FN void put_parts_together(const AttentionArgs& p, UInt32 head, UInt32 first, int rows, float* factors) {
  const Int64 before = Int64(head) * p.queries + first;
  const int lane = threadIdx.x % 32, fours = int(p.value_size) / 4;
  for (int r = threadIdx.x / 32; r < rows; r += kTensorThreads / 32) {
    const PartSum* sums = reinterpret_cast<const PartSum*>(p.made_sums) + (before + r) * p.parts;
    PartSum mine[kMostParts / 32];
    float most = never<float>(), all = 0;
#pragma unroll
    for (int k = 0; k < kMostParts / 32; ++k) {
      mine[k] = lane + 32 * k < p.parts ? sums[lane + 32 * k] : PartSum{never<float>(), 0};
      most = larger(most, mine[k].largest);
    }
#pragma unroll
    for (int by = 16; by > 0; by /= 2) most = larger(most, shuffle_across(most, by));
#pragma unroll
    for (int k = 0; k < kMostParts / 32; ++k) {
      mine[k].largest = exp2_of(mine[k].largest - base_of(most));
      all += mine[k].sum * mine[k].largest;
    }
    all = fold_warp<Add>(all);
    const float inverse = all == 0 ? 0.0f : 1 / all;
#pragma unroll
    for (int k = 0; k < kMostParts / 32; ++k) factors[r * kMostParts + lane + 32 * k] = mine[k].largest * inverse;
    if (lane == 0) store_sum(p, before + r, most, all);
  }
  __syncthreads();
  const Head<T> out = head_of<T>(p.out, p, head);
  for (int i = threadIdx.x; i < rows * fours; i += kTensorThreads) {
    const int r = i / fours, column = i % fours * 4;
    const float* made = p.made + (before + r) * p.parts * p.value_size + column;
    Vector<float, 4> sum{};
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part) {
      const Vector<float, 4> each = load_vector<4>(made + part * p.value_size);
      const float factor = factors[r * kMostParts + part];
#pragma unroll
      for (int k = 0; k < 4; ++k) sum.at[k] += factor * each.at[k];
    }
    store_vector(out.data + Int64(first + r) * out.row + column, narrow_all<T>(sum));
  }
}

/// What the warps of a block have made of its rows becomes their results or, of several parts, what the last block
/// reads. `room` is shared, and nobody uses it any more.
template <class T, int kSize, int kGroups>
FACULA_FN void put_warps_together(const AttentionArgs& p, UInt32 head, UInt32 first, UInt32 part, int rows,
                                  float (&sum)[kGroups][kSize / 8][4], const PartSum (&of_lane)[kGroups][2],
                                  float* room) {
  constexpr int kRows = 16 * kGroups, kRow = kSize + 8, kWarps = kTensorThreads / 32;
  FACULA_SHARED(PartSum, of_warps, kWarps * kRows);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (lane % 4 == 0) of_warps[warp * kRows + 16 * g + 8 * h + lane / 4] = of_lane[g][h];
  __syncthreads();
  const auto largest_of = [&](int row) {
    float most = of_warps[row].largest;
#pragma unroll
    for (int w = 1; w < kWarps; ++w) most = larger(most, of_warps[w * kRows + row].largest);
    return most;
  };
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = 16 * g + 8 * h + lane / 4;
      const float factor = exp2_of(of_lane[g][h].largest - base_of(largest_of(row)));
#pragma unroll
      for (int j = 0; j < kSize / 8; ++j)
        store_vector(room + (warp * kRows + row) * kRow + 8 * j + lane % 4 * 2,
                     Vector<float, 2>{sum[g][j][2 * h] * factor, sum[g][j][2 * h + 1] * factor});
    }
  __syncthreads();
  const Int64 before = Int64(head) * p.queries + first;
  const int fours = int(p.value_size) / 4;
  const Head<T> out = head_of<T>(p.out, p, head);
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * fours; i += kTensorThreads) {
    const int row = i / fours, column = i % fours * 4;
    const float most = largest_of(row);
    float all = 0;
    Vector<float, 4> made{};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const PartSum& each = of_warps[w * kRows + row];
      all += each.sum * exp2_of(each.largest - base_of(most));
      const Vector<float, 4> four = load_vector<4>(room + (w * kRows + row) * kRow + column);
#pragma unroll
      for (int k = 0; k < 4; ++k) made.at[k] += four.at[k];
    }
    if (p.parts == 1) {
      const float inverse = all == 0 ? 0.0f : 1 / all;
#pragma unroll
      for (int k = 0; k < 4; ++k) made.at[k] *= inverse;
      store_vector(out.data + Int64(first + row) * out.row + column, narrow_all<T>(made));
      if (column == 0) store_sum(p, before + row, most, all);
    } else {
      const Int64 place = (before + row) * p.parts + part;
      store_vector(p.made + place * p.value_size + column, made);
      if (column == 0) reinterpret_cast<PartSum*>(p.made_sums)[place] = {most, all};
    }
  }
}

template <class T, int kEights, int kGroups, int kMask, bool kExact>
__global__ __launch_bounds__(kTensorThreads, 2) void tensor_attention_parts(AttentionArgs p) {
  using M = typename MaskElement<T, kMask>::type;
  constexpr int kSize = 8 * kEights, kRows = 16 * kGroups, kTile = kPartKeys * kSize;
  FACULA_DYNAMIC_SHARED(T, room);  // the queries, two tiles of keys and two of values
  T *keys = room + kPartQueries * kSize, *values = keys + 2 * kTile;
  const int warp = threadIdx.x / 32, mine = 16 * warp;
  const UInt32 blocks = UInt32(p.queries + kRows - 1) / kRows, at = blockIdx.x / UInt32(p.parts),
               part = blockIdx.x - at * UInt32(p.parts), head = at / blocks, first = (at - head * blocks) * kRows;
  const Head<T> key = head_of<T>(p.key, p, head), value = head_of<T>(p.value, p, head);
  const Head<M> mask = head_of<M>(p.mask, p, head);
  const int chunks = int(p.size) / kEach<T>, value_chunks = int(p.value_size) / kEach<T>;
  const auto fetch = [&](UInt32 tile) {
    fetch_rows<kPartKeys, kSize>(keys + tile % 2 * kTile, key, tile * kPartKeys, UInt32(p.keys), chunks);
    fetch_rows<kPartKeys, kSize>(values + tile % 2 * kTile, value, tile * kPartKeys, UInt32(p.keys), value_chunks);
    copies_commit();
  };
  const UInt32 all_tiles = (UInt32(p.keys) + kPartKeys - 1) / kPartKeys, begin = part * UInt32(p.part_tiles),
               end = begin + p.part_tiles < all_tiles ? begin + p.part_tiles : all_tiles;
  fetch_rows<kPartQueries, kSize>(room, head_of<T>(p.query, p, head), first, UInt32(p.queries), chunks);
  fetch(begin);
  float sum[kGroups][kEights][4] = {};
  RowSum rows[kGroups][2];
  for (int g = 0; g < kGroups; ++g) rows[g][0] = rows[g][1] = {never<float>(), 0};
  const float scale = float(p.scale) * kLog2e, unit = is_added<kMask> ? 1.0f : scale;
#pragma unroll 1
  for (UInt32 tile = begin; tile < end; ++tile) {
    copies_wait<0>();
    __syncthreads();  // the tile is there, and nobody uses the one before it
    if (tile + 1 < end) fetch(tile + 1);
    float score[kGroups][2][4] = {};
    rows_by_rows<T, kSize, kExact>(score, room, 0, keys + tile % 2 * kTile + mine * kSize);
    mask_scores<kMask, false>(score, p, mask, first, tile * kPartKeys + mine, scale);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float factor = weigh(score[g], h, rows[g][h], unit);
#pragma unroll
        for (int j = 0; j < kEights; ++j) sum[g][j][2 * h] *= factor, sum[g][j][2 * h + 1] *= factor;
      }
    weights_by_columns<T, kSize, kExact>(sum, score, values + tile % 2 * kTile + mine * kSize);
  }
  PartSum of_lane[kGroups][2];
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowSum& row = rows[g][h];
      float all = row.sum + shuffle_across(row.sum, 1);
      all += shuffle_across(all, 2);
      of_lane[g][h] = {row.largest * unit, all};
    }
  __syncthreads();  // nobody uses the tiles any more
  const int left = int(p.queries - first), count = left < kRows ? left : kRows;
  float* made = reinterpret_cast<float*>(room);
  put_warps_together<T, kSize>(p, head, first, part, count, sum, of_lane, made);
  if (p.parts == 1 || !is_last_block(p.tickets + at, UInt32(p.parts))) return;
  put_parts_together<T>(p, head, first, count, made);
}

}  // namespace facula::cuda
