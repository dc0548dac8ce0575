// Sizes of sparse tensors that change in place.
#include "functions.h"
#include "raw_sparse.h"
#include "sparse/support.h"
#include "sparse_kernels.h"

namespace facula::ops {
namespace {

void check_resize(const char* op, const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  sparse::coo_parts(op, self);
  FACULA_CHECK(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim <= 64 && dense_dim <= 64 &&
                   sparse_dim + dense_dim == static_cast<int64_t>(size.size()),
               ErrorKind::Runtime, op, ": number of dimensions must be sparse_dim (", sparse_dim, ") + dense_dim (",
               dense_dim, "), got ", size.size());
  for (int64_t s : size) FACULA_CHECK(s >= 0, ErrorKind::Runtime, op, ": sizes must not be negative, got ", size);
  count_elements(size, op);
}

Dims values_shape(IntList size, int64_t sparse_dim, int64_t nnz) {
  Dims shape{nnz};
  for (size_t d = static_cast<size_t>(sparse_dim); d < size.size(); ++d) shape.push_back(size[d]);
  return shape;
}

}  // namespace

Tensor sparse_resize_(const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  const char* op = "sparse_resize_";
  check_resize(op, self, size, sparse_dim, dense_dim);
  const sparse::WithoutGradients off;
  const SparseParts& p = sparse_parts(self);
  const int64_t nnz = p.indices.size(1);
  Tensor values = p.values;
  if (nnz > 0) {
    FACULA_CHECK(sparse_dim == p.sparse_dim && dense_dim == p.dense_dim, ErrorKind::Runtime, op,
                 ": changing the number of sparse or dense dimensions (", p.sparse_dim, " and ", p.dense_dim,
                 ") is for sparse tensors without entries, got ", sparse_dim, " and ", dense_dim);
    for (int64_t d = 0; d < self.dim(); ++d)
      FACULA_CHECK(size[d] >= self.size(d), ErrorKind::Runtime, op, ": shrinking the size of dimensions (from ",
                   self.sizes(), " to ", size, ") is for sparse tensors without entries");
  }
  const Dims shape = values_shape(size, sparse_dim, nnz);
  if (!(values.sizes() == IntList(shape))) {
    Tensor grown = facula::zeros(shape, self.dtype(), self.device());
    Tensor part = grown;
    for (int64_t d = 1; nnz > 0 && d < values.dim(); ++d) part = facula::narrow(part, d, 0, values.size(d));
    if (nnz > 0) facula::copy_(part, values, false);
    values = grown;
  }
  const Tensor indices = nnz > 0 ? p.indices : facula::empty({sparse_dim, 0}, DType::Int64, self.device());
  take_parts(self, sparse::make_coo(indices, values, size, p.coalesced));
  return self;
}

Tensor sparse_resize_and_clear_(const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  check_resize("sparse_resize_and_clear_", self, size, sparse_dim, dense_dim);
  take_parts(self, sparse::make_coo(facula::empty({sparse_dim, 0}, DType::Int64, self.device()),
                                    facula::empty(values_shape(size, sparse_dim, 0), self.dtype(), self.device()), size,
                                    true));
  return self;
}

Tensor _resize_as_compressed_(const Tensor& self, const Tensor& the_template) {
  const char* op = "resize_as_sparse_";
  FACULA_CHECK(is_compressed(self), ErrorKind::Runtime, op, ": a sparse tensor is expected, got layout ",
               layout_of(self));
  FACULA_CHECK(layout_of(the_template) == layout_of(self), ErrorKind::Runtime, op, ": a template of layout ",
               layout_of(self), " is expected, got ", layout_of(the_template));
  const sparse::WithoutGradients off;
  SparseParts parts = sparse_parts(the_template);
  const Tensor old = facula::flatten(sparse_parts(self).values);
  Tensor values = facula::zeros({parts.values.numel()}, self.dtype(), self.device());
  const int64_t kept = std::min(old.numel(), values.numel());
  facula::copy_(facula::narrow(values, 0, 0, kept), facula::narrow(old, 0, 0, kept), false);
  const DType index_dtype = sparse_parts(self).plain.dtype();
  parts.indices = facula::_to_device(facula::clone(parts.indices), self.device(), index_dtype);
  parts.plain = facula::_to_device(facula::clone(parts.plain), self.device(), index_dtype);
  parts.values = facula::reshape(values, parts.values.sizes());
  take_parts(self, make_sparse(std::move(parts), the_template.sizes()));
  return self;
}

}  // namespace facula::ops

