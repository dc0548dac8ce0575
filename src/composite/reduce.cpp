// Reductions written with others: moments, norms, comparisons.
#include <cmath>

#include "core/near_name.h"
#include "functions.h"
#include "ops/out.h"

namespace facula {
namespace {

using OptDims = std::optional<IntList>;

Tensor sum_over(const Tensor& self, OptDims dim, bool keepdim) {
  return sum(self, dim, keepdim, std::optional<DType>());
}

void require_inexact(const Tensor& self, const char* op) {
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::Runtime, op, ": expected a floating-point or complex tensor, got ",
               self.dtype());
}

double correction_of(const std::optional<Scalar>& correction) { return correction ? correction->to_double() : 1.0; }

void warn_degrees_of_freedom(const Tensor& self, OptDims dim, double correction, const char* op) {
  int64_t count = 1;
  if (!dim || dim->empty()) count = self.numel();
  else if (self.dim() > 0)
    for (int64_t d : *dim) count *= self.size(wrap_dim(d, self.dim(), op));
  if ((static_cast<double>(count) > correction && self.numel() > 0) || !host.warn) return;
  std::ostringstream text;
  text << op << ": degrees of freedom are <= 0: correction should be less than the number of elements reduced, got "
       << correction << " for " << count;
  host.warn(text.str().c_str());
}

// The variance of complex numbers is that of their real and imaginary parts together.
Tensor variance(const Tensor& self, OptDims dim, double correction, bool keepdim, const char* op) {
  require_inexact(self, op);
  warn_degrees_of_freedom(self, dim, correction, op);
  if (self.is_complex()) return _var(real(self), dim, correction, keepdim) + _var(imag(self), dim, correction, keepdim);
  return _var(self, dim, correction, keepdim);
}

Tensor deviation(const Tensor& self, OptDims dim, double correction, bool keepdim, const char* op) {
  if (self.is_complex()) return sqrt(variance(self, dim, correction, keepdim, op));
  require_inexact(self, op);
  warn_degrees_of_freedom(self, dim, correction, op);
  return _std(self, dim, correction, keepdim);
}

Tensor mean_over(const Tensor& self, OptDims dim, bool keepdim) {
  return mean(self, dim, keepdim, std::optional<DType>());
}

}  // namespace

Tensor nanmean(const Tensor& self, OptDims dim, bool keepdim, std::optional<DType> dtype) {
  FACULA_CHECK(self.is_floating(), ErrorKind::Runtime, "nanmean: expected a floating-point tensor, got ", self.dtype());
  Tensor count = sum_over(logical_not(isnan(self)), dim, keepdim);
  return nansum(self, dim, keepdim, dtype) / count;
}

std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  FACULA_CHECK(dim || self.numel() > 0, ErrorKind::Runtime,
               "aminmax: an empty tensor needs the dimension to reduce, got shape ", self.sizes());
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "aminmax: not implemented for dtype ", self.dtype());
  IntList dims = dim ? IntList(&*dim, 1) : IntList();
  return {amin(self, dims, keepdim), amax(self, dims, keepdim)};
}

Tensor max(const Tensor& self, const Tensor& other) { return maximum(self, other); }
Tensor min(const Tensor& self, const Tensor& other) { return minimum(self, other); }

Tensor var(const Tensor& self, bool unbiased) { return variance(self, std::nullopt, unbiased, false, "var"); }
Tensor var(const Tensor& self, OptDims dim, bool unbiased, bool keepdim) {
  return variance(self, dim, unbiased, keepdim, "var");
}
Tensor var(const Tensor& self, OptDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return variance(self, dim, correction_of(correction), keepdim, "var");
}

Tensor std(const Tensor& self, bool unbiased) { return deviation(self, std::nullopt, unbiased, false, "std"); }
Tensor std(const Tensor& self, OptDims dim, bool unbiased, bool keepdim) {
  return deviation(self, dim, unbiased, keepdim, "std");
}
Tensor std(const Tensor& self, OptDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return deviation(self, dim, correction_of(correction), keepdim, "std");
}

using Pair = std::tuple<Tensor, Tensor>;

Pair var_mean(const Tensor& self, bool unbiased) {
  return {variance(self, std::nullopt, unbiased, false, "var_mean"), mean_over(self, std::nullopt, false)};
}
Pair var_mean(const Tensor& self, OptDims dim, bool unbiased, bool keepdim) {
  return {variance(self, dim, unbiased, keepdim, "var_mean"), mean_over(self, dim, keepdim)};
}
Pair var_mean(const Tensor& self, OptDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return {variance(self, dim, correction_of(correction), keepdim, "var_mean"), mean_over(self, dim, keepdim)};
}

