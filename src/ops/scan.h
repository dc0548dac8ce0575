// Kernels that work along one dimension: scans, soft-max, and reductions that must see a whole line at once.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

enum class LineOp : uint8_t {
  CumSum,        // [x] -> [same]
  CumProd,       // [x] -> [same]
  LogCumSumExp,  // [x] -> [same]
  CumMax,        // [x] -> [same, int64 positions]; NaN wins; the last of equals
  CumMin,
  Softmax,          // [x] -> [same]
  LogSoftmax,       // [x] -> [same]
  SoftmaxBackward,  // [grad, result] -> [same]
  LogSoftmaxBackward,
  ArgMax,  // [x] -> [value, int64 position] of size one; NaN wins; the first of equals
  ArgMin,
  Median,      // [x] -> [value, position]; the lower of two; NaN wins
  NanMedian,   // [x] -> [value, position]; NaN left out unless there is nothing else
  Mode,        // [x] -> [value, position]; the smallest of the most frequent, its last position
  ProdOthers,  // [x] -> [same]: the product of the other elements of the line
};

/// Runs `op` on every line of dimension `dim`. Inputs are converted to `compute`; outputs are of `compute` (int64 for
/// positions), contiguous, and have size one or the size of the line in `dim`.
inline Kernel<void(LineOp op, DType compute, int64_t dim, TensorList in, TensorList out)> line_kernel{"scan"};

}  // namespace facula
