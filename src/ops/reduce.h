// Declares kernels of the reductions.
#pragma once

#include "ops/line_kernels.h"

namespace facula {

/// What happens to an accumulated floating-point value at the end.
enum class Finish : uint8_t { Nothing, Sqrt, Power };

struct FoldArgs {
  DType compute;       // elements are converted to this
  double divisor = 1;  // the accumulated value is divided by it
  Finish finish = Finish::Nothing;
  double power = 2;                // of power_sum_fold; Finish::Power takes its root
  const Tensor* center = nullptr;  // of centered_squares_fold: of compute dtype, contiguous, shaped as out
  std::optional<DType> total;      // on CUDA: what is accumulated in; out has any dtype and is converted to at the end

  template <class See>
  void memory(See see) const {
    if (center) see(*center);
  }
};

/// out (keepdim shape, contiguous, of the accumulator's dtype) = fold of `in` over the dimensions where out has size
/// one and in has not. An empty fold gives the fold's identity. The accumulator is of the compute dtype where nothing
/// else is said.
using FoldKernel = Kernel<void(const Tensor& out, const Tensor& in, const FoldArgs&)>;

inline FoldKernel sum_fold{"sum"}, nansum_fold{"nansum"}, prod_fold{"prod"};
inline FoldKernel max_fold{"max"}, min_fold{"min"};               // NaN wins
inline FoldKernel any_fold{"any"}, all_fold{"all"};               // bool in and out
inline FoldKernel count_nonzero_fold{"count_nonzero"};            // bool in, int64 out
inline FoldKernel xor_fold{"hash_tensor"};                        // bit-wise, of int64
inline FoldKernel abs_sum_fold{"norm"}, square_sum_fold{"norm"};  // |x|, x^2
inline FoldKernel power_sum_fold{"norm"};                         // |x|^power
inline FoldKernel abs_max_fold{"norm"}, abs_min_fold{"norm"};     // of |x|; NaN wins
inline FoldKernel centered_squares_fold{"var"};                   // (x - center)^2, on the CPU
inline FoldKernel moments_fold{"var"};                            // (x - mean)^2 in one pass, on CUDA

/// The sum of n contiguous elements in the dtype of the elements: the shortest way for small tensors.
inline Kernel<void(DType dtype, int64_t n, const void* in, void* out)> sum_flat_kernel{"sum"};

/// One value and its position per line; NaN wins; the first of equals.
inline PositionKernel argmax_kernel{"argmax"}, argmin_kernel{"argmin"};
/// The lower of two in the middle; NaN wins, and is left out by nanmedian unless there is nothing else.
inline PositionKernel median_kernel{"median"}, nanmedian_kernel{"nanmedian"};
/// The smallest of the most frequent, and its last position.
inline PositionKernel mode_kernel{"mode"};
/// The product of the other elements of the line.
inline LineKernel prod_others_kernel{"prod"};

}  // namespace facula
