// Derivatives of ops that pick elements along a dimension.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor selected_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& indices) {
  if (!grad.defined()) return grad;
  return scattered(grad, sizes, dim, indices);
}

Tensor unsqueeze_if(const Tensor& grad, int64_t dim) { return grad.defined() ? unsqueeze(grad, dim) : grad; }

}  // namespace facula
