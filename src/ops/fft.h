// Declares the kernels of Fourier transforms.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

namespace fft {
/// A prime up to this is a radix; transforms of lengths with larger ones are convolutions.
constexpr int64_t kLargestRadix = 31;
}  // namespace fft

enum class FftKind { Forward, Backward, RealToHalf, HalfToReal };

/// Fills `out` with the transform of `in` along `dims` (the last one halved by the real kinds), times scale. Both are
/// contiguous and of one precision; there is at least one dimension.
inline Kernel<void(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale)> fft_kernel{"fft"};
/// Fills `out`, transforms of real elements along `dim`, from the half that determines them; `conjugated` for inverse
/// ones.
inline Kernel<void(const Tensor& out, const Tensor& half, int64_t dim, bool conjugated)> fft_mirror_kernel{"fft"};

}  // namespace facula
