// Kernels of repeating.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// The sum of counts (int64, contiguous); throws where one is negative, or the sum too large.
inline Kernel<int64_t(const Tensor& counts)> repeat_total_kernel{"repeat_interleave"};
/// positions (int64) = position i of `counts` as often as it says; throws unless they fill `positions`.
inline Kernel<void(const Tensor& positions, const Tensor& counts)> repeat_positions_kernel{"repeat_interleave"};

}  // namespace facula
