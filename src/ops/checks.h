// Checks values in a kernel: a device with a queue flags and reports them, and the host does not wait.
#pragma once

#include "kernels/choices.h"
#include "ops/kernel_table.h"

namespace facula {

using kernels::Holds;

struct ValueCheck {
  Holds holds;
  ErrorKind error;
  const char* op;
  const char* expected;  // "<op>: <expected>, got <the first value for which it does not hold>"
};

/// Throws unless what is said holds for every element of a tensor of any layout.
inline Kernel<void(const Tensor& t, const ValueCheck& check)> check_values_kernel{"check"};

inline void check_values(const Tensor& t, const ValueCheck& check) {
  if (t.is_meta() || t.numel() == 0) return;
  check_values_kernel(t.device(), t, check);
}

}  // namespace facula
