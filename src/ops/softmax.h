// Declares kernels of soft-max.
#pragma once

#include "ops/line_kernels.h"

namespace facula {

/// Other than those of most kernels along lines, the results have the dtype of the input, not the compute dtype.
inline LineKernel softmax_kernel{"softmax"}, log_softmax_kernel{"log_softmax"};
/// Of the gradient of the result and the result.
inline Line2Kernel softmax_backward_kernel{"softmax"}, log_softmax_backward_kernel{"log_softmax"};

}  // namespace facula
