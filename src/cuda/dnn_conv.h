// Computes convolutions by cuDNN, where it is there.
#pragma once

#include "ops/conv.h"

namespace facula::cuda {

/// The map without its bias. False where the library is not there, is switched off or has no way to compute it.
bool convolution_by_library(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g);

}  // namespace facula::cuda
