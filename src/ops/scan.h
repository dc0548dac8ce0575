// Declares kernels of the scans.
#pragma once

#include "ops/line_kernels.h"

namespace facula {

inline LineKernel cumsum_kernel{"cumsum"}, cumprod_kernel{"cumprod"}, logcumsumexp_kernel{"logcumsumexp"};
/// NaN wins; of equals the last.
inline PositionKernel cummax_kernel{"cummax"}, cummin_kernel{"cummin"};

}  // namespace facula
