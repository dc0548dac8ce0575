// Computes convolutions by oneDNN.
#pragma once

#include "ops/conv.h"

namespace facula::cpu::onednn {

/// Does one of the maps of a convolution (see ConvMap), bias included; false where the library is absent or
/// has nothing better than a reference loop, and then nothing was written. A narrow convolution may write a
/// float32 result; one of bytes (x of int8 or uint8, w of int8) writes int32, exactly, or nothing.
bool convolve(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
              const ConvGeometry& geometry);

}  // namespace facula::cpu::onednn
