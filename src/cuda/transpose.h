// Copies tensors, exchanging the innermost dimension with another one.
#pragma once

#include "ops/iterator.h"

namespace facula::cuda {

/// Runs a plan that copies elements of one dtype where its innermost dimensions differ and both are long; else nothing
/// is done, and the result is false.
bool run_transpose(const Plan& plan, int device);

}  // namespace facula::cuda
