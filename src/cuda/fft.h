// Declares plans of Fourier transforms that are cached for a device.
#pragma once

#include <cstddef>

namespace facula::cuda {

size_t fft_plans(int device);
size_t most_fft_plans(int device);
void set_most_fft_plans(int device, size_t most);
void forget_fft_plans(int device);

}  // namespace facula::cuda
