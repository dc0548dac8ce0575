// Declares derivatives of transforms between real and complex signals.
#pragma once

#include "core/tensor.h"

namespace facula {

Tensor fft_r2c_backward(const Tensor& grad, IntList sizes, IntList dim, double scale);
Tensor fft_c2r_backward(const Tensor& grad, IntList dim, double scale);

}  // namespace facula
