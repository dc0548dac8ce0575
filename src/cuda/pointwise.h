// Runs element-wise work on the device.
#pragma once

#include "cuda/kernel.h"
#include "ops/iterator.h"

namespace facula::cuda {

/// Runs a loop over a plan of operands on the device; the loop is what kernels/pointwise.cuh calls Loop.
void run_loop(const DeviceLoop& loop, const Plan& plan, int device);

}  // namespace facula::cuda
