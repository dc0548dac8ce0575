// Checks of values, as a kernel: a device with a queue flags and reports them, the host does not wait.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

enum class Holds : uint8_t {
  NotZero,
  NotNegative,     // NaN is not negative
  UnitInterval,    // in [0, 1]; NaN passes
  InUnitInterval,  // in [0, 1]; NaN does not pass
  Finite,
  Degree,  // at most kMostDegree (ops/elementwise.h); NaN passes
};

struct ValueCheck {
  Holds holds;
  ErrorKind error;
  const char* op;
  const char* expected;  // "<op>: <expected>, got <the first value for which it does not hold>"
};

/// Throws unless what is said holds for every element of a tensor of any layout.
inline Kernel<void(const Tensor& t, const ValueCheck& check)> check_values_kernel{"check"};

inline void check_values(const Tensor& t, const ValueCheck& check) {
  if (!t.is_meta() && t.numel()) check_values_kernel(t.device(), t, check);
}

}  // namespace facula
