// Attention without a matrix of scores in memory: blocks of 32 queries meet blocks of 32 keys. A warp has four rows of
// 32 scores, one for each lane, and 128 columns of what they are multiplied with; more columns are other blocks' work,
// which make the scores again.
#pragma once

#include "attention_heads.cuh"

namespace facula::cuda {

constexpr int kSide = 32, kWarps = 8, kRowsEach = kSide / kWarps, kColumnsEach = 4, kColumns = 32 * kColumnsEach,
              kPitch = kSide + 1;

/// e^x for x <= 0, and 0 where that is not a normal number.
template <class A>
FACULA_FN A weight_of(A x) {
  return x < A(sizeof(A) == 4 ? -87 : -708) ? A(0) : kernels::exp(x);
}

/// sum[i] += the products of rows `warp + 8 i` after `first` of a and row `lane` after `other` of b.
template <class T, class A>
FACULA_FN void add_row_products(A (&sum)[kRowsEach], const Head<T>& a, Int64 first, Int64 rows, A scale,
                                const Head<T>& b, Int64 other, Int64 others, Int64 size, A* a_room, A* b_room) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (Int64 k = 0; k < size; k += kSide) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int r = warp + kWarps * i;
      const bool inside = k + lane < size;
      a_room[r * kPitch + lane] = inside && first + r < rows ? A(convert<A>(a.at(first + r, k + lane)) * scale) : A(0);
      b_room[r * kPitch + lane] = inside && other + r < others ? convert<A>(b.at(other + r, k + lane)) : A(0);
    }
    __syncthreads();
    for (int depth = 0; depth < kSide; ++depth) {
      const A mine = b_room[lane * kPitch + depth];
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) sum[i] += a_room[(warp + kWarps * i) * kPitch + depth] * mine;
    }
  }
  __syncthreads();
}

/// A score as the mask and causality leave it; `key` may be outside.
template <class A>
FACULA_FN A masked(A score, const AttentionArgs& p, const Head<A>& mask, const Head<bool>& flags, Int64 query,
                   Int64 key) {
  if (query >= p.queries || key >= p.keys || (p.is_causal && key > query)) return never<A>();
  if (flags.data) return flags.at(query, key) ? score : never<A>();
  return mask.data ? score + mask.at(query, key) : score;
}

template <class A>
struct Masks {
  Head<A> numbers;
  Head<bool> flags;
  FACULA_FN Masks(const AttentionArgs& p, Int64 head) : numbers{nullptr, 0, 0}, flags{nullptr, 0, 0} {
    if (p.mask_is_bool) flags = head_of<bool>(p.mask, p, head);
    else numbers = head_of<A>(p.mask, p, head);
  }
};

FACULA_FN Int64 blocks_over(Int64 n, Int64 size) { return (n + size - 1) / size; }

/// acc[i][j] += the sum over `depth` of room[row][depth] (or, kTurned, room[depth][row]) times m[first + depth][c], for
/// rows `warp + 8 i` and columns c = `column + lane + 32 j`.
template <bool kTurned, class T, class A>
FACULA_FN void add_products(A (&acc)[kRowsEach][kColumnsEach], const A* room, const Head<T>& m, Int64 first, Int64 rows,
                            Int64 column, Int64 columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int end = rows - first < kSide ? int(rows - first) : kSide;
  for (int depth = 0; depth < end; ++depth) {
    A x[kColumnsEach];
#pragma unroll
    for (int j = 0; j < kColumnsEach; ++j) {
      const Int64 c = column + lane + 32 * j;
      x[j] = c < columns ? convert<A>(m.at(first + depth, c)) : A(0);
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int r = warp + kWarps * i;
      const A w = room[kTurned ? depth * kPitch + r : r * kPitch + depth];
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) acc[i][j] += w * x[j];
    }
  }
}

template <class T, class A>
FACULA_FN void store_columns(const A (&acc)[kRowsEach][kColumnsEach], const A (&scale)[kRowsEach], const Head<T>& to,
                             Int64 first, Int64 rows, Int64 column, Int64 columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i)
