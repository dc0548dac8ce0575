// Computes Fourier transforms by cuFFT, and caches its plans for each device.
#pragma once

#include "ops/fft.h"

namespace facula::cuda::fft_library {

/// cuFFT transforms up to three dimensions at once.
constexpr size_t kMostDims = 3;

/// Whether the library is there.
bool is_there();

/// Fills `out` with the transform of `in` along `dims` (one to three, the halved one last; for HalfToReal one), not
/// scaled, as fft_kernel does. False, and nothing is done, where the policy says that it is not the library's. With
/// `is_ours`, `in` may be overwritten.
bool transform(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, bool is_ours = false);

size_t plans(int device);
size_t most_plans(int device);
void set_most_plans(int device, size_t most);
void forget_plans(int device);

}  // namespace facula::cuda::fft_library
