// Derivatives of reductions.
#include <utility>

#include "autograd/batching.h"
#include "autograd/composed.h"
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {
namespace {

// A reduced tensor with its reduced dimensions back, of size one.
Tensor with_reduced_dims(const Tensor& reduced, int64_t ndim, std::optional<IntList> dim, bool keepdim) {
  if (keepdim || !dim || dim->empty() || ndim == 0) return reduced;
  Dims order;
  for (int64_t d : *dim) order.push_back(d < 0 ? d + ndim : d);
  std::sort(order.begin(), order.end());
  Tensor t = reduced;
  for (int64_t d : order) t = unsqueeze(t, d);
  return t;
}

int64_t reduced_count(IntList sizes, std::optional<IntList> dim) {
  int64_t ndim = static_cast<int64_t>(sizes.size()), count = 1;
  if (!dim || dim->empty()) {
    for (int64_t s : sizes) count *= s;
  } else if (ndim > 0) {
    for (int64_t d : *dim) count *= sizes[static_cast<size_t>(d < 0 ? d + ndim : d)];
  }
  return count;
}

Tensor sum_over(const Tensor& self, std::optional<IntList> dim) { return sum(self, dim, true, std::optional<DType>()); }

}  // namespace

Tensor sum_along(const Tensor& self, int64_t dim) { return sum_over(self, IntList(&dim, 1)); }

Tensor sum_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim) {
  return expand(with_reduced_dims(grad, static_cast<int64_t>(sizes.size()), dim, keepdim), sizes);
}

Tensor mean_backward(const Tensor& grad, IntList sizes, std::optional<IntList> dim, bool keepdim) {
  return sum_backward(grad, sizes, dim, keepdim) / static_cast<double>(reduced_count(sizes, dim));
}

bool known_without_zeros(const Tensor& t) { return t.is_cpu() && !is_batched(t) && all(t).item().to_bool(); }

namespace {

thread_local bool composed = false;

/// The products of others along a dimension, from copies: what lies before an element times what lies behind it.
Tensor products_of_copies(const Tensor& self, int64_t dim) {
  const int64_t d = wrap_dim(dim, self.dim(), "prod"), n = self.size(d);
  const Tensor one = ones_like(narrow(self, d, 0, 1));
  if (n == 1) return one;
  const Tensor head[] = {one, narrow(self, d, 0, n - 1)}, tail[] = {one, flip(narrow(self, d, 1, n - 1), Dims{d})};
  return cumprod(cat(TensorList(head, 2), d), d) * flip(cumprod(cat(TensorList(tail, 2), d), d), Dims{d});
}

}  // namespace

bool derivatives_are_composed() { return composed; }
bool set_derivatives_are_composed(bool on) { return std::exchange(composed, on); }

// Without zeros the product of the others is result / self, which costs nothing more.
Tensor prod_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  if (self.numel() == 0) return zeros_like(self);
  if (self.dim() == 0) return grad * ones_like(self);
  if (composed) return reshape(grad * conj(products_of_copies(reshape(self, {-1}), 0)), self.sizes());
  if (known_without_zeros(self)) return grad * conj(result / self);
  Tensor flat = reshape(self, {-1});
  return reshape(grad * conj(_prod_others(flat, 0)), self.sizes());
}

Tensor prod_dim_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim, bool keepdim) {
  if (self.dim() == 0) return grad * ones_like(self);
  IntList dims(&dim, 1);
  Tensor g = with_reduced_dims(grad, self.dim(), dims, keepdim);
  if (self.numel() == 0) return expand(g, self.sizes());
  if (composed) return g * conj(products_of_copies(self, dim));
  if (known_without_zeros(self)) return g * conj(with_reduced_dims(result, self.dim(), dims, keepdim) / self);
  return g * conj(_prod_others(self, dim));
}

