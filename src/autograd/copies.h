// Copies of elements outside of ops, which those who record everything are told of (observe/copies.h).
#pragma once

#include "core/tensor.h"
#include "observe/copies.h"
#include "ops/kernel_table.h"

namespace facula {

inline void copy_told(const Tensor& to, const Tensor& from) {
  copy_elements(to, from);
  tell_copied(to, from);
}

}  // namespace facula
