// Attention on tensor cores. A block has four warps, and a warp kGroups times 16 rows, whose scores stay in registers:
// fragments of a product's result are those of the next one's left side. What the rows meet comes in tiles by copies
// that need no register, each while the tile before it is used. Scores are powers of two, not of e.
//
// Of float32 a tensor core reads 19 bits. Where that is not allowed, factors are sums of two such numbers (kExact), and
// a product is three; what is not finite then becomes NaN in values and gradients, while scores are made again.
#pragma once

#include "attention_heads.cuh"
#include "mma.cuh"
#include "vector.cuh"

namespace facula::cuda {

constexpr float kLog2e = 1.4426950408889634f;

template <class T, int kMask>
struct MaskElement {
  using type = bool;
};
template <class T>
struct MaskElement<T, kFloatMask> {
  using type = float;
};
template <class T>
struct MaskElement<T, kOwnMask> {
  using type = T;
};
/// Scores are scaled where the mask is added to them, else where powers are taken: one instruction less.
template <int kMask>
constexpr bool is_added = kMask == kFloatMask || kMask == kOwnMask;

/// Where 16 bytes number `chunk` of a row lie, in rows of kChunks of them: those of 8 neighboring rows are in
/// different banks.
template <int kChunks>
FACULA_FN int place_of(int row, int chunk) {
  return row * kChunks + (chunk ^ (kChunks % 8 == 0 ? row & 7 : row / 2 & 3));
}

/// Elements of 16 bytes.
template <class T>
constexpr int kEach = 16 / sizeof(T);
template <class T, int kSize>
FACULA_FN T* at_chunk(T* room, int row, int chunk) {
  return room + kEach<T> * place_of<kSize / kEach<T>>(row, chunk);
}

/// Begins to copy kRows rows from `first`; what is behind the last row, or the last of `chunks` in a row, is zero. All
/// threads copy beside each other, a thread in steps of some rows.
template <int kRows, int kSize, class T>
FACULA_FN void fetch_rows(T* to, const Head<T>& from, UInt32 first, UInt32 rows, int chunks) {
  constexpr int kChunks = kSize / kEach<T>, kWide = kChunks & -kChunks, kStep = kTensorThreads / kWide;
  static_assert(kRows % kStep == 0);
  const int row = threadIdx.x / kWide, left = int(rows - first) - row;
  const T* at = from.data + Int64(first + row) * from.row;
#pragma unroll
  for (int i = 0; i < kRows; i += kStep, at += kStep * from.row)
#pragma unroll
    for (int k = 0; k < kChunks; k += kWide) {
      const int chunk = threadIdx.x % kWide + k;
      copy_async(at_chunk<T, kSize>(to, row + i, chunk), at + kEach<T> * chunk, i < left && chunk < chunks);
    }
}

/// Words of a factor as tensor cores take them: of float32 the 19 bits that are read and, kExact, the rest.
template <class T, bool kExact>
struct Factor {
  UInt32 high[4], low[kExact ? 4 : 1];
  FACULA_FN explicit Factor(const UInt32 (&words)[4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      if constexpr (sizeof(T) == 2) {
        high[q] = words[q];
      } else {
        high[q] = kExact ? (words[q] + 0x1000u) & 0xffffe000u : to_tf32(kernels::from_bits(words[q]));
        // of NaN the rest is NaN, whatever the first part is; its own rest is cut off
        if constexpr (kExact) low[q] = kernels::bits(kernels::from_bits(words[q]) - kernels::from_bits(high[q]));
      }
    }
  }
};
/// sum += a times words 2 k and 2 k + 1 of b.
template <class T, bool kExact>
FACULA_FN void multiply(float (&sum)[4], const Factor<T, kExact>& a, const Factor<T, kExact>& b, int k) {
  if constexpr (sizeof(T) == 2) {
    mma<T>(sum, a.high, b.high[2 * k], b.high[2 * k + 1]);
  } else {
    if constexpr (kExact) {
      mma_tf32(sum, a.low, b.high[2 * k], b.high[2 * k + 1]);
      mma_tf32(sum, a.high, b.low[2 * k], b.low[2 * k + 1]);
    }
    mma_tf32(sum, a.high, b.high[2 * k], b.high[2 * k + 1]);
  }
}

/// sum[g][j] += the products of 16 rows of `left` from row + 16 g and of 8 rows of `right` from 8 j, of chunks from
/// `begin` to `end`.
template <class T, int kSize, bool kExact, int kGroups, int kTiles>
FACULA_FN void add_chunks(float (&sum)[kGroups][kTiles][4], const T* left, int row, const T* right, int begin,
                          int end) {
  using F = Factor<T, kExact>;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = begin; k < end; k += 2) {
    UInt32 x[kGroups][4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      load_matrices(x[g], at_chunk<const T, kSize>(left, row + 16 * g + lane % 16, k + lane / 16));
#pragma unroll
    for (int j = 0; j < kTiles; j += 2) {
      UInt32 y[4];
      load_matrices(y, at_chunk<const T, kSize>(right, 8 * j + lane % 8 + lane / 16 * 8, k + lane / 8 % 2));
      const F b(y);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const F a(x[g]);
        multiply(sum[g][j], a, b, 0);
        multiply(sum[g][j + 1], a, b, 1);
      }
    }
  }
}
/// The same of whole rows, in parts that are added by rounding: tensor cores cut sums off, and what is cut adds up. An
/// infinite factor has no rest: where that shows, products are made one by one.
template <class T, int kSize, int kGroups, int kTiles>
FACULA_FN void exact_rows_by_rows(float (&sum)[kGroups][kTiles][4], const T* left, int row, const T* right) {
  constexpr int kPart = 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kSize / kEach<T>; k += kPart) {
    float part[kGroups][kTiles][4] = {};
    add_chunks<T, kSize, true>(part, left, row, right, k, k + kPart);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[g][j][q] += part[g][j][q];
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        float& made = sum[g][j][q];
        if (made == made) continue;
        made = 0;
#pragma unroll 1
        for (int k = 0; k < kSize; ++k)
          made += at_chunk<const T, kSize>(left, row + 16 * g + q / 2 * 8 + lane / 4, k / kEach<T>)[k % kEach<T>] *
                  at_chunk<const T, kSize>(right, 8 * j + lane % 4 * 2 + q % 2, k / kEach<T>)[k % kEach<T>];
      }
}
template <class T, int kSize, bool kExact, int kGroups, int kTiles>
FACULA_FN void rows_by_rows(float (&sum)[kGroups][kTiles][4], const T* left, int row, const T* right) {
  if constexpr (kExact) exact_rows_by_rows<T, kSize>(sum, left, row, right);
  else add_chunks<T, kSize, false>(sum, left, row, right, 0, kSize / kEach<T>);
}

