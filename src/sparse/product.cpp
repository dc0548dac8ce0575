// Products of sparse matrices, and their derivatives.
#include "autograd/formulas.h"
#include "autograd/node.h"
#include "functions.h"
#include "ops/sparse.h"
#include "raw_sparse.h"
#include "sparse/matrix_lines.h"

namespace facula {
namespace {

using sparse::Entries;
using sparse::Triples;
using sparse::triples_of;

void check_matrices(const char* op, const Tensor& a, const Tensor& b) {
  FACULA_CHECK(a.dim() == 2 && b.dim() == 2, ErrorKind::Runtime, op, ": two matrices are expected, got ", a.dim(),
               "-D and ", b.dim(), "-D");
  FACULA_CHECK(a.size(1) == b.size(0), ErrorKind::Runtime, op, ": mat1 and mat2 shapes cannot be multiplied (",
               a.size(0), "x", a.size(1), " and ", b.size(0), "x", b.size(1), ")");
  FACULA_CHECK(a.dtype() == b.dtype(), ErrorKind::Runtime, op, ": matrices of one dtype are expected, got ", a.dtype(),
               " and ", b.dtype());
  for (const Tensor* t : {&a, &b})
    FACULA_CHECK(!is_sparse(*t) || sparse_parts(*t).dense_dim == 0, ErrorKind::Runtime, op,
                 ": sparse matrices have no dense dimensions, got ", sparse_parts(*t).dense_dim);
}

/// As kernels want it.
Tensor plain(const Tensor& t) {
  Tensor made = contiguous(t, MemoryFormat::Contiguous);
  materialize_bytes(made);
  return made;
}

/// Whether there is a kernel for elements of the dtype.
bool has_kernel(const Tensor& t) { return t.is_cpu() && is_floating(t.dtype()) && !is_float8(t.dtype()); }

Tensor sparse_times_dense(const Tensor& a, const Tensor& b) {
  if (has_kernel(a)) {
    const Tensor made = empty({a.size(0), b.size(1)}, a.dtype(), a.device());
    if (made.numel() == 0) return made;
    const sparse::Lines m = sparse::rows_of(a);
    materialize_bytes(b);
    sparse_rows_kernel(a.device(), made, m.bounds, m.across, m.values, b.stride(1) == 1 ? b : plain(b));
    return made;
  }
  const Triples m = triples_of(a);
  const Tensor rows = mul(index_select(resolve_conj(b), 0, m.column), unsqueeze(m.values, 1));
  return sparse::added_at(a.size(0), m.row, rows);
}

/// Of two sparse matrices: every entry of the left one meets the row of the right one that its column names.
Tensor sparse_times_sparse(const Tensor& a, const Tensor& b) {
  const Triples x = triples_of(a);
  const Entries right = sparse::merged(sparse::entries_of(b));
  const Tensor index = sparse::unflatten_places(right.places, b.sizes());
  const Tensor b_row = select(index, 0, 0), b_column = select(index, 0, 1);
  const Tensor first = searchsorted(b_row, x.column);
  const Tensor lengths = sub(searchsorted(b_row, x.column, false, true), first);
  const Tensor from = repeat_interleave(lengths, std::nullopt);
  const Tensor before = sub(cumsum(lengths, 0), lengths);
  const Tensor within = sub(arange(Scalar(from.numel()), DType::Int64, a.device()), index_select(before, 0, from));
  const Tensor at = add(index_select(first, 0, from), within);
  const Tensor values = mul(index_select(x.values, 0, from), index_select(right.values, 0, at));
  const Tensor places = add(mul(index_select(x.row, 0, from), b.size(1)), index_select(b_column, 0, at));
  const Dims sizes{a.size(0), b.size(1)};
  const Entries made = sparse::merged({places, values});
  if (is_compressed(a) && !is_blocked(layout_of(a)))
    return sparse::compressed_of_entries(made, sizes, 0, Layout::SparseCsr, {1, 1});
  return sparse::coo_of_entries(made, sizes, 0, true);
}

Tensor conj_transposed(const Tensor& t) { return conj(transpose(t, 0, 1)); }

/// Of a product of strided matrices only the elements at the places of `pattern`: with history.
Tensor sampled_product(const Tensor& a, const Tensor& b, const Tensor& pattern) {
  Triples m;
  {
    const sparse::WithoutGradients off;
    m = triples_of(pattern);
  }
  constexpr uint32_t plain_flags = kSlowFlags & ~(kRequiresGrad | kDeferred);
  const uint32_t flags = live_flags(a.impl()) | live_flags(b.impl());
  if (has_kernel(a) && b.dtype() == a.dtype() && !(flags & plain_flags) && !recorded(flags)) {
    const Tensor columns = transpose(b, 0, 1), made = empty({m.row.numel()}, a.dtype(), a.device());
    sampled_rows_kernel(a.device(), made, plain(m.row), plain(m.column), plain(a), plain(columns));
    return reshape(made, sparse_parts(pattern).values.sizes());
  }
  const Tensor products = mul(index_select(a, 0, m.row), index_select(transpose(b, 0, 1), 0, m.column));
  return reshape(sum(products, Dims{1}, false, std::nullopt), sparse_parts(pattern).values.sizes());
}

}  // namespace

namespace ops {

Tensor _sparse_mm_product(const Tensor& self, const Tensor& mat2) {
  check_matrices("mm", self, mat2);
  const sparse::WithoutGradients off;
  if (is_sparse(self) && is_sparse(mat2)) return sparse_times_sparse(self, mat2);
  if (is_sparse(self)) return sparse_times_dense(self, mat2);
  const Tensor flipped = sparse_times_dense(facula::transpose(mat2, 0, 1), facula::transpose(self, 0, 1));
  return sparse::without_base(facula::transpose(flipped, 0, 1));
}

}  // namespace ops

Tensor sparse_product_gradient(const Tensor& grad, const Tensor& target, const Tensor& other, bool left) {
  const Tensor a = left ? grad : conj_transposed(other), b = left ? conj_transposed(other) : grad;
  if (!is_sparse(target)) return mm(a, b);
  const Tensor pattern = is_coo(target) ? coalesce(alias(target)) : alias(target);
  if (is_sparse(a) || is_sparse(b)) {
    const Tensor product = mm(a, b);
    return _with_values(pattern, _values_by(product, pattern, layout_of(product)));
  }
  return _with_values(pattern, sampled_product(a, b, pattern));
}

Tensor _sparse_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha) {
  const Tensor product = mm(mat1, mat2);
  const Tensor scaled = alpha.equals(1) ? product : mul(product, alpha);
  const bool none = !beta.is_complex() && beta.to_double() == 0;
  if (none && self.sizes() == product.sizes())
    return is_sparse(scaled) && !is_sparse(self) ? to_dense(scaled, std::nullopt, std::nullopt) : scaled;
  const Tensor start = beta.equals(1) ? self : mul(self, beta);
  if (is_sparse(start) && !is_sparse(scaled)) return add(scaled, start);
  return add(start, scaled);
}

