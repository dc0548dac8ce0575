// Compiles element-wise kernels around functions that programs bring as text.
#pragma once

#include <string>

#include "core/tensor.h"

namespace facula::cuda {

/// Queues the kernel of `source`, which follows kernels/jiterate.cuh, on the current stream of the operands' device.
/// Results and inputs have one shape; `values` are numbers of the compute dtype, in memory of the host.
void jiterate(const std::string& source, TensorList results, TensorList inputs, TensorList values, DType compute);

}  // namespace facula::cuda
