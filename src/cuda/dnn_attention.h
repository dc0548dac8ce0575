// Computes attention by cuDNN, where it is there.
#pragma once

#include "ops/attention.h"

namespace facula::cuda {

/// Why the library does not compute a call; empty where it does.
std::string why_no_dnn_attention(const LibraryAttention& call);
/// As the kernels of src/ops/attention.h. They throw where the library does not compute it.
void attention_by_library(const Tensor& out, const Tensor& sums, const AttentionInputs& in,
                          const AttentionOptions& options);
void attention_backward_by_library(const AttentionGradients& gradients, const AttentionInputs& in,
                                   const AttentionResults& results, const AttentionOptions& options);

}  // namespace facula::cuda
