// Derivatives of scans.
#include "autograd/batching.h"
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {
namespace {

Tensor reversed(const Tensor& self, int64_t dim) { return self.dim() == 0 ? self : flip(self, IntList(&dim, 1)); }

Tensor reversed_cumsum(const Tensor& self, int64_t dim) {
  return reversed(cumsum(reversed(self, dim), dim, std::nullopt), dim);
}
Tensor reversed_logcumsumexp(const Tensor& self, int64_t dim) {
  return reversed(logcumsumexp(reversed(self, dim), dim), dim);
}

}  // namespace

Tensor cumsum_backward(const Tensor& grad, int64_t dim) { return reversed_cumsum(grad, dim); }

// out_k = x_1 ... x_k. Without zeros, its derivative by x_j is out_k / x_j for k >= j. With zeros, the products without
// x_j are made for all j, as a matrix per line.
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.dim() == 0) return grad * ones_like(self);
  if (self.numel() == 0) return zeros_like(self);
  if (known_without_zeros(self)) return reversed_cumsum(grad * conj(result), dim) / conj(self);
  int64_t d = wrap_dim(dim, self.dim(), "cumprod"), n = self.size(d);
  Tensor lines = transpose(self, d, -1);
  Dims shape(lines.sizes());
  shape.push_back(n);
  Tensor places = cumsum(ones({n}, DType::Int64, self.device()), 0, std::nullopt);
  Tensor j = unsqueeze(places, 1);
  Tensor products = cumprod(where(eq(j, places), Scalar(1.0), expand(unsqueeze(lines, -2), shape)), -1, std::nullopt);
  Tensor parts = where(le(j, places), unsqueeze(transpose(grad, d, -1), -2) * conj(products), Scalar(0.0));
  int64_t last = -1;
  return transpose(sum(parts, IntList(&last, 1), false, std::optional<DType>()), d, -1);
}

// The sum over k >= j of grad_k exp(x_j - out_k), in logarithms so that nothing overflows; positive and negative
// gradients apart, as real numbers have no logarithm of the negative ones.
namespace {

// The same as a sum over pairs, exp(self[i] - result[k]) for k >= i: more memory, but differentiable where the form in
// logarithms meets log(0).
Tensor logcumsumexp_backward_pairs(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  Tensor x = unsqueeze(transpose(self, dim, -1), -1), r = unsqueeze(transpose(result, dim, -1), -2);
  Tensor g = unsqueeze(transpose(grad, dim, -1), -2);
  Tensor later = triu(ones({x.size(-2), x.size(-2)}, DType::Bool, self.device()), 0);
  Tensor weights = conj(exp(where(later, x - r, Scalar(-INFINITY))));
  return transpose(sum(weights * g, std::optional<IntList>(IntList{-1}), false, std::nullopt), dim, -1);
}

}  // namespace

Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.dim() == 0) return grad * ones_like(self);
  if (GradMode::enabled() || is_batched(grad)) return logcumsumexp_backward_pairs(grad, self, result, dim);
  if (self.is_complex()) return conj(exp(reversed_logcumsumexp(log(conj(grad)) - result, dim) + self));
  Tensor size = log(abs(grad)), lowest = full({}, Scalar(-INFINITY), grad.dtype(), grad.device());
  Tensor positive = where(gt(grad, 0), size, lowest), negative = where(lt(grad, 0), size, lowest);
  return exp(reversed_logcumsumexp(positive - result, dim) + self) -
         exp(reversed_logcumsumexp(negative - result, dim) + self);
}

}  // namespace facula
