// Special functions written with ops.
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "functions.h"

namespace facula {

Tensor polygamma(int64_t n, const Tensor& self) {
  if (n < 0) throw_error(ErrorKind::Runtime, "polygamma: expected n of at least 0, got ", n);
  return n == 0 ? digamma(self) : n == 1 ? _trigamma(self) : _polygamma(n, self);
}

const Tensor& polygamma_(const Tensor& self, int64_t n) {
  Tensor result = polygamma(n, self);
  FACULA_CHECK(can_cast(result.dtype(), self.dtype()), ErrorKind::Runtime,
               "polygamma_: the result cannot be written into the tensor, since result type ", result.dtype(),
               " can't be cast to ", self.dtype());
  return copy_(self, result, false);
}

Tensor mvlgamma(const Tensor& self, int64_t p) {
  if (p < 1) throw_error(ErrorKind::Runtime, "mvlgamma: expected p of at least 1, got ", p);
  const double log_pi = std::log(std::numbers::pi);
  DType dtype = is_bits(self.dtype()) ? default_dtype() : self.dtype();
  Tensor offsets = arange(Scalar(0), Scalar(0.5 * static_cast<double>(p) - 0.25), Scalar(0.5), dtype, self.device());
  int64_t last = -1;
  Tensor total = sum(lgamma(unsqueeze(self, -1) - offsets), std::optional<IntList>(IntList(&last, 1)), false,
                     std::optional<DType>());
  return total + 0.25 * static_cast<double>(p * (p - 1)) * log_pi;
}

Tensor _xlogy_backward(const Tensor& grad_output, const Operand& self, const Operand& other) {
  // a number stays one: as a tensor of its own it would be float32
  Tensor product = other.is_tensor() ? mul(grad_output, log(other.tensor()))
                                     : mul(grad_output, Scalar(std::log(other.scalar().to_double())));
  return where(eq(self.tensor(), 0.0), 0.0, product);
}

Tensor _xlog1py_backward(const Tensor& grad_output, const Operand& self, const Operand& other) {
  return where(logical_and(eq(self.tensor(), 0.0), other <= -1.0), 0.0, xlog1py(grad_output, other));
}

Tensor _sinc_backward(const Tensor& grad_output, const Tensor& self) {
  const Tensor flat = eq(self, 0.0);
  const Tensor slope = where(flat, 0.0, (cos(std::numbers::pi * self) - sinc(self)) / where(flat, 1.0, self));
  return grad_output * conj(slope);
}

}  // namespace facula