/// Words of two tiles of 8 columns from 8 j, of rows from `row` of `right`: 16 of them where elements have 16 bits,
/// else 8, which come in the order in which a lane has weights of a row: 0, 2, 4, 6, 1, 3, 5, 7.
template <class T, int kSize>
FACULA_FN void load_columns(UInt32 (&words)[4], const T* right, int row, int j) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 2) {
    load_transposed(words, at_chunk<const T, kSize>(right, row + lane % 16, j + lane / 16));
  } else {
#pragma unroll
    for (int q = 0; q < 4; ++q)
      words[q] = kernels::bits(
          at_chunk<const T, kSize>(right, row + lane % 4 * 2 + q % 2, 2 * j + q / 2 * 2 + lane / 16)[lane / 4 % 4]);
  }
}
/// What is to the left of them: weights of rows, of two tiles of 8 or of one.
template <class T, int kTiles>
FACULA_FN void pack_weights(UInt32 (&words)[4], const float (&weights)[kTiles][4], int tile) {
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    if constexpr (sizeof(T) == 2) {
      const float* pair = weights[tile + q / 2] + q % 2 * 2;
      words[q] = narrow_pair<T>(pair[0], pair[1]);
    } else {
      words[q] = kernels::bits(weights[tile][q % 2 * 2 + q / 2]);
    }
  }
}

