// Derivatives of matrix products.
#pragma once

#include "core/tensor.h"

namespace facula {

Tensor linear_backward_input(const Tensor& grad, const Tensor& weight);
Tensor linear_backward_weight(const Tensor& grad, const Tensor& input, IntList weight_sizes);

}  // namespace facula
