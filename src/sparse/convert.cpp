// Between layouts: to_dense, to_sparse and the like, values by the pattern of another tensor.
#include "autograd/formulas.h"
#include "functions.h"
#include "raw_sparse.h"
#include "sparse/support.h"

namespace facula::ops {

Tensor _sparse_to_dense(const Tensor& self, bool) {
  const sparse::WithoutGradients off;
  return sparse::without_base(sparse::dense_of(self));
}

Tensor _nonzero_pattern(const Tensor& self, std::optional<Layout> layout, IntList blocksize, int64_t sparse_dim,
                        int64_t dense_dim) {
  const sparse::WithoutGradients off;
  const Layout wanted = layout.value_or(Layout::SparseCoo);
  if (is_sparse(self)) return sparse::in_layout_of(self, wanted, blocksize);
  FACULA_CHECK(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim == self.dim() - dense_dim, ErrorKind::Runtime,
               "to_sparse: the sparse and the dense dimensions must be those of shape ", self.sizes(), ", got ",
               sparse_dim, " and ", dense_dim);
  const sparse::Entries entries = sparse::nonzero_entries(self, dense_dim);
  if (wanted == Layout::SparseCoo) return sparse::coo_of_entries(entries, self.sizes(), dense_dim, true);
  return sparse::compressed_of_entries(entries, self.sizes(), dense_dim, wanted, blocksize);
}

// The values of a sparse tensor at places of another one: a search among its own places, in order.
static Tensor looked_up(const Tensor& self, const Tensor& places) {
  const sparse::Entries own = sparse::merged(sparse::entries_of(self));
  const int64_t count = own.places.size(0);
  Dims shape(own.values.sizes());
  shape[0] = places.size(0);
  if (count == 0) return facula::zeros(shape, self.dtype(), self.device());
  const Tensor at = facula::clamp(facula::searchsorted(own.places, places, false, false, std::nullopt, Tensor()),
                                  std::nullopt, Scalar(count - 1));
  Tensor found = facula::eq(facula::index_select(own.places, 0, at), places);
  for (size_t d = 1; d < shape.size(); ++d) found = facula::unsqueeze(found, -1);
  return facula::masked_fill(facula::index_select(own.values, 0, at), facula::logical_not(found), Scalar(0));
}

Tensor _values_by(const Tensor& self, const Tensor& mask, std::optional<Layout>) {
  FACULA_CHECK(is_sparse(mask) && mask.sizes() == self.sizes(), ErrorKind::Runtime,
               "sparse_mask: a sparse mask of shape ", self.sizes(), " is expected, got shape ", mask.sizes(),
               " and layout ", layout_of(mask));
  const sparse::WithoutGradients off;
  const SparseParts& parts = sparse_parts(mask);
  if (self.is_meta()) return facula::empty(parts.values.sizes(), self.dtype(), self.device());
  const sparse::Entries wanted = sparse::entries_of(mask);
  if (is_sparse(self)) {
    FACULA_CHECK(sparse_parts(self).dense_dim == parts.dense_dim, ErrorKind::Runtime,
                 "sparse_mask: operands must have as many dense dimensions, got ", sparse_parts(self).dense_dim,
                 " and ", parts.dense_dim);
    return sparse::without_base(facula::reshape(looked_up(self, wanted.places), parts.values.sizes()));
  }
  Dims rows{sparse::count_of(sparse::leading_sizes(mask))};
  for (int64_t d = mask.dim() - parts.dense_dim; d < mask.dim(); ++d) rows.push_back(mask.size(d));
  const Tensor values = facula::index_select(facula::reshape(self, rows), 0, wanted.places);
  return sparse::without_base(facula::reshape(values, parts.values.sizes()));
}

Tensor _converted(const Tensor& self, const Tensor& pattern, std::optional<Layout>, IntList) {
  return sparse::with_values(pattern, ops::_values_by(self, pattern, std::nullopt));
}

}  // namespace facula::ops

namespace facula {
namespace {

/// The places of `self` in a layout, and its values there with their history.
Tensor converted(const Tensor& self, Layout layout, IntList block, int64_t sparse_dim, int64_t dense_dim) {
  const Tensor pattern =
      _nonzero_pattern(self.requires_grad() ? alias(self) : self, layout, block, sparse_dim, dense_dim);
  if (!(recorded(live_flags(self.impl())))) return pattern;
  return _converted(self, pattern, layout_of(self), is_sparse(self) ? IntList(sparse::block_of(self)) : IntList{});
}

int64_t dense_dim_given(const char* op, const Tensor& self, std::optional<int64_t> dense_dim) {
  if (is_sparse(self)) {
    const int64_t own = sparse_parts(self).dense_dim;
    FACULA_CHECK(!dense_dim || *dense_dim == own, ErrorKind::Runtime, op,
                 ": conversion with another number of dense dimensions than ", own, " is not supported, got ",
                 dense_dim.value_or(0));
    return own;
  }
  const int64_t dim = dense_dim.value_or(0);
  FACULA_CHECK(dim >= 0 && dim <= self.dim() - 2, ErrorKind::Runtime, op,
               ": dense_dim must leave two dimensions or more of ", self.dim(), ", got ", dim);
  return dim;
}

Tensor to_compressed(const char* op, const Tensor& self, Layout layout, IntList block,
                     std::optional<int64_t> dense_dim) {
  FACULA_CHECK(!is_blocked(layout) || block.size() == 2, ErrorKind::Runtime, op, ": blocksize has two numbers, got ",
               block);
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, op, ": layout ", layout, " needs two dimensions or more, got ",
               self.dim());
  const int64_t dense = dense_dim_given(op, self, dense_dim);
  return converted(self, layout, is_blocked(layout) ? block : IntList{1, 1}, self.dim() - dense, dense);
}

}  // namespace

