// Declares what the functions of this folder share: entries of sparse tensors as places in a flattened tensor and
// values.
#pragma once

#include "autograd/function_types.h"
#include "core/sparse.h"

namespace facula::sparse {

/// Kernels of sparse tensors are written with ops, which record nothing: autograd records the op that they stand for.
class WithoutGradients {
 public:
  WithoutGradients() : forward_(std::exchange(thread_state.forward_grad_enabled, false)), grad_(false) {}
  ~WithoutGradients() { thread_state.forward_grad_enabled = forward_; }
  WithoutGradients(const WithoutGradients&) = delete;

 private:
  bool forward_;
  GradMode grad_;
};

/// A result that appears through a view of what only the kernel has seen, without that view's base: autograd records
/// the result alone, and would take the base for a tensor of the program that has no history.
inline Tensor without_base(const Tensor& made) { return !is_sparse(made) && made.impl()->base ? alias(made) : made; }

/// Entries in the order of the values: `places` counts through the dimensions that are not dense (one int64 for every
/// element of a block), `values` has a row for each.
struct Entries {
  Tensor places, values;
};
Entries entries_of(const Tensor& self);
/// Those of a strided tensor that are not zero, in order.
Entries nonzero_entries(const Tensor& self, int64_t dense_dim);

/// A dimension that the tensor has: one of no dimensions has none, not even 0.
inline int64_t own_dim(const Tensor& self, int64_t dim, const char* op) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, op,
               ": expected a sparse tensor with dimensions, got a 0-d one and dim ", dim);
  return wrap_dim(dim, self.dim(), op);
}

inline int64_t dense_dim_of(const Tensor& self) { return sparse_parts(self).dense_dim; }
/// The sizes in front of the dense dimensions, and their product.
IntList leading_sizes(const Tensor& self);
int64_t count_of(IntList sizes);

/// A COO tensor; `indices` is sparse dimensions x entries, and the rest of `sizes` is dense.
Tensor make_coo(Tensor indices, Tensor values, IntList sizes, bool coalesced);
/// Entries (in any order, several at a place) as a COO tensor or one of a compressed layout.
Tensor coo_of_entries(const Entries& entries, IntList sizes, int64_t dense_dim, bool coalesced);
Tensor compressed_of_entries(const Entries& entries, IntList sizes, int64_t dense_dim, Layout layout, IntList block);
/// A place number as an index for each of `sizes`: rows of the result.
Tensor unflatten_places(const Tensor& places, IntList sizes);
/// Rows of `index` x n as place numbers within `sizes`.
Tensor flatten_indices(const Tensor& indices, IntList sizes);

/// The row (or column) of every entry of a compressed layout, as many as there are plain indices.
Tensor expanded_bounds(const SparseParts& parts);

/// The entries ordered by place, those of one place added up.
Entries merged(const Entries& entries);
/// `count` rows of zeros with `values` added at the rows that `places` names.
Tensor added_at(int64_t count, const Tensor& places, const Tensor& values);

Tensor coalesced_of(const Tensor& self);
Tensor coo_of(const Tensor& self);
Tensor dense_of(const Tensor& self);
/// In another layout; blocked ones need block sizes.
Tensor in_layout_of(const Tensor& self, Layout layout, IntList block);
Tensor with_values(const Tensor& self, const Tensor& values);
/// A result becomes the value of `target`, in its layout and dtype: a sparse one gets other places, too.
void put_into(const Tensor& target, const Tensor& made);
/// Throws for what is not a COO tensor.
const SparseParts& coo_parts(const char* op, const Tensor& self);
/// The two block sizes of a blocked layout, ones of the others.
Dims block_of(const Tensor& self);

}  // namespace facula::sparse
