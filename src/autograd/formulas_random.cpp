#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

// In the place of a formula that nobody has derived: an error only for who needs it.
Tensor no_derivative(const char* op) { throw_error(ErrorKind::NotImplemented, op, ": has no derivative"); }

// Component j changes by (i == j) - x_j times the derivative below of component i (see kernels/special_implicit.h).
Tensor dirichlet_backward(const Tensor& grad, const Tensor& sample, const Tensor& concentration) {
  const Tensor total = sum(concentration, IntList({-1}), true);
  return _dirichlet_grad(sample, concentration, total) * (grad - sum(sample * grad, IntList({-1}), true));
}

}  // namespace facula
