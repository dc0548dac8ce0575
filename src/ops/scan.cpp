// Rules of the scans.
#include "ops/scan.h"

#include "ops/contiguous.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

Tensor accumulate(const LineKernel& kernel, const Tensor& self, int64_t dim, std::optional<DType> dtype, const char* op,
                  const Out& out) {
  DType result = dtype.value_or(out.dtype_or(is_bits(self.dtype()) ? DType::Int64 : self.dtype()));
  if (self.numel()) warn_of_lost_parts(self.dtype(), result);
  FACULA_CHECK(result != DType::Bool, ErrorKind::NotImplemented, op, ": not implemented for dtype ", result);
  return map_lines(kernel, self, dim, result, op, out, is_bits(result) ? DType::Int64 : compute_dtype(result));
}

}  // namespace

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype, const Out& out) {
  return accumulate(cumsum_kernel, self, dim, dtype, "cumsum", out);
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype, const Out& out) {
  return accumulate(cumprod_kernel, self, dim, dtype, "cumprod", out);
}

Tensor logcumsumexp(const Tensor& self, int64_t dim, const Out& out) {
  wrap_dim(dim, self.dim(), "logcumsumexp");
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::NotImplemented, "logcumsumexp: not implemented for dtype ",
               self.dtype());
  return map_lines(logcumsumexp_kernel, self, dim, self.dtype(), "logcumsumexp", out, compute_dtype(self.dtype()));
}

std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, const Out& out0, const Out& out1) {
  wrap_dim(dim, self.dim(), "cummax");
  require_real(self, "cummax");
  return with_positions(cummax_kernel, self, dim, -1, "cummax", out0, out1);
}

std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, const Out& out0, const Out& out1) {
  wrap_dim(dim, self.dim(), "cummin");
  require_real(self, "cummin");
  return with_positions(cummin_kernel, self, dim, -1, "cummin", out0, out1);
}

}  // namespace facula::ops