/// sum[g][j] += weights (16 rows, 8 kTiles columns) times columns 8 j of `right`, which has 8 kTiles rows. Of float32
/// the tile's own sum is added by rounding.
template <class T, int kSize, bool kExact, int kGroups, int kTiles>
FACULA_FN void weights_by_columns(float (&sum)[kGroups][kSize / 8][4], const float (&weights)[kGroups][kTiles][4],
                                  const T* right) {
  using F = Factor<T, kExact>;
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int k = 0; k < kTiles; k += 2) {
      UInt32 x[kGroups][4];
#pragma unroll
      for (int g = 0; g < kGroups; ++g) pack_weights<T>(x[g], weights[g], k);
#pragma unroll
      for (int j = 0; j < kSize / 8; j += 2) {
        UInt32 y[4];
        load_columns<T, kSize>(y, right, 8 * k, j);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          multiply(sum[g][j], F(x[g]), F(y), 0);
          multiply(sum[g][j + 1], F(x[g]), F(y), 1);
        }
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < kSize / 8; j += 2) {
      float own[kGroups][2][4] = {};
#pragma unroll
      for (int k = 0; k < kTiles; ++k) {
        UInt32 y[4];
        load_columns<T, kSize>(y, right, 8 * k, j);
        const F b(y);
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          UInt32 x[4];
          pack_weights<T>(x, weights[g], k);
          const F a(x);
          multiply(own[g][0], a, b, 0);
          multiply(own[g][1], a, b, 1);
        }
      }
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
#pragma unroll
        for (int q = 0; q < 8; ++q) sum[g][j + q / 4][q % 4] += own[g][q / 4][q % 4];
    }
  }
}

/// Writes rows of results from `first`, which lie at `row` of `room` meanwhile: rows of this warp alone. They leave it
/// by 16 bytes.
template <class T, int kSize, int kGroups>
FACULA_FN void store_rows(const Head<T>& to, UInt32 first, UInt32 rows, int chunks, T* room, int row,
                          const float (&sum)[kGroups][kSize / 8][4], const float (&factor)[kGroups][2]) {
  constexpr int kChunks = kSize / kEach<T>;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < kSize / 8; ++j) {
        const int column = 8 * j + lane % 4 * 2;
        Vector<float, 2> pair;
        pair.at[0] = sum[g][j][2 * h] * factor[g][h];
        pair.at[1] = sum[g][j][2 * h + 1] * factor[g][h];
        store_vector(at_chunk<T, kSize>(room, row + 16 * g + 8 * h + lane / 4, column / kEach<T>) + column % kEach<T>,
                     narrow_all<T>(pair));
      }
  __syncwarp();
#pragma unroll 4
  for (int at = lane; at < 16 * kGroups * kChunks; at += 32) {
    const int r = at / kChunks, chunk = at % kChunks;
    if (first + row + r < rows && chunk < chunks)
      store_vector(to.data + Int64(first + row + r) * to.row + kEach<T> * chunk,
                   load_vector<kEach<T>>(at_chunk<T, kSize>(room, row + r, chunk)));
  }
  __syncwarp();
}

/// A score under the mask's element.
template <class M>
FACULA_FN float under_mask(float score, const M& mask) {
  if constexpr (is_same_type<M, bool>) return mask ? score : never<float>();
  else return score + convert<float>(mask) * kLog2e;
}

/// Scores under the mask, whose element for this lane's first score is at `mask`: so many rows and others from there
/// exist. Steps are those of the mask between rows, and between what they meet; of kPairs the latter is 1.
template <bool kPairs, class M, int kGroups, int kTiles>
FACULA_FN void add_mask(float (&score)[kGroups][kTiles][4], const M* mask, Int64 row_step, Int64 other_step,
                        int rows_left, int others_left) {
#pragma unroll
  for (int r = 0; r < 2 * kGroups; ++r, mask += 8 * row_step)
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (8 * r >= rows_left || 8 * j >= others_left) continue;
      const bool has_second = 8 * j + 1 < others_left;
      const M* at = mask + 8 * j * (kPairs ? 1 : other_step);
      Vector<M, 2> pair;
      if (kPairs && has_second) {
        pair = load_vector<2>(at);
      } else {
        pair.at[0] = at[0];
        pair.at[1] = at[has_second ? other_step : 0];
      }
      float* two = score[r / 2][j] + r % 2 * 2;
      two[0] = under_mask(two[0], pair.at[0]);
      two[1] = under_mask(two[1], pair.at[1]);
    }
}

