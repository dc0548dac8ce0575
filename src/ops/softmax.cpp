// Rules of soft-max.
#include "ops/softmax.h"

#include "raw_ops.h"

namespace facula::ops {
namespace {

Tensor forward(const LineKernel& kernel, const Tensor& self, int64_t dim, const char* op) {
  FACULA_CHECK(self.is_floating(), ErrorKind::NotImplemented, op, ": not implemented for dtype ", self.dtype());
  const int64_t d = wrap_dim(dim, self.dim(), op);
  Tensor result = facula::empty(self.sizes(), self.dtype(), self.device());
  if (!self.is_meta()) kernel(self.device(), compute_dtype(self.dtype()), d, self, result);
  return result;
}

Tensor backward(const Line2Kernel& kernel, const Tensor& grad, const Tensor& output, int64_t dim, const char* op) {
  int64_t d = wrap_dim(dim, output.dim(), op);
  FACULA_CHECK(output.is_floating() && grad.dtype() == output.dtype() && grad.sizes() == output.sizes(),
               ErrorKind::Runtime, op, ": expected a gradient of the result's dtype and shape, ", output.dtype(),
               " and ", output.sizes(), ", got ", grad.dtype(), " and ", grad.sizes());
  Tensor result = facula::empty(output.sizes(), output.dtype(), output.device());
  if (!output.is_meta()) kernel(output.device(), compute_dtype(output.dtype()), d, grad, output, result);
  return result;
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