Tensor _sparse_linear(const Tensor& self, const Tensor& weight, const Tensor& bias) {
  FACULA_CHECK(weight.dim() == 2 && self.dim() > 0 && self.size(-1) == weight.size(1), ErrorKind::Runtime,
               "linear: an input (..., k) and a weight (n, k) are expected, got ", self.sizes(), " and ",
               weight.sizes());
  const Tensor rows = self.dim() == 2 ? self : reshape(self, {-1, self.size(-1)});
  const Tensor product = transpose(mm(weight, transpose(rows, 0, 1)), 0, 1);
  Dims shape(self.sizes());
  shape.back() = weight.size(0);
  const Tensor made = self.dim() == 2 ? product : reshape(product, shape);
  return bias.defined() ? add(made, bias) : made;
}

Tensor _sparse_mv(const Tensor& self, const Tensor& vec) {
  FACULA_CHECK(self.dim() == 2 && vec.dim() == 1, ErrorKind::Runtime, "mv: vector + matrix @ vector expected, got ",
               self.dim(), "-D and ", vec.dim(), "-D");
  return select(mm(self, unsqueeze(vec, 1)), 1, 0);
}

Tensor _sparse_bmm(const Tensor& self, const Tensor& mat2) {
  FACULA_CHECK(self.dim() == 3 && mat2.dim() == 3 && self.size(0) == mat2.size(0), ErrorKind::Runtime,
               "bmm: batch1 and batch2 must be 3D tensors of as many matrices, got ", self.sizes(), " and ",
               mat2.sizes());
  std::vector<Tensor> products;
  for (int64_t i = 0; i < self.size(0); ++i) products.push_back(mm(select(self, 0, i), select(mat2, 0, i)));
  if (products.empty()) return zeros({0, self.size(1), mat2.size(2)}, self.dtype(), self.device());
  return stack(products, 0);
}

