// Declares the backend of CUDA; see core/backend.h.
#pragma once

#include "core/tensor.h"

namespace facula::cuda {

/// Puts CUDA's row and kernels into the tables. No driver is opened before a device is used.
void register_backend();

/// Waits for the stream that the calling thread works on.
void wait_for_results(int device);

}  // namespace facula::cuda
