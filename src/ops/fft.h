// Where the transforms come from.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

enum class FftKind { Forward, Backward, RealToHalf, HalfToReal };

/// Fills contiguous `out` with the unscaled transform of `in` along `dims` (the last one halved by the real kinds).
inline Kernel<void(const Tensor& out, const Tensor& in, IntList dims, FftKind kind)> fft_kernel{"fft"};

}  // namespace facula
