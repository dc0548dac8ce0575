// Norms of matrices and what is measured with them.
#include "autograd/formulas_linalg.h"
#include "core/near_name.h"
#include "functions.h"
#include "ops/linalg_support.h"

namespace facula {
namespace {

struct MatrixDims {
  int64_t row, column;
};

MatrixDims matrix_dims(const char* op, const Tensor& self, IntList dim) {
  FACULA_CHECK(dim.size() == 2, ErrorKind::Runtime, op, ": two dimensions make a matrix, got ", dim);
  MatrixDims d{wrap_dim(dim[0], self.dim(), op), wrap_dim(dim[1], self.dim(), op)};
  FACULA_CHECK(d.row != d.column, ErrorKind::Runtime, op, ": expected two different dimensions, got ", dim);
  return d;
}

/// The tensor in the requested dtype; norms are of floating point or complex elements.
Tensor typed(const char* op, const Tensor& self, std::optional<DType> dtype) {
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::NotImplemented, op,
               ": expected floating point or complex elements, got ", self.dtype());
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, op, ": the input must have at least 2 dimensions, got shape ",
               self.sizes());
  return dtype ? to_dtype(self, *dtype) : self;
}

/// The matrix dimensions moved to the end.
Tensor matrices_last(const Tensor& self, MatrixDims d) {
  Dims order;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (i != d.row && i != d.column) order.push_back(i);
  order.push_back(d.row);
  order.push_back(d.column);
  return permute(self, order);
}

Tensor with_kept(Tensor result, MatrixDims d, bool keepdim) {
  if (!keepdim) return result;
  result = unsqueeze(result, std::min(d.row, d.column));
  return unsqueeze(result, std::max(d.row, d.column));
}

/// Norms by singular values: the largest, the smallest, or the sum.
Tensor spectral(const Tensor& self, MatrixDims d, bool keepdim, char which) {
  Tensor values = linalg_svdvals(matrices_last(self, d), std::nullopt);
  bool added = which == 's' || (which == 'l' && values.size(-1) == 0);  // the largest of none is zero
  Tensor result = added          ? sum(values, std::optional<IntList>({-1}), false, std::nullopt)
                  : which == 'l' ? amax(values, {-1}, false)
                                 : amin(values, {-1}, false);
  return with_kept(result, d, keepdim);
}

/// The largest or smallest sum of absolute values over `added`.
Tensor sum_norm(const Tensor& self, int64_t added, int64_t chosen, bool keepdim, bool largest) {
  Tensor sums = linalg_vector_norm(self, 1, std::optional<IntList>({added}), keepdim, std::nullopt);
  if (!keepdim && added < chosen) --chosen;
  if (largest && sums.size(chosen) == 0)
    return sum(sums, std::optional<IntList>({chosen}), keepdim, std::nullopt);  // zero
  return largest ? amax(sums, {chosen}, keepdim) : amin(sums, {chosen}, keepdim);
}

}  // namespace

Tensor linalg_matrix_norm_uncast(const Tensor& self, const Scalar& ord, IntList dim, bool keepdim,
                                 std::optional<DType> dtype) {
  Tensor a = typed("linalg.matrix_norm", self, dtype);
  MatrixDims d = matrix_dims("linalg.matrix_norm", a, dim);
  double order = ord.to_double(), size = std::abs(order);
  FACULA_CHECK(!ord.is_complex() && (size == 1 || size == 2 || std::isinf(size)), ErrorKind::Runtime,
               "linalg.matrix_norm: ord is 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc', got ", ord);
  if (size == 2) return spectral(a, d, keepdim, order > 0 ? 'l' : 'm');
  return size == 1 ? sum_norm(a, d.row, d.column, keepdim, order > 0)
                   : sum_norm(a, d.column, d.row, keepdim, order > 0);
}

Tensor linalg_matrix_norm_uncast(const Tensor& self, std::string_view ord, IntList dim, bool keepdim,
                                 std::optional<DType> dtype) {
  Tensor a = typed("linalg.matrix_norm", self, dtype);
  MatrixDims d = matrix_dims("linalg.matrix_norm", a, dim);
  if (ord == "fro") return linalg_vector_norm(a, 2, std::optional<IntList>({d.row, d.column}), keepdim, std::nullopt);
  FACULA_CHECK(ord == "nuc", ErrorKind::Runtime, "linalg.matrix_norm: ord must be 1, -1, 2, -2, inf, -inf, ",
               one_of({"fro", "nuc"}, ord));
  return spectral(a, d, keepdim, 's');
}

