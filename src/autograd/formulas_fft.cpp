#include "autograd/formulas_fft.h"

#include "functions.h"

namespace facula {

namespace {

/// `half` of a transform of `n` real elements, with the frequencies between zero and the middle, which stand for their
/// mirror images as well, times a factor.
Tensor weighted(const Tensor& half, int64_t dim, int64_t n, double weight) {
  int64_t count = half.size(dim), mirrored = n - count;
  if (mirrored <= 0) return half;
  Tensor factor = ones({count}, real_dtype(half.dtype()), half.device());
  fill_(slice(factor, 0, 1, 1 + mirrored, 1), weight);
  Dims shape(static_cast<size_t>(half.dim()), 1);
  shape[static_cast<size_t>(dim)] = count;
  return mul(half, view(factor, shape));
}

}  // namespace

// The half that was not stored has no gradient, while the inverse transform counts it: hence one half.
Tensor fft_r2c_backward(const Tensor& grad, IntList sizes, IntList dim, double scale) {
  int64_t n = sizes[static_cast<size_t>(dim.back())];
  return _fft_c2r(weighted(grad, dim.back(), n, 0.5), dim, scale, n);
}

Tensor fft_c2r_backward(const Tensor& grad, IntList dim, double scale) {
  return weighted(_fft_r2c(grad, dim, scale), dim.back(), grad.size(dim.back()), 2.0);
}

}  // namespace facula
