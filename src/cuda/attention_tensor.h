// Computes attention on tensor cores (kernels/attention_tensor.cuh), and decides for which calls, and by how many
// blocks.
#pragma once

#include "cuda/kernels/attention_args.h"
#include "ops/attention.h"

namespace facula::cuda {

/// Whether there are kernels for sizes, dtype and device; the rows of all operands must be even, too.
bool is_for_tensor_cores(const AttentionInputs& in, const AttentionOptions& options);
/// The tensor itself where rows begin at multiples of 16 bytes and their elements follow each other, else a copy.
Tensor with_even_rows(const Tensor& t);

/// What is computed with `in`, whose matrices are those of `p`.
void attention_by_tensor_cores(AttentionArgs p, const AttentionInputs& in);
void attention_backward_by_tensor_cores(AttentionArgs p, const AttentionInputs& in);

/// See ops/attention.h.
AttentionTimes predicted_times(const LibraryAttention& call);

}  // namespace facula::cuda
