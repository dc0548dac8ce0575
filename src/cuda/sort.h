// Declares sorting for other kernels.
#pragma once

#include "core/tensor.h"

namespace facula::cuda {

/// Sorts the rows of `values` (rows, n) in place, stably, NaN last; `indices` as in sort_kernel.
void sort_rows(const Tensor& values, const Tensor& indices, bool descending);

}  // namespace facula::cuda
