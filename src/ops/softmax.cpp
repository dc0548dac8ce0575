// Rules of soft-max.
#include "ops/softmax.h"

#include "raw_ops.h"

namespace facula::ops {
namespace {

/// CUDA's kernels write the result's dtype, so that narrow elements need no second pass over memory.
DType written_dtype(const Tensor& t) {
  return t.device().type == DeviceType::CUDA ? t.dtype() : compute_dtype(t.dtype());
}

Tensor forward(const LineKernel& kernel, const Tensor& self, int64_t dim, const char* op) {
  FACULA_CHECK(self.is_floating(), ErrorKind::NotImplemented, op, ": not implemented for dtype ", self.dtype());
  const DType compute = compute_dtype(self.dtype());
  if (written_dtype(self) == compute) return map_lines(kernel, self, dim, self.dtype(), op, {}, compute);
  const int64_t d = wrap_dim(dim, self.dim(), op);
  Tensor result = facula::empty(self.sizes(), self.dtype(), self.device());
  kernel(self.device(), compute, d, self, result);
  return result;
}

Tensor backward(const Line2Kernel& kernel, const Tensor& grad, const Tensor& output, int64_t dim, const char* op) {
  int64_t d = wrap_dim(dim, output.dim(), op);
  FACULA_CHECK(output.is_floating() && grad.dtype() == output.dtype() && grad.sizes() == output.sizes(),
               ErrorKind::Runtime, op, ": a gradient of the result's dtype and shape, ", output.dtype(), " and ",
               output.sizes(), ", got ", grad.dtype(), " and ", grad.sizes());
  DType compute = compute_dtype(output.dtype());
  Tensor result = facula::empty(output.sizes(), written_dtype(output), output.device());
  if (!output.is_meta()) kernel(output.device(), compute, d, grad, output, result);
  return result.dtype() == output.dtype() ? result : to_dtype(result, output.dtype());
}

}  // namespace

Tensor _softmax(const Tensor& self, int64_t dim) { return forward(softmax_kernel, self, dim, "softmax"); }
Tensor _log_softmax(const Tensor& self, int64_t dim) { return forward(log_softmax_kernel, self, dim, "log_softmax"); }

Tensor _softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return backward(softmax_backward_kernel, grad_output, output, dim, "softmax");
}
Tensor _log_softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return backward(log_softmax_backward_kernel, grad_output, output, dim, "log_softmax");
}

}  // namespace facula::ops
