// The gradients of attention on tensor cores, by one kernel that runs twice: rows of queries meet tiles of keys for the
// gradient of the query, then rows of keys meet tiles of queries for those of key and value. The scores are made each
// time again, two products of seven, so that every result has one block, which adds in the order of tiles.
#pragma once

#include "attention_tensor.cuh"

namespace facula::cuda {

/// Of a query: the logarithm of its sum, of base 2, and its gradient times its result.
struct alignas(8) QueryNumbers {
  float log_sum, delta;
};
/// A query that there is not: its weights are zero.
FACULA_FN QueryNumbers no_query() { return {-never<float>(), 0}; }
FACULA_FN QueryNumbers query_numbers(const AttentionArgs& p, UInt32 head, UInt32 query) {
  if (query >= p.queries) return no_query();
  const Int64 at = head * p.queries + query;
  return {static_cast<const float*>(p.sums)[at] * kLog2e, static_cast<const float*>(p.delta)[at]};
}

/// The gradient times the result of each of this warp's rows from `row` of `room`, which has the gradient: to memory,
/// and to the lanes that have the row's scores.
template <class T, int kSize, int kGroups>
FACULA_FN void find_delta(QueryNumbers (&numbers)[kGroups][2], const AttentionArgs& p, UInt32 head, UInt32 first,
                          const T* room, int row) {
  const int lane = threadIdx.x % 32;
  const Head<T> out = head_of<T>(p.out, p, head);
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int r = row + 16 * g + 2 * i + lane / 16;
      const UInt32 query = first + r;
      float sum = 0;
      for (int c = lane % 16 * kEach<T>; query < p.queries && c < p.value_size; c += 16 * kEach<T>) {
        const auto a = widen_all(load_vector<kEach<T>>(at_chunk<const T, kSize>(room, r, c / kEach<T>))),
                   b = widen_all(load_vector<kEach<T>>(out.data + Int64(query) * out.row + c));
        for (int k = 0; k < kEach<T>; ++k) sum += a.at[k] * b.at[k];
      }
      for (int by = 8; by > 0; by /= 2) sum += shuffle_across(sum, by);
      if (lane % 16 == 0 && query < p.queries) static_cast<float*>(p.delta)[head * p.queries + query] = sum;
      // rows 2 i and 2 i + 1: lanes 8 i and more have scores of the first, of 16
      const float even = shuffle_from(sum, 0), odd = shuffle_from(sum, 16);
      if (lane / 8 == i % 4) numbers[g][i / 4].delta = lane / 4 % 2 ? odd : even;
    }
}

FACULA_FN DropoutHash hash_of_query(const AttentionArgs& p, UInt32 head, UInt32 query) {
  return dropout_hash(UInt64(*p.seed), head * p.queries + query);
}

/// The numbers of a tile of queries, a thread for each, in shared memory; of two tiles in turns.
template <int kOthers, bool kDropout>
struct TileNumbers {
  const AttentionArgs& p;
  UInt32 head;
  QueryNumbers* numbers;
  DropoutHash* hashes;

  FACULA_FN QueryNumbers read(UInt32 tile) const {
    return threadIdx.x < kOthers ? query_numbers(p, head, tile * kOthers + threadIdx.x) : no_query();
  }
  FACULA_FN void write(UInt32 tile, const QueryNumbers& of_query) const {
    if (threadIdx.x >= kOthers) return;
    const UInt32 at = tile % 2 * kOthers + threadIdx.x;
    numbers[at] = of_query;
    if constexpr (kDropout) hashes[at] = hash_of_query(p, head, tile * kOthers + threadIdx.x);
  }
};

/// The other numbers of this thread's rows, which begin at `row`, where these are queries.
template <bool kDropout, int kGroups>
FACULA_FN void row_numbers(QueryNumbers (&numbers)[kGroups][2], DropoutHash (&hash)[kGroups][2], const AttentionArgs& p,
                           UInt32 head, UInt32 row) {
  for (int g = 0; g < kGroups; ++g)
    for (int h = 0; h < 2; ++h) {
      const UInt32 query = row + 16 * g + 8 * h + threadIdx.x % 32 / 4;
      numbers[g][h].log_sum =
          query < p.queries ? static_cast<const float*>(p.sums)[head * p.queries + query] * kLog2e : -never<float>();
      if constexpr (kDropout) hash[g][h] = hash_of_query(p, head, query);
    }
}