Tensor linalg_norm(const Tensor& self, const std::optional<Scalar>& ord, std::optional<IntList> dim, bool keepdim,
                   std::optional<DType> dtype) {
  if (!ord) {
    return linalg_vector_norm(self, 2, dim, keepdim, dtype);
  }
  FACULA_CHECK(!dim || dim->size() == 1 || dim->size() == 2, ErrorKind::Runtime,
               "linalg.norm: with ord given, dim has one or two entries, got ", *dim);
  FACULA_CHECK(dim || self.dim() == 1 || self.dim() == 2, ErrorKind::Runtime,
               "linalg.norm: with ord given and no dim, a vector or a matrix, got shape ", self.sizes());
  bool matrix = dim ? dim->size() == 2 : self.dim() == 2;
  if (!matrix) return linalg_vector_norm(self, *ord, dim, keepdim, dtype);
  Dims last{-2, -1};
  return linalg_matrix_norm(self, *ord, dim.value_or(IntList(last)), keepdim, dtype);
}

Tensor linalg_norm(const Tensor& self, std::string_view ord, std::optional<IntList> dim, bool keepdim,
                   std::optional<DType> dtype) {
  FACULA_CHECK(dim ? dim->size() == 2 : self.dim() == 2, ErrorKind::Runtime, "linalg.norm: '", ord,
               "' is a norm of matrices, of two dimensions, got shape ", self.sizes());
  Dims last{-2, -1};
  return linalg_matrix_norm(self, ord, dim.value_or(IntList(last)), keepdim, dtype);
}

namespace {

/// Norm of A times norm of its inverse; infinite for matrices that are singular or not finite.
template <class Order>
Tensor condition(const Tensor& self, const Order& p) {
  ops::check_square("linalg.cond", self);
  Dims last{-2, -1};
  if (self.numel() == 0)
    return zeros(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 2), real_dtype(self.dtype()), self.device());
  auto [inverse, info] = linalg_inv_ex(self, false);
  const Tensor singular = gt(info, 0);
  const Tensor there = where(unsqueeze(unsqueeze(singular, -1), -1), 0.0, inverse);
  Tensor product = mul(linalg_matrix_norm(self, p, last, false, std::nullopt),
                       linalg_matrix_norm(there, p, last, false, std::nullopt));
  return where(logical_or(singular, isnan(product)), INFINITY, product);
}

/// A matrix with infinities has no singular values, so a condition that is made of them is NaN. It may have an inverse.
template <class F>
Tensor condition_of_finite(const Tensor& self, bool by_singular_values, F condition_of) {
  ops::check_matrix("linalg.cond", self);
  if (!by_singular_values) return condition_of(self);
  const Tensor infinite = isinf(self);
  const Tensor found = condition_of(where(infinite, 0.0, self));
  return where(any(any(infinite, -1, false), -1, false), NAN, found);
}

Tensor by_number(const Tensor& self, const std::optional<Scalar>& p) {
  double order = p ? p->to_double() : 2;
  if (std::abs(order) != 2) return condition(self, *p);
  if (self.numel() == 0)
    return zeros(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 2), real_dtype(self.dtype()), self.device());
  Tensor values = linalg_svdvals(self, std::nullopt), largest = select(values, -1, 0),
         smallest = select(values, -1, -1);
  return order > 0 ? div(largest, smallest) : div(smallest, largest);
}

}  // namespace

Tensor linalg_cond_uncast(const Tensor& self, const std::optional<Scalar>& p) {
  const bool by_values = !p || std::abs(p->to_double()) == 2;
  return condition_of_finite(self, by_values, [&](const Tensor& finite) { return by_number(finite, p); });
}

Tensor linalg_cond_uncast(const Tensor& self, std::string_view p) {
  FACULA_CHECK(p == "fro" || p == "nuc", ErrorKind::Runtime, "linalg.cond: p must be a number, ",
               one_of({"fro", "nuc"}, p));
  return condition_of_finite(self, p == "nuc", [&](const Tensor& finite) { return condition(finite, p); });
}

}  // namespace facula
