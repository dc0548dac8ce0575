// Connects core/materialize.cpp, which exchanges the memory of private layouts, with core/write.cpp.
#pragma once

#include "core/tensor.h"

namespace facula {

/// Counts a write to `held`, which was hold(self), and takes it along to the memory that `self` has got meanwhile.
void end_held_write(const Tensor& self, const Tensor& held, uint16_t op) noexcept;

}  // namespace facula
