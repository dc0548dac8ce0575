// Computes matrix products by cuBLAS, where it is there.
#pragma once

#include "ops/matmul.h"

namespace facula::cuda {

/// Queues the product on the current stream of the device whose kernel runs. False where the library is not there or
/// has no way to compute it.
bool product_by_library(const MatrixProduct& product);

}  // namespace facula::cuda
