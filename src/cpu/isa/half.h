// Loops over float16 and bfloat16 that convert in registers, for the ops that such tensors meet most. All other ops
// convert through buffers (elementwise.cpp).
#pragma once

#include "cpu/isa.h"
#include "ops/iterator.h"

namespace facula::cpu::FACULA_ISA {

/// The loop whose elements are `half` in memory and whose numbers and parameters are float32; null where there is none.
LoopFn half_loop(uint16_t loop, DType half);

}  // namespace facula::cpu::FACULA_ISA
