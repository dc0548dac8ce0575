// Defines scalar functions of random ops: what is computed with the numbers that were drawn.
#pragma once

#include "math.h"

namespace facula::kernels {

/// In dropout: `mask` is 0 or 1.
template <class T>
FACULA_FN T masked_scale(T x, T mask, T scale) {
  return x * mask * scale;
}

}  // namespace facula::kernels
