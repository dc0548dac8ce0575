// Convolution of channels-last images by matrix products.
#pragma once

#include "ops/conv.h"

namespace facula::cpu {

/// Any of the three maps; false where it does not apply, and then nothing was written.
bool convolve_by_products(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const ConvGeometry& geometry);

}  // namespace facula::cpu