/// A score's query: of the thread's rows or, kOfKeys, of the tile's columns.
template <bool kOfKeys, class Number, int kGroups>
FACULA_FN const Number& of_query(const Number (&of_rows)[kGroups][2], const Number* of_tile, int g, int h, int column) {
  return kOfKeys ? of_tile[column] : of_rows[g][h];
}

/// Scores become weights. Those that dropout takes away have a sign, also if they are zero. The numbers of queries are
/// those of the thread's rows (`numbers`, `hash`), or with kOfKeys of the tile's columns (`tile_numbers`,
/// `tile_hashes`). Rows begin at `row`, columns at `column`.
template <bool kOfKeys, bool kDropout, int kGroups, int kTiles>
FACULA_FN void find_weights(float (&weight)[kGroups][kTiles][4], const QueryNumbers (&numbers)[kGroups][2],
                            const DropoutHash (&hash)[kGroups][2], const QueryNumbers* tile_numbers,
                            const DropoutHash* tile_hashes, UInt32 row, UInt32 column, UInt32 threshold, float scale) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const int c = 8 * j + lane % 4 * 2 + q;
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& w = weight[g][j][2 * h + q];
          w = exp2_of(w * scale - of_query<kOfKeys>(numbers, tile_numbers, g, h, c).log_sum);
          if constexpr (kDropout) {
            const UInt32 key = kOfKeys ? row + 16 * g + 8 * h + lane / 4 : column + c;
            if (!dropout_keeps(of_query<kOfKeys>(hash, tile_hashes, g, h, c), key, threshold)) w = -w;
          }
        }
    }
}
/// Gradients of weights become those of scores: d = w * (dropout(d) - delta).
template <bool kOfKeys, bool kDropout, int kGroups, int kTiles>
FACULA_FN void score_gradients(float (&grad)[kGroups][kTiles][4], const float (&weight)[kGroups][kTiles][4],
                               const QueryNumbers (&numbers)[kGroups][2], const QueryNumbers* tile_numbers,
                               float kept_scale) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int q = 0; q < 2; ++q)
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int c = 8 * j + threadIdx.x % 4 * 2 + q;
          const float delta = of_query<kOfKeys>(numbers, tile_numbers, g, h, c).delta, w = weight[g][j][2 * h + q];
          float& d = grad[g][j][2 * h + q];
          if constexpr (kDropout) d = kernels::bits(w) >> 31 ? w * delta : w * (d * kept_scale - delta);
          else d = w * (d - delta);
        }
}
/// Weights with zeros where dropout took one away.
template <int kGroups, int kTiles>
FACULA_FN void keep_weights(float (&kept)[kGroups][kTiles][4], const float (&weight)[kGroups][kTiles][4]) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) kept[g][j][q] = kernels::bits(weight[g][j][q]) >> 31 ? 0.0f : weight[g][j][q];
}