// The products of others once more, now of matrices: row i of `self` with element i replaced by 1.
Tensor prod_others_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  if (self.dim() == 0) return zeros_like(self);
  int64_t d = wrap_dim(dim, self.dim(), "prod"), n = self.size(d);
  Tensor lines = transpose(self, d, -1);
  Dims shape(lines.sizes());
  shape.push_back(n);
  Tensor places = cumsum(ones({n}, DType::Int64, self.device()), 0, std::nullopt);
  Tensor diagonal = eq(unsqueeze(places, 1), places);
  Tensor rows = where(diagonal, Scalar(1.0), expand(unsqueeze(lines, -2), shape));  // rows[i, k] = x_k, and 1 for k = i
  Tensor g = unsqueeze(transpose(grad, d, -1), -1);
  Tensor parts = where(diagonal, Scalar(0.0), g * conj(_prod_others(rows, -1)));  // of output i by x_k
  int64_t outputs = -2;
  return transpose(sum(parts, IntList(&outputs, 1), false, std::optional<DType>()), d, -1);
}

Tensor extremum_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dim, bool keepdim) {
  Tensor r = with_reduced_dims(result, self.dim(), dim, keepdim), g = with_reduced_dims(grad, self.dim(), dim, keepdim);
  Tensor equal = to_dtype(logical_or(eq(self, r), logical_and(isnan(self), isnan(r))), grad.dtype());
  return g * (equal / sum_over(equal, dim));
}

Tensor chosen_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& indices, bool keepdim) {
  int64_t ndim = static_cast<int64_t>(sizes.size());
  if (ndim == 0) return grad;
  IntList dims(&dim, 1);
  Tensor g = with_reduced_dims(grad, ndim, dims, keepdim), at = with_reduced_dims(indices, ndim, dims, keepdim);
  return scattered(g, sizes, dim, at);
}

Tensor var_backward(const Tensor& grad, const Tensor& self, std::optional<IntList> dim, double correction,
                    bool keepdim) {
  double divisor = std::max(0.0, static_cast<double>(reduced_count(self.sizes(), dim)) - correction);
  Tensor g = with_reduced_dims(grad, self.dim(), dim, keepdim);
  return g * (2.0 / divisor) * (self - mean(self, dim, true, std::optional<DType>()));
}

Tensor std_backward(const Tensor& grad, const Tensor& self, const Tensor& result, std::optional<IntList> dim,
                    double correction, bool keepdim) {
  // divided by infinity, and not masked afterwards: derivatives of this one are zero there, too
  return var_backward(grad / where(eq(result, 0), INFINITY, result * 2.0), self, dim, correction, keepdim);
}

// At zero, and where a power of |x| has no derivative, the subgradient zero is taken, also by the derivative of this.
Tensor vector_norm_backward(const Tensor& grad, const Tensor& self, const Scalar& ord, std::optional<IntList> dim,
                            bool keepdim, const Tensor& result) {
  double p = ord.to_double();
  Tensor g = with_reduced_dims(grad, self.dim(), dim, keepdim),
         norm = with_reduced_dims(result, self.dim(), dim, keepdim);
  if (p == 0) return zeros_like(self) * g;
  if (p == 1) return sgn(self) * g;
  const Tensor zero = eq(norm, 0);
  if (p == 2) return self * (g / where(zero, Scalar(infinity), norm));
  if (std::isinf(p)) {
    Tensor size = abs(self);
    Tensor equal = to_dtype(logical_or(eq(size, norm), logical_and(isnan(size), isnan(norm))), norm.dtype());
    return sgn(self) * (equal / sum_over(equal, dim) * g);
  }
  const Tensor none = eq(self, 0);
  Tensor direction = p < 2
                         ? where(none, Scalar(0.0), sgn(self) * pow(where(none, Scalar(1.0), abs(self)), Scalar(p - 1)))
                         : self * (p == 3 ? abs(self) : pow(abs(self), Scalar(p - 2)));
  return where(zero, Scalar(0.0), direction * (g * pow(where(zero, Scalar(1.0), norm), Scalar(1 - p))));
}

Tensor logsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dim, bool keepdim) {
  Tensor g = with_reduced_dims(grad, self.dim(), dim, keepdim);
  return g * exp(conj(self - with_reduced_dims(result, self.dim(), dim, keepdim)));
}

}  // namespace facula
