// Defines how MPI reduces a dtype: by a type and an op of its own, or one of ours.
#pragma once

#include "distributed/engine.h"
#include "distributed/mpi_abi.h"

namespace facula::distributed::mpi {

struct Arithmetic {
  Type type;
  Op op;
  int64_t per_element;  // complex numbers are two
};

/// A function that reduces narrow floating-point numbers in float32; null where MPI has an op.
UserFunction* own_reduction(DType dtype, Reduction reduction);
/// `own` is the op that was made of own_reduction.
Arithmetic arithmetic(DType dtype, Reduction reduction, Op own);

}  // namespace facula::distributed::mpi
