// Declares what the ops that work along one dimension have in common: their kernels' signatures, and the rules of their
// results.
#pragma once

#include "ops/kernel_table.h"
#include "ops/out.h"

namespace facula {

/// Each line of dimension `dim` of `in`, converted to `compute`, gives the line of `out` at its place. `out` is
/// contiguous and of `compute`; CUDA's kernels convert to its dtype.
using LineKernel = Kernel<void(DType compute, int64_t dim, const Tensor& in, const Tensor& out)>;
/// The same with two inputs of one shape.
using Line2Kernel = Kernel<void(DType compute, int64_t dim, const Tensor& a, const Tensor& b, const Tensor& out)>;
/// Values with their positions in the line (int64): as many as the line has elements, or one. CUDA's kernels convert
/// to the dtype of `values`.
using PositionKernel =
    Kernel<void(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions)>;

namespace ops {

/// The compute dtype of a line; bool and the integers are handled as int64.
DType line_dtype(const Tensor& self, const char* op);
/// Refuses complex tensors.
void require_real(const Tensor& self, const char* op, ErrorKind kind = ErrorKind::NotImplemented);

/// Runs a kernel whose result has the shape of its input.
Tensor map_lines(const LineKernel& kernel, const Tensor& self, int64_t dim, DType result_dtype, const char* op,
                 const Out& out, DType compute);

/// Runs a kernel that gives values and their positions; `size` is the length of its results along dim, -1 as long as
/// the input.
std::tuple<Tensor, Tensor> with_positions(const PositionKernel& kernel, const Tensor& self, int64_t dim, int64_t size,
                                          const char* op, const Out& out0, const Out& out1);

}  // namespace ops
}  // namespace facula
