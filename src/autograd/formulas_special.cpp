// Derivatives of special functions.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor polygamma_backward(const Tensor& grad, const Operand& n, const Tensor& self) {
  if (!n.is_tensor()) return grad * _polygamma(Scalar(n.scalar().to_double() + 1), self);
  return grad * _polygamma(add(n, Scalar(1), Scalar(1)), self);
}

}  // namespace facula
