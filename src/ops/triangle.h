// Declares the kernel of tril and triu.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// Sets the part of every matrix of `out` (contiguous, at least two dimensions) that lies beyond a diagonal to zero:
/// above it for tril (`upper` false), below it for triu.
inline Kernel<void(const Tensor& out, int64_t diagonal, bool upper)> clear_triangle_kernel{"tril"};

}  // namespace facula
