// Computes convolutions by the tensor cores of devices of compute capability 8.0 and later, without cuDNN.
#pragma once

#include "ops/conv.h"

namespace facula::cuda {

/// Queues the map; false where the tensor cores cannot do it, or other kernels are as fast.
bool convolution_by_tensor_cores(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                                 const ConvGeometry& geometry);

}  // namespace facula::cuda
