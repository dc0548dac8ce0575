// Computes small element-wise calls in the shortest way.
#pragma once

#include "ops/elementwise_same.h"

namespace facula::ops {

/// Computes at once what is little and lies simply, into a new tensor where `out` is undefined. False where the call is
/// not like that: then nothing has happened, and a plan or an error is due. Counts no write. `same`: what
/// same_operands() gives.
bool small_call(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                const TensorImpl* same, Tensor& out);

}  // namespace facula::ops