FACULA_FN bool is_hidden(const AttentionArgs& p, UInt32 query, UInt32 key) {
  return key >= p.keys || (p.is_causal && key > query);
}

/// Scores of a warp's rows, of which the first is `row`, and what they meet from `other`: where the mask, causality or
/// the end of the keys hides them, they are -inf. Rows are queries or, kAcross, keys.
template <int kMask, bool kAcross, class M, int kGroups, int kTiles>
FACULA_FN void mask_scores(float (&score)[kGroups][kTiles][4], const AttentionArgs& p, const Head<M>& mask, UInt32 row,
                           UInt32 other, float scale) {
  const int lane = threadIdx.x % 32;
  const UInt32 last_key = kAcross ? row + 16 * kGroups - 1 : other + 8 * kTiles - 1, r = row + lane / 4,
               c = other + lane % 4 * 2;
  const bool is_edge = last_key >= p.keys || (p.is_causal && last_key > (kAcross ? other : row));
  if constexpr (is_added<kMask>) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (float& each : score[g][j]) each *= scale;
  }
  if constexpr (kMask != kNoMask) {
    const Int64 row_step = kAcross ? mask.column : mask.row, other_step = kAcross ? mask.row : mask.column;
    const M* at = mask.data + r * row_step + c * other_step;
    const int rows_left = int(kAcross ? p.keys : p.queries) - int(r),
              others_left = int(kAcross ? p.queries : p.keys) - int(c);
    if (!kAcross && p.mask_has_pairs) add_mask<true>(score, at, row_step, 1, rows_left, others_left);
    else add_mask<false>(score, at, row_step, other_step, rows_left, others_left);
  }
  if (!is_edge) return;
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const UInt32 mine = r + 16 * g + q / 2 * 8, met = c + 8 * j + q % 2;
        if (is_hidden(p, kAcross ? met : mine, kAcross ? mine : met)) score[g][j][q] = never<float>();
      }
}

FACULA_FN float larger(float a, float b) { return FACULA_LIBM(fmaxf)(a, b); }

/// Of a row: the largest score so far and the sum of powers of the others beside it, in part of four lanes.
struct RowSum {
  float largest, sum;
};

/// Makes weights of the scores of a row's half (of 16 rows, those of h), and returns the factor of what was summed
/// before.
template <int kTiles>
FACULA_FN float weigh(float (&score)[kTiles][4], int h, RowSum& row, float scale) {
  float most = row.largest;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) most = larger(most, larger(score[j][2 * h], score[j][2 * h + 1]));
  most = larger(most, shuffle_across(most, 1));
  most = larger(most, shuffle_across(most, 2));
  const float at = most == never<float>() ? 0.0f : most * scale, factor = exp2_of(row.largest * scale - at);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int q = 2 * h; q < 2 * h + 2; ++q) {
      score[j][q] = exp2_of(score[j][q] * scale - at);
      sum += score[j][q];
    }
  row = {most, row.sum * factor + sum};
  return factor;
}