// ---- sums

namespace {

/// Which dimensions are summed.
std::vector<bool> summed_dims(const Tensor& self, std::optional<IntList> dim) {
  const bool all = !dim || dim->empty();
  std::vector<bool> summed(static_cast<size_t>(self.dim()), all);
  if (all) return summed;
  for (int64_t d : *dim) {
    const auto at = static_cast<size_t>(sparse::own_dim(self, d, "sum"));
    FACULA_CHECK(!summed[at], ErrorKind::Runtime, "sum: dim names dimension ", at, " more than once, got ", *dim);
    summed[at] = true;
  }
  return summed;
}

/// The rows of the indices whose dimensions stay.
Tensor kept_rows(const SparseParts& p, const std::vector<bool>& summed) {
  std::vector<Tensor> rows{narrow(p.indices, 0, 0, 0)};
  for (int64_t d = 0; d < p.sparse_dim; ++d)
    if (!summed[static_cast<size_t>(d)]) rows.push_back(narrow(p.indices, 0, d, 1));
  return cat(rows, 0);
}

Dims summed_values(const SparseParts& p, const std::vector<bool>& summed) {
  Dims dims;
  for (int64_t d = 0; d < p.dense_dim; ++d)
    if (summed[static_cast<size_t>(p.sparse_dim + d)]) dims.push_back(d + 1);
  return dims;
}

Tensor unsqueezed(Tensor t, const std::vector<bool>& at) {
  for (size_t d = 0; d < at.size(); ++d)
    if (at[d]) t = unsqueeze(t, static_cast<int64_t>(d));
  return t;
}

}  // namespace

namespace ops {

Tensor _sparse_sum_dim(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  const sparse::WithoutGradients off;
  if (!is_coo(self)) {
    const Tensor made = ops::_sparse_sum_dim(sparse::coo_of(self), dim, keepdim, dtype);
    const Dims one{1, 1};
    if (!is_sparse(made) && keepdim && layout_of(self) == Layout::SparseCsr && made.sizes() == IntList(one)) {
      const sparse::Entries entry{zeros({1}, DType::Int64, self.device()), reshape(made, {1})};
      return sparse::compressed_of_entries(entry, one, 0, Layout::SparseCsr, one);
    }
    return is_sparse(made) && made.dim() == 2 && !is_blocked(layout_of(self))
               ? sparse::in_layout_of(made, layout_of(self), {1, 1})
               : made;
  }
  const SparseParts& p = sparse_parts(self);
  const std::vector<bool> summed = summed_dims(self, dim);
  Dims sizes;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (!summed[static_cast<size_t>(d)]) sizes.push_back(self.size(d));
  Tensor values = dtype ? facula::to_dtype(p.values, *dtype) : p.values;
  if (!is_inexact(values.dtype()) && !dtype) values = facula::to_dtype(values, DType::Int64);
  if (const Dims inner = summed_values(p, summed); !inner.empty())
    values = facula::sum(values, inner, false, std::nullopt);
  const Tensor rows = kept_rows(p, summed);
  Tensor made;
  if (rows.size(0) == 0) made = facula::sum(values, Dims{0}, false, std::nullopt);
  else made = sparse::coalesced_of(sparse::make_coo(rows, values, sizes, false));
  return sparse::without_base(keepdim ? unsqueezed(made, summed) : made);
}

}  // namespace ops

