// Kernels of the reductions.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// What a reduction does with its elements x, and the dtype it accumulates in (FoldArgs::compute).
enum class Fold : uint8_t {
  Sum,              // x
  NanSum,           // x, NaN counting as 0
  Prod,             // product of x
  Max,              // NaN wins
  Min,              // NaN wins
  Any,              // bool
  All,              // bool
  CountNonzero,     // bool in, int64 out
  AbsSum,           // |x|
  SquareSum,        // x^2
  PowerSum,         // |x|^power
  AbsMax,           // |x|, NaN wins
  AbsMin,           // |x|, NaN wins
  CenteredSquares,  // (x - center)^2
  Xor,              // bit-wise, of int64
};

/// What happens to an accumulated floating-point value at the end.
enum class Finish : uint8_t { Nothing, Sqrt, Power };

struct FoldArgs {
  Fold fold;
  DType compute;       // elements are converted to this
  double divisor = 1;  // the accumulated value is divided by it
  Finish finish = Finish::Nothing;
  double power = 2;                // of PowerSum; Finish::Power takes its root
  const Tensor* center = nullptr;  // of CenteredSquares: of compute dtype, contiguous, shaped as out

  template <class See>
  void memory(See see) const {
    if (center) see(*center);
  }
};

/// out (keepdim shape, contiguous, of the accumulator's dtype) = fold of `in` over the dimensions where out has size
/// one and in has not. An empty fold gives the fold's identity.
inline Kernel<void(const Tensor& out, const Tensor& in, const FoldArgs&)> fold_kernel{"reduce"};

/// The sum of n contiguous elements in the dtype of the elements: the shortest way for small tensors.
inline Kernel<void(DType dtype, int64_t n, const void* in, void* out)> sum_flat_kernel{"sum"};

}  // namespace facula
