// Kernels of indexing with tensors.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// out (k, ndim) int64, contiguous, receives the positions of non-zero elements; called with the count found before.
inline Kernel<int64_t(const Tensor& in)> count_nonzero_kernel{"nonzero"};
inline Kernel<void(const Tensor& out, const Tensor& in)> nonzero_kernel{"nonzero"};

/// Gathers or scatters along indexed dimensions. `table` is (positions) int64: element offsets into the indexed tensor;
/// for every position a block of `block` (shape and strides) elements is moved.
struct IndexPlan {
  Tensor offsets;        // int64, contiguous: element offset per position
  Dims block_shape;      // the dimensions taken whole
  Dims block_strides;    // of the indexed tensor
};
inline Kernel<void(const Tensor& out, const Tensor& in, const IndexPlan& plan)> index_kernel{"index"};
inline Kernel<void(const Tensor& out, const IndexPlan& plan, const Tensor& values, bool accumulate)> index_put_kernel{"index_put"};

}  // namespace facula
