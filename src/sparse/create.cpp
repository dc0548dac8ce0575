// Making sparse tensors of their parts, and taking them apart.
#include "autograd/node.h"
#include "functions.h"
#include "raw_sparse.h"
#include "sparse/support.h"
#include "sparse_kernels.h"

namespace facula::ops {
namespace {

using sparse::coo_parts;

void check_index_dtype(const char* op, const Tensor& index) {
  FACULA_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, ErrorKind::Runtime, op,
               ": indices must be of an integer dtype, int32 or int64, got ", index.dtype());
  FACULA_CHECK(!is_sparse(index), ErrorKind::Runtime, op, ": indices must be strided, got ", layout_of(index));
}

Tensor plain_alias(const Tensor& t) { return alias(facula::resolve_conj(t)); }

}  // namespace

Tensor _sparse_coo_pattern(const Tensor& indices, const Tensor& values, IntList size,
                           std::optional<bool> is_coalesced) {
  const char* op = "sparse_coo_tensor";
  check_index_dtype(op, indices);
  FACULA_CHECK(indices.dim() == 2, ErrorKind::Runtime, op, ": indices must be sparse_dim x nnz, got indices of shape ",
               indices.sizes());
  const int64_t sparse_dim = indices.size(0), nnz = indices.size(1), ndim = static_cast<int64_t>(size.size());
  FACULA_CHECK(!is_sparse(values) && values.dim() > 0, ErrorKind::Runtime, op,
               ": values must be strided and have a dimension for the entries, got ", layout_of(values), " of shape ",
               values.sizes());
  const int64_t dense_dim = values.dim() - 1;
  FACULA_CHECK(ndim == sparse_dim + dense_dim, ErrorKind::Runtime, op, ": number of dimensions must be sparse_dim (",
               sparse_dim, ") + dense_dim (", dense_dim, "), got ", ndim);
  FACULA_CHECK(values.size(0) == nnz, ErrorKind::Runtime, op, ": indices and values must be of as many entries, got ",
               nnz, " and ", values.size(0));
  for (int64_t d = 0; d < ndim; ++d)
    FACULA_CHECK(size[d] >= 0, ErrorKind::Runtime, op, ": found negative dimension ", size[d], " at index ", d);
  const IntList inner = values.sizes().slice(1, static_cast<size_t>(dense_dim));
  const IntList wanted = size.slice(static_cast<size_t>(sparse_dim), static_cast<size_t>(dense_dim));
  FACULA_CHECK(inner == wanted, ErrorKind::Runtime, op, ": values has incorrect size, expected ", wanted,
               " after the entries, got ", inner);
  SparseParts parts;
  parts.sparse_dim = sparse_dim;
  parts.dense_dim = dense_dim;
  parts.indices = facula::to_dtype(plain_alias(indices), DType::Int64);
  parts.values = plain_alias(values);
  parts.coalesced = is_coalesced.value_or(nnz < 2);
  return make_sparse(std::move(parts), size);
}

Tensor _with_values(const Tensor& self, const Tensor& values) {
  FACULA_CHECK(is_sparse(self) && !is_sparse(values), ErrorKind::Runtime,
               "sparse_coo_tensor: a sparse tensor and strided values, got ", layout_of(self), " and ",
               layout_of(values));
  return sparse::with_values(self, plain_alias(values));
}

Tensor coalesce(const Tensor& self) {
  FACULA_CHECK(is_coo(self), ErrorKind::Runtime, "coalesce: a COO tensor is expected, got layout ", layout_of(self));
  const sparse::WithoutGradients off;
  return sparse::coalesced_of(self);
}

Tensor _coalesced_(const Tensor& self, bool coalesced) {
  coo_parts("_coalesced_", self);
  mutable_sparse_parts(self).coalesced = coalesced;
  return self;
}

