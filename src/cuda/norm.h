// What the normalisations of rows take from those of channels.
#pragma once

#include "ops/norm.h"

namespace facula::cuda {

/// The gradients of weight and bias of row norms.
void row_factor_sums(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& mean,
                     const Tensor& rstd, const RowLayout& layout, bool center);

}  // namespace facula::cuda
