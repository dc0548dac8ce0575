// Kernels of the reductions.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// out (keepdim shape, contiguous) = sum of `in` over the dimensions where out has size one and in has not.
inline Kernel<void(const Tensor& out, const Tensor& in)> sum_kernel{"sum"};

}  // namespace facula
