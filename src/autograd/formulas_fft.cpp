#include "autograd/formulas_fft.h"

#include "functions.h"

namespace facula {

// The half that was not stored has no gradient: it is padded with zeros.
Tensor fft_r2c_backward(const Tensor& grad, IntList sizes, IntList dim, double scale) {
  int64_t last = dim.back(), missing = sizes[static_cast<size_t>(last)] - grad.size(last);
  Tensor full = grad;
  if (missing > 0) {
    Dims shape(grad.sizes());
    shape[static_cast<size_t>(last)] = missing;
    full = cat({grad, zeros(shape, grad.dtype(), grad.device())}, last);
  }
  return real(_fft_c2c(full, dim, scale, false));
}

// Frequencies between zero and the middle stand for their mirror images as well.
Tensor fft_c2r_backward(const Tensor& grad, IntList dim, double scale) {
  Tensor half = _fft_r2c(grad, dim, scale);
  int64_t last = dim.back(), n = grad.size(last), count = half.size(last), doubled = n - count;
  if (doubled <= 0) return half;
  Tensor factor = ones({count}, real_dtype(half.dtype()), half.device());
  fill_(slice(factor, 0, 1, 1 + doubled, 1), 2);
  Dims shape(static_cast<size_t>(half.dim()), 1);
  shape[static_cast<size_t>(last)] = count;
  return mul(half, view(factor, shape));
}

}  // namespace facula