template <class T, int kEights, int kGroups, int kMask, bool kDropout, bool kExact>
__global__ __launch_bounds__(kTensorThreads, 2) void tensor_attention(AttentionArgs p) {
  using M = typename MaskElement<T, kMask>::type;
  constexpr int kSize = 8 * kEights, kRows = 64 * kGroups, kKeys = tensor_keys(kSize * sizeof(T)), kTiles = kKeys / 8,
                kTile = kKeys * kSize;
  FACULA_DYNAMIC_SHARED(T, room);  // the queries, two tiles of keys and two of values
  T *keys = room + kRows * kSize, *values = keys + 2 * kTile;
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * 16 * kGroups;
  const UInt32 blocks = UInt32(p.queries + kRows - 1) / kRows, head = blockIdx.x / blocks,
               first = (blocks - 1 - blockIdx.x % blocks) * kRows;  // of causal rows the longest first
  const Head<T> key = head_of<T>(p.key, p, head), value = head_of<T>(p.value, p, head);
  const Head<M> mask = head_of<M>(p.mask, p, head);
  const int chunks = int(p.size) / kEach<T>, value_chunks = int(p.value_size) / kEach<T>;
  const auto fetch = [&](UInt32 tile) {
    fetch_rows<kKeys, kSize>(keys + tile % 2 * kTile, key, tile * kKeys, UInt32(p.keys), chunks);
    fetch_rows<kKeys, kSize>(values + tile % 2 * kTile, value, tile * kKeys, UInt32(p.keys), value_chunks);
    copies_commit();
  };
  fetch_rows<kRows, kSize>(room, head_of<T>(p.query, p, head), first, UInt32(p.queries), chunks);
  fetch(0);
  const UInt32 seen = p.is_causal && first + kRows < p.keys ? first + kRows : UInt32(p.keys),
               tiles = (seen + kKeys - 1) / kKeys;
  DropoutHash hash[kGroups][2];
  UInt32 threshold = 0;
  if constexpr (kDropout) {
    threshold = dropout_threshold(p.dropout);
    for (int g = 0; g < kGroups; ++g)
      for (int h = 0; h < 2; ++h)
        hash[g][h] = dropout_hash(UInt64(*p.seed), head * p.queries + first + mine + 16 * g + 8 * h + lane / 4);
  }
  float sum[kGroups][kEights][4] = {};
  RowSum rows[kGroups][2];
  for (int g = 0; g < kGroups; ++g) rows[g][0] = rows[g][1] = {never<float>(), 0};
  const float scale = float(p.scale) * kLog2e;
#pragma unroll 1
  for (UInt32 tile = 0; tile < tiles; ++tile) {
    copies_wait<0>();
    __syncthreads();  // the tile is there, and nobody uses the one before it
    if (tile + 1 < tiles) fetch(tile + 1);
    float score[kGroups][kTiles][4] = {};
    rows_by_rows<T, kSize, kExact>(score, room, mine, keys + tile % 2 * kTile);
    mask_scores<kMask, false>(score, p, mask, first + mine, tile * kKeys, scale);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float factor = weigh(score[g], h, rows[g][h], is_added<kMask> ? 1.0f : scale);
#pragma unroll
        for (int j = 0; j < kEights; ++j) sum[g][j][2 * h] *= factor, sum[g][j][2 * h + 1] *= factor;
        if constexpr (kDropout) {
#pragma unroll
          for (int j = 0; j < kTiles; ++j)
#pragma unroll
            for (int q = 0; q < 2; ++q)
              if (!dropout_keeps(hash[g][h], tile * kKeys + 8 * j + lane % 4 * 2 + q, threshold))
                score[g][j][2 * h + q] = 0;
        }
      }
    weights_by_columns<T, kSize, kExact>(sum, score, values + tile % 2 * kTile);
  }
  float inverse[kGroups][2];
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowSum& row = rows[g][h];
      float all = row.sum + shuffle_across(row.sum, 1);
      all += shuffle_across(all, 2);
      inverse[g][h] = all == 0 ? 0.0f : float(1 / (1 - p.dropout)) / all;
      const UInt32 query = first + mine + 16 * g + 8 * h + lane / 4;
      if (lane % 4 == 0 && query < p.queries)
        static_cast<float*>(p.sums)[head * p.queries + query] =
            all == 0 ? -never<float>()
                     : row.largest * (is_added<kMask> ? 1 / kLog2e : float(p.scale)) + kernels::log(all);
    }
  store_rows<T, kSize>(head_of<T>(p.out, p, head), first, UInt32(p.queries), value_chunks, room, mine, sum, inverse);
}

}  // namespace facula::cuda
