// Declares derivatives of matrix products.
#pragma once

#include "core/tensor.h"

namespace facula {

Tensor linear_backward_input(const Tensor& grad, const Tensor& weight);
/// During a node whose edge with this number leads to the weight: a weight that is used several times gets the products
/// added to one gradient.
Tensor linear_backward_weight(const Tensor& grad, const Tensor& input, IntList weight_sizes, size_t edge);

}  // namespace facula
