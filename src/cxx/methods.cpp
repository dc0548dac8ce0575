// The methods of torch::Tensor that the op schema states.
#include <cmath>

#include "functions.h"
#include "torch/detail/ops.h"

namespace torch {
#include "torch/detail/methods.inc"
}  // namespace torch