#pragma unroll
    for (int j = 0; j < kColumnsEach; ++j) {
      const Int64 r = first + warp + kWarps * i, c = column + lane + 32 * j;
      if (r < rows && c < columns) to.at(r, c) = convert<T>(A(acc[i][j] * scale[i]));
    }
}

/// Attention with an online softmax: blocks of 32 keys come one after the other, and weights are relative to the
/// largest score so far. When a block has a larger one, what was summed before is scaled by exp(before - now):
///
///     now = max(largest, scores of the block)      w = exp(score - now)
///     sum = sum * exp(largest - now) + sum of w    acc = acc * exp(largest - now) + w * value
///
/// and at the end out = acc / sum. A row whose keys are all masked has largest == never() and becomes 0. A block makes
/// 32 queries by `kColumns` columns of values; a warp has kRowsEach of the rows, a lane one key of each block.
template <class T, class A>
__global__ __launch_bounds__(256) void attention(AttentionArgs p) {
  FACULA_SHARED(A, a_room, kSide * kPitch);
  FACULA_SHARED(A, b_room, kSide * kPitch);
  FACULA_SHARED(A, weights, kSide * kPitch);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Int64 query_blocks = blocks_over(p.queries, kSide);
  const Int64 column_blocks = p.value_size > kColumns ? blocks_over(p.value_size, kColumns) : 1;
  const A kept_scale = A(1 / (1 - p.dropout));
  for (Int64 at = blockIdx.x; at < p.heads * query_blocks * column_blocks; at += gridDim.x) {
    const Int64 column = at % column_blocks * kColumns, first = at / column_blocks % query_blocks * kSide,
                head = at / column_blocks / query_blocks;
    const Head<T> query = head_of<T>(p.query, p, head), key = head_of<T>(p.key, p, head),
                  value = head_of<T>(p.value, p, head), out = head_of<T>(p.out, p, head);
    const Masks<A> masks(p, head);
    A acc[kRowsEach][kColumnsEach] = {}, largest[kRowsEach], sum[kRowsEach];
    for (int i = 0; i < kRowsEach; ++i) largest[i] = never<A>(), sum[i] = 0;
    const Int64 end = p.is_causal && first + kSide < p.keys ? first + kSide : p.keys;
    for (Int64 k = 0; k < end; k += kSide) {
      A score[kRowsEach] = {};
      add_row_products(score, query, first, p.queries, A(p.scale), key, k, p.keys, p.size, a_room, b_room);
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const int r = warp + kWarps * i;
        A w = masked(score[i], p, masks.numbers, masks.flags, first + r, k + lane);
        const A now = Max::merge(largest[i], fold_warp<Max>(w));
        if (now == never<A>()) {
          w = 0;
        } else {
          const A factor = largest[i] == never<A>() ? A(0) : kernels::exp(largest[i] - now);
          w = weight_of(w - now);
          sum[i] = sum[i] * factor + fold_warp<Add>(w);
          for (int j = 0; j < kColumnsEach; ++j) acc[i][j] *= factor;
          largest[i] = now;
        }
        if (p.dropout > 0) {
          const DropoutRow dropout(UInt64(*p.seed), head * p.queries + first + r, p.dropout);
          w = dropout.keeps(UInt32(k + lane)) ? w * kept_scale : A(0);
        }
        weights[r * kPitch + lane] = w;
      }
      __syncwarp();
      add_products<false>(acc, weights, value, k, p.keys, column, p.value_size);
      __syncwarp();
    }
    A scale[kRowsEach];
    for (int i = 0; i < kRowsEach; ++i) {
      const Int64 r = first + warp + kWarps * i;
      scale[i] = sum[i] == A(0) ? A(0) : A(1) / sum[i];
      if (lane == 0 && column == 0 && r < p.queries)
        static_cast<A*>(p.sums)[head * p.queries + r] =
            sum[i] == A(0) ? -never<A>() : largest[i] + kernels::log(sum[i]);
    }
    store_columns(acc, scale, out, first, p.queries, column, p.value_size);
  }
}

