// Declares scans for other kernels.
#pragma once

#include "core/tensor.h"

namespace facula::cuda {

/// Running sums of the rows of `counts` (rows, n), contiguous integers, in their place.
void running_sum(const Tensor& counts);

}  // namespace facula::cuda