namespace facula::sparse {
namespace {

/// Compressed parts with one dimension of batches in front, as many of them as are wanted.
Tensor in_batches(const Tensor& part, int64_t batch_dims, int64_t wanted) {
  const Tensor flat = batch_dims ? facula::flatten(part, 0, batch_dims - 1) : facula::unsqueeze(part, 0);
  return facula::narrow(flat, 0, 0, wanted);
}

Tensor in_shape_of_batch(const Tensor& part, IntList batch) {
  Dims shape(batch);
  for (int64_t d = 1; d < part.dim(); ++d) shape.push_back(part.size(d));
  return facula::reshape(facula::clone(part), shape);
}

/// Bounds of `lines` lines: those of further ones are empty, and the last one of fewer has the entries of those
/// behind it.
Tensor bounds_of(const Tensor& bounds, int64_t lines, int64_t entries) {
  const int64_t kept = std::min(lines, bounds.size(1) - 1);
  const Tensor head = facula::clamp(facula::narrow(bounds, 1, 0, kept + (lines > kept)), std::nullopt, Scalar(entries));
  const Tensor tail =
      facula::full({bounds.size(0), lines + 1 - head.size(1)}, Scalar(entries), bounds.dtype(), bounds.device());
  const Tensor pair[] = {head, tail};
  return facula::cat(TensorList(pair, 2), 1);
}

void check_compressed_sizes(const char* op, const Tensor& self, IntList size, IntList block) {
  const SparseParts& p = sparse_parts(self);
  const size_t dense = static_cast<size_t>(p.dense_dim), ndim = size.size(), leading = ndim - std::min(dense, ndim);
  FACULA_CHECK(leading >= 2, ErrorKind::Runtime, op, ": a compressed layout has ", dense + 2,
               " dimensions or more here, got ", size);
  for (int64_t s : size) FACULA_CHECK(s >= 0, ErrorKind::Runtime, op, ": sizes must not be negative, got ", size);
  count_elements(size, op);
  const size_t own = static_cast<size_t>(self.dim()) - dense;
  FACULA_CHECK(size.slice(leading, dense) == self.sizes().slice(own, dense), ErrorKind::Runtime, op,
               ": dense dimensions must stay ", self.sizes().slice(own, dense), ", got ", size);
  const size_t plain_dim = compresses_rows(p.layout) ? 1 : 2;  // counted from the last one that is not dense
  FACULA_CHECK(size[leading - plain_dim] >= self.sizes()[own - plain_dim], ErrorKind::Runtime, op, ": ",
               compresses_rows(p.layout) ? "columns" : "rows", " of a tensor of layout ", p.layout,
               " cannot become fewer than ", self.sizes()[own - plain_dim], ", got ", size[leading - plain_dim]);
  for (size_t d = 0; d < 2; ++d)
    FACULA_CHECK(size[leading - 2 + d] % block[d] == 0, ErrorKind::Runtime, op,
                 ": sizes must be multiples of the block's, ", block, ", got ", size);
}

}  // namespace

void resize_(const Tensor& self, IntList size, std::optional<MemoryFormat>) {
  const char* op = "resize_";
  FACULA_CHECK(is_compressed(self), ErrorKind::NotImplemented, op,
               ": not implemented for COO tensors (sparse_resize_() is), got layout ", layout_of(self));
  SparseParts parts = sparse_parts(self);
  const Dims block = block_of(self);
  check_compressed_sizes(op, self, size, block);
  const size_t batch_dims = size.size() - static_cast<size_t>(parts.dense_dim) - 2;
  const int64_t own_batch_dims = parts.plain.dim() - 1;
  const IntList batch = size.slice(0, batch_dims);
  const int64_t batches = count_of(batch);
  const int64_t own_batches = count_of(parts.plain.sizes().slice(0, static_cast<size_t>(own_batch_dims)));
  FACULA_CHECK(batches <= own_batches, ErrorKind::Runtime, op, ": a compressed layout cannot get more matrices than ",
               own_batches, ", got ", batches);
  const int64_t rows = size[batch_dims] / block[0], columns = size[batch_dims + 1] / block[1];
  const int64_t lines = compresses_rows(parts.layout) ? rows : columns;
  FACULA_CHECK(lines < std::numeric_limits<int64_t>::max(), ErrorKind::Runtime, op, ": too many lines, got ", lines);
  const int64_t nnz = parts.plain.size(own_batch_dims);
  const int64_t entries = columns > 0 && rows < nnz / columns + 1 ? std::min(nnz, rows * columns)
                          : columns > 0                           ? nnz
                                                                  : 0;
  parts.indices =
      in_shape_of_batch(bounds_of(in_batches(parts.indices, own_batch_dims, batches), lines, entries), batch);
  parts.plain =
      in_shape_of_batch(facula::narrow(in_batches(parts.plain, own_batch_dims, batches), 1, 0, entries), batch);
  parts.values =
      in_shape_of_batch(facula::narrow(in_batches(parts.values, own_batch_dims, batches), 1, 0, entries), batch);
  take_parts(self, make_sparse(std::move(parts), size));
}

void resize_as_(const Tensor& self, const Tensor& the_template, std::optional<MemoryFormat> format) {
  FACULA_CHECK(is_sparse(self), ErrorKind::Runtime, "resize_as_: a strided template is expected, got layout ",
               layout_of(the_template));
  if (is_compressed(self)) return sparse::resize_(self, the_template.sizes(), format);
  const SparseParts& like = coo_parts("resize_as_", the_template);
  facula::sparse_resize_(self, the_template.sizes(), like.sparse_dim, like.dense_dim);
}

}  // namespace facula::sparse
