// Computes convolutions of channels-last images, and of small plain ones, by matrix products.
#pragma once

#include "ops/conv.h"

namespace facula::cpu {

/// Any of the three maps; false where it does not apply, and then nothing was written.
bool convolve_by_products(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const ConvGeometry& geometry);

/// The forward map and the gradient of the images, plain and so small that calling the library takes longer than the
/// sums; false where it does not apply, and then nothing was written. One per instruction-set level.
inline bool (*convolve_small)(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                              const ConvGeometry& geometry) = nullptr;

}  // namespace facula::cpu
