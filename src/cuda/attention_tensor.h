// Computes attention on tensor cores (kernels/attention_tensor.cuh), and decides for which calls, and by how many
// blocks.
#pragma once

#include "cuda/kernels/attention_args.h"
#include "ops/attention.h"

namespace facula::cuda {

/// Whether there are kernels for sizes, dtype and device; the rows of all operands must be even, too.
bool is_for_tensor_cores(const AttentionInputs& in, const AttentionOptions& options);
/// The size that kernels are made for, which has room for keys and values.
int padded_size(int64_t size, int64_t value_size);
/// The tensor itself where rows begin at multiples of 16 bytes and their elements follow each other, else a copy.
Tensor with_even_rows(const Tensor& t);

/// What is computed with `in`, whose matrices are those of `p`.
void attention_by_tensor_cores(AttentionArgs p, const AttentionInputs& in);
void attention_backward_by_tensor_cores(AttentionArgs p, const AttentionInputs& in);

/// Whether the queries of `heads` heads that share keys and values become rows of one head.
bool are_few_queries(int64_t queries, int64_t heads);
/// How few queries meet many keys: in blocks of 16 `groups` rows, each of which has a part of the keys. No groups: keys
/// are not divided, and a block has 64 rows.
struct KeyParts {
  int groups = 0, parts = 1, part_tiles = 0;
};
/// By the predicted time. `key_size` and `value_size` are of a head.
KeyParts key_parts(int64_t heads, int64_t queries, int64_t keys, int64_t key_size, int64_t value_size, DType dtype,
                   int device);

/// See ops/attention.h.
AttentionTimes predicted_times(const LibraryAttention& call);

}  // namespace facula::cuda