Tensor sparse_sum_backward(const Tensor& grad, const Tensor& self, std::optional<IntList> dim, bool keepdim) {
  if (!is_coo(self))
    return expand(keepdim ? to_dense(grad) : unsqueezed(to_dense(grad), summed_dims(self, dim)), self.sizes());
  const Tensor pattern = coalesce(alias(self));
  const SparseParts& p = sparse_parts(pattern);
  const std::vector<bool> summed = summed_dims(self, dim);
  Tensor given = grad;
  for (int64_t d = self.dim(); keepdim && d-- > 0;)
    if (summed[static_cast<size_t>(d)]) given = select(given, d, 0);
  const Tensor rows = kept_rows(p, summed);
  Tensor values;
  if (rows.size(0) == 0) {
    values = unsqueeze(given, 0);
  } else {
    const Dims inner = summed_values(p, summed);
    const Tensor like = inner.empty() ? p.values : sum(p.values, inner, false, std::nullopt);
    const Tensor mask = _sparse_coo_pattern(rows, like, given.sizes(), std::nullopt);
    values = _values_by(given, mask, layout_of(given));
  }
  for (int64_t d : summed_values(p, summed)) values = unsqueeze(values, d);
  return _with_values(pattern, contiguous(expand(values, p.values.sizes()), MemoryFormat::Contiguous));
}

// ---- gradients of tables

Tensor embedding_backward(const Tensor& grad, const Tensor& indices, int64_t rows, int64_t padding_idx,
                          bool scale_grad_by_freq, bool sparse) {
  if (!sparse) return embedding_dense_backward(grad, indices, rows, padding_idx, scale_grad_by_freq);
  FACULA_CHECK(!scale_grad_by_freq, ErrorKind::Runtime,
               "embedding_backward: scale_grad_by_freq not supported with sparse gradients, got True");
  // a copy, since the program may write to its indices while the gradient is in use
  Tensor places = reshape(
      indices.dtype() == DType::Int64 ? clone(indices, MemoryFormat::Contiguous) : to_dtype(indices, DType::Int64),
      {-1});
  const int64_t width = grad.size(-1);
  Tensor values = reshape(grad, {places.numel(), width});
  if (padding_idx >= 0) {
    const Tensor keep = select(nonzero(ne(places, padding_idx)), 1, 0);
    places = index_select(places, 0, keep);
    values = index_select(values, 0, keep);
  }
  return _sparse_coo_tensor_unsafe(unsqueeze(places, 0), values, {rows, width}, std::nullopt);
}

Tensor sparse_scattered(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index) {
  const int64_t ndim = static_cast<int64_t>(sizes.size());
  if (ndim == 0)
    return _sparse_coo_tensor_unsafe(empty({0, values.numel()}, DType::Int64, values.device()), reshape(values, {-1}),
                                     {}, values.numel() == 1);
  const int64_t at = wrap_dim(dim, ndim, "gather");
  std::vector<Tensor> rows;
  for (int64_t d = 0; d < ndim; ++d) {
    Dims shape(static_cast<size_t>(ndim), 1);
    shape[d] = -1;
    const Tensor along = d == at ? to_dtype(index, DType::Int64)
                                 : view(arange(Scalar(index.size(d)), DType::Int64, values.device()), shape);
    rows.push_back(reshape(expand(along, index.sizes()), {-1}));
  }
  return _sparse_coo_tensor_unsafe(stack(rows, 0), reshape(values, {-1}), sizes, std::nullopt);
}

}  // namespace facula

namespace facula::sparse {

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  FACULA_CHECK(!is_sparse(self) && !is_sparse(vec), ErrorKind::Runtime,
               "addmv: strided vectors and a matrix, got layouts ", layout_of(self), ", ", layout_of(mat), " and ",
               layout_of(vec));
  const Tensor product = mv(mat, vec);
  FACULA_CHECK(self.dim() <= 1 && (self.numel() == 1 || self.numel() == product.numel()), ErrorKind::Runtime,
               "addmv: a vector of ", product.numel(), " elements to add, got shape ", self.sizes());
  if (beta.equals(0)) return mul(product, Operand(alpha));  // whatever is in self, NaN too
  return add(mul(self, Operand(beta)), product, alpha);
}

}  // namespace facula::sparse
