// Derivatives of soft-max.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return grad * (grad_output - sum_along(grad_output * output, dim)) - grad_output * sum_along(grad * output, dim);
}

}  // namespace facula
