// Sizes of COO tensors that change in place.
#include "functions.h"
#include "raw_sparse.h"
#include "sparse/support.h"

namespace facula::ops {
namespace {

void check_resize(const char* op, const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  sparse::coo_parts(op, self);
  FACULA_CHECK(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim <= 64 && dense_dim <= 64 &&
                   sparse_dim + dense_dim == static_cast<int64_t>(size.size()),
               ErrorKind::Runtime, op, ": number of dimensions must be sparse_dim (", sparse_dim, ") + dense_dim (",
               dense_dim, "), but got ", size.size());
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

}  // namespace facula::ops