Tensor to_dense(const Tensor& self, std::optional<DType> dtype, std::optional<bool> masked_grad) {
  const Tensor made = is_sparse(self) ? _sparse_to_dense(self, masked_grad.value_or(true)) : self;
  return dtype && *dtype != made.dtype() ? to_dtype(made, *dtype) : made;
}

Tensor to_sparse(const Tensor& self, int64_t sparse_dim) {
  if (is_coo(self)) {
    FACULA_CHECK(sparse_dim == sparse_parts(self).sparse_dim, ErrorKind::Runtime,
                 "to_sparse: conversion of a COO tensor to another number of sparse dimensions than ",
                 sparse_parts(self).sparse_dim, " is not supported, got ", sparse_dim);
    return self;
  }
  const bool zero_ok = self.dim() == 0 && sparse_dim == 0;
  FACULA_CHECK(is_sparse(self) || zero_ok || (sparse_dim > 0 && sparse_dim <= self.dim()), ErrorKind::Runtime,
               "to_sparse: sparse_dim must be from 1 to the number of dimensions, ", self.dim(), ", got ", sparse_dim);
  FACULA_CHECK(!is_sparse(self) || sparse_parts(self).sparse_dim == sparse_dim, ErrorKind::Runtime,
               "to_sparse: of a sparse tensor sparse_dim must stay ", sparse_parts(self).sparse_dim, ", got ",
               sparse_dim);
  const int64_t dense = is_sparse(self) ? sparse_parts(self).dense_dim : self.dim() - sparse_dim;
  return converted(self, Layout::SparseCoo, {}, self.dim() - dense, dense);
}

Tensor to_sparse(const Tensor& self, std::optional<Layout> layout, std::optional<IntList> blocksize,
                 std::optional<int64_t> dense_dim) {
  const Layout wanted = layout.value_or(Layout::SparseCoo);
  FACULA_CHECK(wanted != Layout::Strided, ErrorKind::Runtime, "to_sparse: a sparse layout is expected, got ", wanted);
  FACULA_CHECK(is_blocked(wanted) == blocksize.has_value(), ErrorKind::Runtime,
               "to_sparse: blocksize is for the layouts torch.sparse_bsr and torch.sparse_bsc, which need it, got ",
               wanted);
  if (wanted == layout_of(self) && !is_blocked(wanted)) return self;
  if (wanted != Layout::SparseCoo)
    return to_compressed("to_sparse", self, wanted, blocksize.value_or(IntList{1, 1}), dense_dim);
  const int64_t dense = is_sparse(self) ? sparse_parts(self).dense_dim : dense_dim.value_or(0);
  FACULA_CHECK(dense >= 0 && dense <= self.dim(), ErrorKind::Runtime,
               "to_sparse: dense_dim must be from 0 to the number of dimensions, ", self.dim(), ", got ", dense);
  return converted(self, wanted, {}, self.dim() - dense, dense);
}

Tensor to_sparse_csr(const Tensor& self, std::optional<int64_t> dense_dim) {
  return layout_of(self) == Layout::SparseCsr ? self
                                              : to_compressed("to_sparse_csr", self, Layout::SparseCsr, {}, dense_dim);
}
Tensor to_sparse_csc(const Tensor& self, std::optional<int64_t> dense_dim) {
  return layout_of(self) == Layout::SparseCsc ? self
                                              : to_compressed("to_sparse_csc", self, Layout::SparseCsc, {}, dense_dim);
}
Tensor to_sparse_bsr(const Tensor& self, IntList blocksize, std::optional<int64_t> dense_dim) {
  return to_compressed("to_sparse_bsr", self, Layout::SparseBsr, blocksize, dense_dim);
}
Tensor to_sparse_bsc(const Tensor& self, IntList blocksize, std::optional<int64_t> dense_dim) {
  return to_compressed("to_sparse_bsc", self, Layout::SparseBsc, blocksize, dense_dim);
}

Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  FACULA_CHECK(is_sparse(mask), ErrorKind::Runtime, "sparse_mask: mask must be sparse, got layout ", layout_of(mask));
  return _with_values(mask, _values_by(self, mask, layout_of(self)));
}

const Tensor& resize_as_sparse_(const Tensor& self, const Tensor& the_template) {
  if (is_compressed(self)) return _resize_as_compressed_(self, the_template);
  const SparseParts& like = sparse::coo_parts("resize_as_sparse_", the_template);
  return sparse_resize_(self, the_template.sizes(), like.sparse_dim, like.dense_dim);
}

Tensor in_layout(const Tensor& t, std::optional<Layout> layout, IntList block) {
  if (!layout) return t;
  if (is_blocked(*layout) && block.size() == 2)
    return *layout == layout_of(t) && IntList(sparse::block_of(t)) == block ? t
                                                                            : to_sparse(t, layout, block, std::nullopt);
  if (*layout == layout_of(t) || is_blocked(*layout)) return t;
  if (*layout == Layout::Strided) return to_dense(t, std::nullopt, std::nullopt);
  return to_sparse(t, layout, std::nullopt, std::nullopt);
}

Tensor to_dense_backward(const Tensor& grad, const Tensor& self, bool masked_grad) {
  if (masked_grad) return sparse_mask(grad, is_coo(self) ? coalesce(self) : self);
  const Layout layout = layout_of(self);
  if (is_blocked(layout)) return to_sparse(grad, layout, IntList(sparse::block_of(self)), std::nullopt);
  return to_sparse(grad, layout, std::nullopt, sparse_parts(self).dense_dim);
}

}  // namespace facula