Tensor _indices(const Tensor& self) { return alias(coo_parts("_indices", self).indices); }
Tensor _values(const Tensor& self) { return alias(coo_parts("_values", self).values); }
Tensor indices(const Tensor& self) {
  FACULA_CHECK(is_coo(self), ErrorKind::Runtime, "indices: a COO tensor is expected, got layout ", layout_of(self));
  FACULA_CHECK(sparse_parts(self).coalesced, ErrorKind::Runtime,
               "indices: the tensor is not coalesced (coalesce() gives one that is), got shape ", self.sizes());
  return alias(sparse_parts(self).indices);
}
Tensor values(const Tensor& self) {
  FACULA_CHECK(is_sparse(self), ErrorKind::Runtime, "values: a sparse tensor is expected, got layout ",
               layout_of(self));
  FACULA_CHECK(!is_coo(self) || sparse_parts(self).coalesced, ErrorKind::Runtime,
               "values: the tensor is not coalesced (coalesce() gives one that is), got shape ", self.sizes());
  return alias(sparse_parts(self).values);
}

namespace {

const SparseParts& compressed_parts(const char* op, const Tensor& self, bool rows) {
  FACULA_CHECK(is_compressed(self) && compresses_rows(layout_of(self)) == rows, ErrorKind::Runtime, op,
               ": a tensor compressed by ", rows ? "rows" : "columns", " is expected, got layout ", layout_of(self));
  return sparse_parts(self);
}

}  // namespace

Tensor crow_indices(const Tensor& self) { return alias(compressed_parts("crow_indices", self, true).indices); }
Tensor col_indices(const Tensor& self) { return alias(compressed_parts("col_indices", self, true).plain); }
Tensor ccol_indices(const Tensor& self) { return alias(compressed_parts("ccol_indices", self, false).indices); }
Tensor row_indices(const Tensor& self) { return alias(compressed_parts("row_indices", self, false).plain); }

int64_t _nnz(const Tensor& self) {
  FACULA_CHECK(is_sparse(self), ErrorKind::NotImplemented, "_nnz: a sparse tensor is expected, got layout ",
               layout_of(self));
  const SparseParts& p = sparse_parts(self);
  return is_coo(self) ? p.indices.size(1) : p.plain.size(-1);
}
bool is_coalesced(const Tensor& self) {
  FACULA_CHECK(is_coo(self), ErrorKind::Runtime, "is_coalesced: a COO tensor is expected, got layout ",
               layout_of(self));
  return sparse_parts(self).coalesced;
}
int64_t sparse_dim(const Tensor& self) { return is_sparse(self) ? sparse_parts(self).sparse_dim : 0; }
int64_t dense_dim(const Tensor& self) { return is_sparse(self) ? sparse_parts(self).dense_dim : self.dim(); }

Tensor _sparse_compressed_pattern(const Tensor& compressed_indices, const Tensor& plain_indices, const Tensor& values,
                                  IntList size, std::optional<Layout> layout) {
  const char* op = "sparse_compressed_tensor";
  const Layout kind = layout.value_or(Layout::SparseCsr);
  FACULA_CHECK(kind > Layout::SparseCoo, ErrorKind::Runtime, op, ": expected a compressed layout, got ", kind);
  check_index_dtype(op, compressed_indices);
  check_index_dtype(op, plain_indices);
  FACULA_CHECK(compressed_indices.dtype() == plain_indices.dtype(), ErrorKind::Runtime, op,
               ": compressed and plain indices must have the same dtype, got ", compressed_indices.dtype(), " and ",
               plain_indices.dtype());
  FACULA_CHECK(!is_sparse(values), ErrorKind::Runtime, op, ": values must be strided, got ", layout_of(values));
  const int64_t batch = compressed_indices.dim() - 1, inside = is_blocked(kind) ? 2 : 0;
  const int64_t dense_dim = values.dim() - batch - 1 - inside, ndim = static_cast<int64_t>(size.size());
  FACULA_CHECK(batch >= 0 && plain_indices.dim() == batch + 1 && dense_dim >= 0, ErrorKind::Runtime, op,
               ": dimensionality of compressed indices, plain indices and values must agree, got shapes ",
               compressed_indices.sizes(), ", ", plain_indices.sizes(), " and ", values.sizes());
  FACULA_CHECK(ndim == batch + 2 + dense_dim, ErrorKind::Runtime, op, ": size must have ", batch + 2 + dense_dim,
               " dimensions, got ", size);
  for (int64_t d = 0; d < ndim; ++d)
    FACULA_CHECK(size[d] >= 0, ErrorKind::Runtime, op, ": found negative dimension ", size[d], " at index ", d);
  bool fits = plain_indices.size(batch) == values.size(batch);
  for (int64_t d = 0; d < batch; ++d)
    fits &= compressed_indices.size(d) == size[d] && plain_indices.size(d) == size[d] && values.size(d) == size[d];
  for (int64_t d = 0; d < dense_dim; ++d) fits &= values.size(batch + 1 + inside + d) == size[batch + 2 + d];
  const int64_t bh = inside ? values.size(batch + 1) : 1, bw = inside ? values.size(batch + 2) : 1;
  FACULA_CHECK(bh > 0 && bw > 0 && size[batch] % bh == 0 && size[batch + 1] % bw == 0, ErrorKind::Runtime, op,
               ": sizes must be multiples of the block's, which are above 0, got size ", size, " and blocks of ", bh,
               " x ", bw);
  const int64_t across = compresses_rows(kind) ? size[batch] / bh : size[batch + 1] / bw;
  fits &= compressed_indices.size(batch) == across + 1;
  FACULA_CHECK(fits, ErrorKind::Runtime, op, ": shapes of compressed indices ", compressed_indices.sizes(),
               ", plain indices ", plain_indices.sizes(), " and values ", values.sizes(), " must fit the size, got ",
               size);
  SparseParts parts;
  parts.layout = kind;
  parts.sparse_dim = 2;
  parts.dense_dim = dense_dim;
  parts.indices = plain_alias(compressed_indices);
  parts.plain = plain_alias(plain_indices);
  parts.values = plain_alias(values);
  return make_sparse(std::move(parts), size);
}

