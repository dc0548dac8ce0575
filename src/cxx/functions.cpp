// The functions that the op schema states.
#include "functions.h"

#include <cmath>

#include "torch/detail/ops.h"

namespace torch {
#include "torch/detail/functions.inc"
}  // namespace torch
