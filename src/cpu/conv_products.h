// Convolution of channels-last images by matrix products.
#pragma once

#include "ops/conv.h"

namespace facula::cpu {

/// w from y and x (ConvMap::Weight); false where it does not apply, and then nothing was written.
bool weight_by_products(const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g);

}  // namespace facula::cpu