Pair std_mean(const Tensor& self, bool unbiased) {
  return {deviation(self, std::nullopt, unbiased, false, "std_mean"), mean_over(self, std::nullopt, false)};
}
Pair std_mean(const Tensor& self, OptDims dim, bool unbiased, bool keepdim) {
  return {deviation(self, dim, unbiased, keepdim, "std_mean"), mean_over(self, dim, keepdim)};
}
Pair std_mean(const Tensor& self, OptDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return {deviation(self, dim, correction_of(correction), keepdim, "std_mean"), mean_over(self, dim, keepdim)};
}

// ---- norms

Tensor norm_uncast(const Tensor& self, const std::optional<Scalar>& p, OptDims dim, bool keepdim,
                   std::optional<DType> dtype) {
  Tensor norm = linalg_vector_norm(self, p ? *p : Scalar(2.0), dim, keepdim, dtype);
  return dtype && norm.dtype() != *dtype && !is_complex(*dtype) ? to_dtype(norm, *dtype) : norm;
}

Tensor norm_uncast(const Tensor& self, std::string_view p, OptDims dim, bool keepdim, std::optional<DType> dtype) {
  if (p == "fro") return norm(self, std::optional<Scalar>(Scalar(2.0)), dim, keepdim, dtype);
  FACULA_CHECK(p == "nuc", ErrorKind::Runtime, "norm: p must be a number, ", one_of({"fro", "nuc"}, p));
  constexpr int64_t last_two[] = {-2, -1};
  IntList dims = dim && !dim->empty() ? *dim : IntList(last_two, 2);
  const bool said = dims.size() == 2 && (self.dim() == 2 || (self.dim() > 2 && dim && !dim->empty()));
  FACULA_CHECK(said, ErrorKind::Runtime, "norm: the nuclear norm is that of matrices over two dimensions, got shape ",
               self.sizes(), " and dim ", dims);
  return linalg_matrix_norm(self, p, dims, keepdim, dtype);
}

Tensor dist_uncast(const Tensor& self, const Tensor& other, const Scalar& p) {
  return linalg_vector_norm(self - other, p, std::nullopt, false, std::nullopt);
}

Tensor renorm_uncast(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  FACULA_CHECK(!p.is_complex() && p.to_double() > 0, ErrorKind::Runtime,
               "renorm: p must be a positive real number, got ", p);
  FACULA_CHECK(!maxnorm.is_complex() && maxnorm.to_double() >= 0, ErrorKind::Runtime,
               "renorm: maxnorm must be a real number >= 0, got ", maxnorm);
  FACULA_CHECK(self.dim() > 1, ErrorKind::Runtime, "renorm: expected at least two dimensions, got shape ",
               self.sizes());
  int64_t kept = wrap_dim(dim, self.dim(), "renorm");
  Dims others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != kept) others.push_back(d);
  Tensor norm = linalg_vector_norm(self, p, OptDims(others), true, std::nullopt);
  double limit = maxnorm.to_double();
  Tensor factor = where(gt(norm, limit), limit / (norm + 1e-7), Scalar(1.0));
  return self * to_dtype(factor, self.dtype());
}

// ---- comparisons

bool equal(const Tensor& self, const Tensor& other) {
  FACULA_CHECK(self.device() == other.device(), ErrorKind::Runtime, "equal: expected tensors on one device, got ",
               self.device(), " and ", other.device());
  if (self.sizes() != other.sizes()) return false;
  constexpr int64_t kFirst = 256;
  if (!self.is_contiguous() || !other.is_contiguous() || self.numel() <= kFirst)
    return all(eq(self, other)).item().to_bool();
  // piece by piece, as tensors that differ mostly do so early
  Tensor a = view(self, {self.numel()}), b = view(other, {self.numel()});
  for (int64_t from = 0, to = 0, count = kFirst; from < self.numel();
       from = to, count = std::min<int64_t>(16 * count, 65536)) {
    to = std::min(from + count, self.numel());
    if (!all(eq(slice(a, 0, from, to, 1), slice(b, 0, from, to, 1))).item().to_bool()) return false;
  }
  return true;
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  return all(isclose(self, other, rtol, atol, equal_nan)).item().to_bool();
}

Tensor trace_uncast(const Tensor& self) {
  FACULA_CHECK(self.dim() == 2, ErrorKind::Runtime, "trace: expected a matrix, got shape ", self.sizes());
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::NotImplemented, "trace: not implemented for dtype ",
               self.dtype());
  const Tensor elements = diagonal(self, 0, 0, 1);
  if (self.dtype() != DType::Float32 && self.dtype() != DType::Complex64) return sum(elements, std::optional<DType>());
  const DType wide = self.is_complex() ? DType::Complex128 : DType::Float64;  // few elements: the time is the call's
  return to_dtype(sum(elements, std::optional<DType>(wide)), self.dtype());
}

}  // namespace facula
