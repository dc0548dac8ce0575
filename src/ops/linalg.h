// Kernels of matrix products and linear algebra.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// out = a b for matrices; strided inputs, contiguous out.
inline Kernel<void(const Tensor& out, const Tensor& a, const Tensor& b)> mm_kernel{"mm"};

}  // namespace facula