Tensor _sparse_zeros(IntList size, std::optional<DType> dtype, std::optional<Device> device,
                     std::optional<Layout> layout) {
  const DType kind = dtype.value_or(default_dtype());
  const Device place = device.value_or(kCPU);
  const Layout wanted = layout.value_or(Layout::SparseCoo);
  FACULA_CHECK(!is_blocked(wanted), ErrorKind::NotImplemented, "zeros: blocked layouts are not implemented, got ",
               wanted);
  for (int64_t s : size) FACULA_CHECK(s >= 0, ErrorKind::Runtime, "zeros: sizes must not be negative, got ", size);
  if (wanted == Layout::Strided) return facula::zeros(size, kind, place);
  if (wanted == Layout::SparseCoo) {
    const Tensor none = facula::empty({static_cast<int64_t>(size.size()), 0}, DType::Int64, place);
    return sparse::make_coo(none, facula::empty(Dims{0}, kind, place), size, true);
  }
  FACULA_CHECK(size.size() >= 2, ErrorKind::Runtime, "zeros: a compressed layout has at least two dimensions, got ",
               size);
  Dims batch(size.slice(0, size.size() - 2)), bounds(batch), none(batch);
  const int64_t across = compresses_rows(wanted) ? size[size.size() - 2] : size[size.size() - 1];
  bounds.push_back(std::min(across, std::numeric_limits<int64_t>::max() - 1) + 1);
  none.push_back(0);
  return ops::_sparse_compressed_pattern(facula::zeros(bounds, DType::Int64, place),
                                         facula::empty(none, DType::Int64, place), facula::empty(none, kind, place),
                                         size, wanted);
}

}  // namespace facula::ops

namespace facula {

Tensor _sparse_coo_tensor_unsafe(const Tensor& indices, const Tensor& values, IntList size,
                                 std::optional<bool> is_coalesced) {
  const Tensor pattern = _sparse_coo_pattern(indices, values, size, is_coalesced);
  return requires_grad(values) ? _with_values(pattern, values) : pattern;
}

Tensor _sparse_compressed_tensor_unsafe(const Tensor& compressed_indices, const Tensor& plain_indices,
                                        const Tensor& values, IntList size, std::optional<Layout> layout) {
  const Tensor pattern = _sparse_compressed_pattern(compressed_indices, plain_indices, values, size, layout);
  return requires_grad(values) ? _with_values(pattern, values) : pattern;
}

}  // namespace facula
