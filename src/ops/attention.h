// Soft-max of attention scores under a mask.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// `scores` and `out` are contiguous. `mask` has the shape of the scores by its strides, and a contiguous last
/// dimension; its dtype is bool or theirs. It may be undefined.
inline Kernel<void(const Tensor& out, const Tensor& scores, const Tensor& mask, bool is_causal)>
    attention_weights_kernel{"scaled_dot_product_attention"};

}  // namespace facula
