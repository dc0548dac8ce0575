// Rules that the ops along one dimension share.
#include "ops/line_kernels.h"

#include "raw_ops.h"

namespace facula::ops {

DType line_dtype(const Tensor& self, const char* op) {
  FACULA_CHECK(self.dtype() != DType::UInt64, ErrorKind::NotImplemented, op, ": not implemented for dtype ",
               self.dtype());
  return is_bits(self.dtype()) ? DType::Int64 : compute_dtype(self.dtype());
}

void require_real(const Tensor& self, const char* op, ErrorKind kind) {
  FACULA_CHECK(!self.is_complex(), kind, op, ": not implemented for dtype ", self.dtype());
}

Tensor map_lines(const LineKernel& kernel, const Tensor& self, int64_t dim, DType result_dtype, const char* op,
                 const Out& out, DType compute) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  const bool is_direct = compute == result_dtype || self.device().is_cuda();  // whose kernels convert results
  Tensor result = is_direct ? out.make(self.sizes(), result_dtype, self.device())
                            : facula::empty(self.sizes(), compute, self.device());
  if (!self.is_meta()) kernel(self.device(), compute, d, self, result);
  return is_direct ? result : to_dtype(result, result_dtype);
}

std::tuple<Tensor, Tensor> with_positions(const PositionKernel& kernel, const Tensor& self, int64_t dim, int64_t size,
                                          const char* op, const Out& out0, const Out& out1) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  const DType compute = line_dtype(self, op);
  Dims shape(self.sizes());
  if (size >= 0 && self.dim() > 0) shape[d] = size;
  Tensor values = self.device().is_cuda() || compute == self.dtype() ? out0.make(shape, self.dtype(), self.device())
                                                                     : facula::empty(shape, compute, self.device());
  Tensor positions = out1.make(shape, DType::Int64, self.device());
  if (!self.is_meta()) kernel(self.device(), compute, d, self, values, positions);
  if (values.dtype() != self.dtype()) values = to_dtype(values, self.dtype());
  return {std::move(values), std::move(positions)};
}

}  // namespace facula::ops