template <class T, int kEights, int kGroups, bool kOfKeys, int kMask, bool kDropout, bool kExact>
__global__ __launch_bounds__(kTensorThreads, 2) void tensor_attention_backward(AttentionArgs p) {
  using M = typename MaskElement<T, kMask>::type;
  constexpr int kSize = 8 * kEights, kRows = 64 * kGroups, kOthers = tensor_others(kSize * sizeof(T), kGroups),
                kTiles = kOthers / 8, kTile = kOthers * kSize;
  FACULA_DYNAMIC_SHARED(T, room);  // both sides of the rows, two tiles of both of what they meet, and of its numbers
  T *mine = room, *mine2 = mine + kRows * kSize, *other = mine2 + kRows * kSize, *other2 = other + 2 * kTile;
  auto* tile_numbers = reinterpret_cast<QueryNumbers*>(other2 + 2 * kTile);
  auto* tile_hashes = reinterpret_cast<DropoutHash*>(tile_numbers + 2 * kOthers);
  const int own = threadIdx.x / 32 * 16 * kGroups;
  const UInt32 rows = UInt32(kOfKeys ? p.keys : p.queries), others = UInt32(kOfKeys ? p.queries : p.keys),
               blocks = (rows + kRows - 1) / kRows, head = blockIdx.x / blocks, block = blockIdx.x % blocks,
               first = (kOfKeys ? block : blocks - 1 - block) * kRows;  // of causal rows the longest first
  // scores are of a and b, gradients of weights of a2 and b2
  const Head<T> a = head_of<T>(kOfKeys ? p.key : p.query, p, head),
                a2 = head_of<T>(kOfKeys ? p.value : p.grad, p, head),
                b = head_of<T>(kOfKeys ? p.query : p.key, p, head),
                b2 = head_of<T>(kOfKeys ? p.grad : p.value, p, head);
  const Head<M> mask = head_of<M>(p.mask, p, head);
  const int chunks = int(p.size) / kEach<T>, value_chunks = int(p.value_size) / kEach<T>;
  const auto fetch = [&](UInt32 tile) {
    fetch_rows<kOthers, kSize>(other + tile % 2 * kTile, b, tile * kOthers, others, chunks);
    fetch_rows<kOthers, kSize>(other2 + tile % 2 * kTile, b2, tile * kOthers, others, value_chunks);
    copies_commit();
  };
  fetch_rows<kRows, kSize>(mine, a, first, rows, chunks);
  fetch_rows<kRows, kSize>(mine2, a2, first, rows, value_chunks);
  const UInt32 begin = kOfKeys && p.is_causal ? first / kOthers : 0,
               seen = !kOfKeys && p.is_causal && first + kRows < others ? first + kRows : others,
               end = (seen + kOthers - 1) / kOthers, threshold = kDropout ? dropout_threshold(p.dropout) : 0;
  if (begin < end) fetch(begin);
  else copies_commit();
  const TileNumbers<kOthers, kDropout> of_tiles{p, head, tile_numbers, tile_hashes};
  QueryNumbers numbers[kGroups][2];
  DropoutHash hash[kGroups][2];
  if constexpr (kOfKeys) {
    of_tiles.write(begin, of_tiles.read(begin));
  } else {
    copies_wait<0>();
    __syncthreads();
    find_delta<T, kSize>(numbers, p, head, first, mine2, own);
    row_numbers<kDropout>(numbers, hash, p, head, first + own);
  }
  float made[kGroups][kEights][4] = {}, made2[kGroups][kOfKeys ? kEights : 1][4] = {};
  const float scale = float(p.scale) * kLog2e, kept_scale = kDropout ? float(1 / (1 - p.dropout)) : 1.0f;
#pragma unroll 1
  for (UInt32 tile = begin; tile < end; ++tile) {
    copies_wait<0>();
    __syncthreads();  // the tile is there, and nobody uses the one before it
    QueryNumbers next;
    if (tile + 1 < end) {
      fetch(tile + 1);
      if constexpr (kOfKeys) next = of_tiles.read(tile + 1);
    }
    const T *at = other + tile % 2 * kTile, *at2 = other2 + tile % 2 * kTile;
    const QueryNumbers* here = tile_numbers + tile % 2 * kOthers;
    float weight[kGroups][kTiles][4] = {}, grad[kGroups][kTiles][4] = {};
    rows_by_rows<T, kSize, kExact>(weight, mine, own, at);
    mask_scores<kMask, kOfKeys>(weight, p, mask, first + own, tile * kOthers, scale);
    find_weights<kOfKeys, kDropout>(weight, numbers, hash, here, tile_hashes + tile % 2 * kOthers, first + own,
                                    tile * kOthers, threshold, is_added<kMask> ? 1.0f : scale);
    const auto take_values = [&] {
      if constexpr (kOfKeys && kDropout) {
        float kept[kGroups][kTiles][4];
        keep_weights(kept, weight);
        weights_by_columns<T, kSize, kExact>(made2, kept, at2);
      } else if constexpr (kOfKeys) {
        weights_by_columns<T, kSize, kExact>(made2, weight, at2);
      }
    };
    // registers have room for gradients beside weights, or for both parts of these
    if constexpr (sizeof(T) == 4) take_values();
    rows_by_rows<T, kSize, kExact>(grad, mine2, own, at2);
    score_gradients<kOfKeys, kDropout>(grad, weight, numbers, here, kept_scale);
    if constexpr (sizeof(T) == 2) take_values();
    weights_by_columns<T, kSize, kExact>(made, grad, at);
    if constexpr (kOfKeys)
      if (tile + 1 < end) of_tiles.write(tile + 1, next);
  }
  copies_wait<0>();  // where there was no tile
  __syncthreads();
  float factor[kGroups][2];
  const auto store = [&](const AttentionMatrix& to, int wide, T* place, const auto& sum, float by) {
    for (int g = 0; g < kGroups; ++g) factor[g][0] = factor[g][1] = by;
    store_rows<T, kSize>(head_of<T>(to, p, head), first, rows, wide, place, own, sum, factor);
  };
  store(kOfKeys ? p.grad_key : p.grad_query, chunks, mine, made, float(p.scale));
  if constexpr (kOfKeys) store(p.grad_value, value_chunks, mine2, made2, kept_scale);
}

}  // namespace facula::cuda