/// The product of each row of the gradient and the result: a warp for each.
template <class T, class A>
__global__ __launch_bounds__(256) void attention_delta(AttentionArgs p) {
  const int lane = threadIdx.x % 32;
  for (Int64 row = thread_number() / 32; row < p.heads * p.queries; row += thread_count() / 32) {
    const Head<T> grad = head_of<T>(p.grad, p, row / p.queries), out = head_of<T>(p.out, p, row / p.queries);
    A sum = 0;
    for (Int64 c = lane; c < p.value_size; c += 32)
      sum += convert<A>(grad.at(row % p.queries, c)) * convert<A>(out.at(row % p.queries, c));
    sum = fold_warp<Add>(sum);
    if (lane == 0) static_cast<A*>(p.delta)[row] = sum;
  }
}

/// The weights of queries from `first` and keys from k as dropout leaves them, and the gradients of their scores.
template <class T, class A>
FACULA_FN void weights_again(const AttentionArgs& p, Int64 head, const Masks<A>& masks, Int64 first, Int64 k, A* a_room,
                             A* b_room, A* weights, A* grad_scores) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  A score[kRowsEach] = {}, grad[kRowsEach] = {};
  add_row_products(score, head_of<T>(p.query, p, head), first, p.queries, A(p.scale), head_of<T>(p.key, p, head), k,
                   p.keys, p.size, a_room, b_room);
  add_row_products(grad, head_of<T>(p.grad, p, head), first, p.queries, A(1), head_of<T>(p.value, p, head), k, p.keys,
                   p.value_size, a_room, b_room);
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const int r = warp + kWarps * i;
    const Int64 query = first + r, row = head * p.queries + query;
    A weight = 0, factor = 1, delta = 0;
    if (query < p.queries) {
      weight = masked(score[i], p, masks.numbers, masks.flags, query, k + lane);
      weight = weight_of(weight - static_cast<const A*>(p.sums)[row]);
      delta = static_cast<const A*>(p.delta)[row];
      if (p.dropout > 0)
        factor = DropoutRow(UInt64(*p.seed), row, p.dropout).keeps(UInt32(k + lane)) ? A(1 / (1 - p.dropout)) : A(0);
    }
    weights[r * kPitch + lane] = weight * factor;
    grad_scores[r * kPitch + lane] = weight * (grad[i] * factor - delta);
  }
  __syncthreads();
}

FACULA_FN Int64 gradient_columns(const AttentionArgs& p) {
  const Int64 wide = p.size > p.value_size ? p.size : p.value_size;
  return wide > kColumns ? blocks_over(wide, kColumns) : 1;
}

/// Gradients of 32 keys and values.
template <class T, class A>
__global__ __launch_bounds__(256) void attention_backward_keys(AttentionArgs p) {
  FACULA_SHARED(A, a_room, kSide * kPitch);
  FACULA_SHARED(A, b_room, kSide * kPitch);
  FACULA_SHARED(A, weights, kSide * kPitch);
  FACULA_SHARED(A, grad_scores, kSide * kPitch);
  const Int64 blocks = blocks_over(p.keys, kSide), column_blocks = gradient_columns(p);
  for (Int64 at = blockIdx.x; at < p.heads * blocks * column_blocks; at += gridDim.x) {
    const Int64 column = at % column_blocks * kColumns, k = at / column_blocks % blocks * kSide,
                head = at / column_blocks / blocks;
    const Masks<A> masks(p, head);
    A grad_key[kRowsEach][kColumnsEach] = {}, grad_value[kRowsEach][kColumnsEach] = {}, one[kRowsEach],
      scale[kRowsEach];
    for (int i = 0; i < kRowsEach; ++i) one[i] = 1, scale[i] = A(p.scale);
    for (Int64 first = p.is_causal ? k : 0; first < p.queries; first += kSide) {
      weights_again<T>(p, head, masks, first, k, a_room, b_room, weights, grad_scores);
      add_products<true>(grad_value, weights, head_of<T>(p.grad, p, head), first, p.queries, column, p.value_size);
      add_products<true>(grad_key, grad_scores, head_of<T>(p.query, p, head), first, p.queries, column, p.size);
    }
    store_columns(grad_value, one, head_of<T>(p.grad_value, p, head), k, p.keys, column, p.value_size);
    store_columns(grad_key, scale, head_of<T>(p.grad_key, p, head), k, p.keys, column, p.size);
  }
}

/// Gradients of 32 queries.
template <class T, class A>
__global__ __launch_bounds__(256) void attention_backward_queries(AttentionArgs p) {
  FACULA_SHARED(A, a_room, kSide * kPitch);
  FACULA_SHARED(A, b_room, kSide * kPitch);
  FACULA_SHARED(A, weights, kSide * kPitch);
  FACULA_SHARED(A, grad_scores, kSide * kPitch);
  const Int64 blocks = blocks_over(p.queries, kSide),
              column_blocks = p.size > kColumns ? blocks_over(p.size, kColumns) : 1;
  for (Int64 at = blockIdx.x; at < p.heads * blocks * column_blocks; at += gridDim.x) {
    const Int64 column = at % column_blocks * kColumns, first = at / column_blocks % blocks * kSide,
                head = at / column_blocks / blocks;
    const Masks<A> masks(p, head);
    A grad_query[kRowsEach][kColumnsEach] = {}, scale[kRowsEach];
    for (int i = 0; i < kRowsEach; ++i) scale[i] = A(p.scale);
    const Int64 end = p.is_causal && first + kSide < p.keys ? first + kSide : p.keys;
    for (Int64 k = 0; k < end; k += kSide) {
      weights_again<T>(p, head, masks, first, k, a_room, b_room, weights, grad_scores);
      add_products<false>(grad_query, grad_scores, head_of<T>(p.key, p, head), k, p.keys, column, p.size);
    }
    store_columns(grad_query, scale, head_of<T>(p.grad_query, p, head), first, p.queries, column, p.size);
  }
}

/// The factors that dropout gives weights.
template <class T>
__global__ __launch_bounds__(256) void attention_kept(T* out, Int64 count, Int64 columns, const Int64* seed, double p) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 row = i / columns;
    out[i] = DropoutRow(UInt64(*seed), row, p).keeps(UInt32(i - row * columns)) ? T(1 / (1 - p)) : T(0);
  }
}

/// Soft-max of rows of scores under a mask: a block for each row. Mask is bool, T, or void where there is none.
template <class T, bool kHasMask, class Mask>
__global__ __launch_bounds__(256) void attention_weights(WeightsArgs p) {
  FACULA_SHARED(T, room, kMostWarps);
  for (Int64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const Int64 seen = p.is_causal && row % p.queries + 1 < p.length ? row % p.queries + 1 : p.length;
    const T* scores = static_cast<const T*>(p.scores) + row * p.length;
    const Mask* mask = static_cast<const Mask*>(p.mask);
    if constexpr (kHasMask) {
      Int64 rest = row;
      for (int d = p.batch_dims - 1; d >= 0; --d) {
        mask += rest % p.batch_sizes[d] * p.batch[d];
        rest /= p.batch_sizes[d];
      }
    }
    const auto score = [&](Int64 c) {
      if constexpr (!kHasMask) return scores[c];
      else if constexpr (is_same_type<Mask, bool>) return mask[c] ? scores[c] : never<T>();
      else return scores[c] + mask[c];
    };
    T largest = never<T>();
    for (Int64 c = threadIdx.x; c < seen; c += blockDim.x) largest = Max::merge(largest, score(c));
    largest = fold_block<Max>(largest, room);
    T sum = 0;
    if (largest != never<T>())
      for (Int64 c = threadIdx.x; c < seen; c += blockDim.x) sum += kernels::exp(score(c) - largest);
    sum = fold_block<Add>(sum, room);
    T* out = static_cast<T*>(p.out) + row * p.length;
    for (Int64 c = threadIdx.x; c < p.length; c += blockDim.x)
      out[c] = c < seen && largest != never<T>() ? kernels::exp(score(c) - largest) / sum : T(0);
  }
}

}  // namespace facula::cuda
