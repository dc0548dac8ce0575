// Defines sparse tensors: a TensorImpl without elements (kSparse), whose storage of 0 bytes owns the tensors that
// describe it. sizes() are the sizes of the dense tensor that it stands for, and numel() is their product. Strides are
// 0, and no layout flag is set, so that nothing takes it for memory. Functions that show memory to the program throw
// (materialize()); ops go through their slow path into the table of src/sparse.
#pragma once

#include "core/tensor.h"

namespace facula {

struct SparseParts {
  Layout layout = Layout::SparseCoo;
  Tensor indices;  // COO: [sparse_dim, nnz] of int64. Compressed: [..., rows + 1], rows of what is compressed
  Tensor plain;    // compressed: [..., nnz], columns in every row; COO: undefined
  Tensor values;   // [nnz, dense sizes] or [..., nnz, block, dense sizes]
  int64_t sparse_dim = 0, dense_dim = 0;
  bool coalesced = false;  // COO: no position twice, in order
};

inline bool is_sparse(const Tensor& t) { return t.defined() && (t.flags() & kSparse); }
/// Throws for what is not sparse: programs and C reach ops that take nothing else.
const SparseParts& sparse_parts(const Tensor& t);
SparseParts& mutable_sparse_parts(const Tensor& t);
inline Layout layout_of(const Tensor& t) { return is_sparse(t) ? sparse_parts(t).layout : Layout::Strided; }
inline bool is_coo(const Tensor& t) { return layout_of(t) == Layout::SparseCoo; }
inline bool is_compressed(const Tensor& t) { return layout_of(t) > Layout::SparseCoo; }
inline bool is_blocked(Layout layout) { return layout == Layout::SparseBsr || layout == Layout::SparseBsc; }
/// Whether the rows are compressed (CSR, BSR) and not the columns.
inline bool compresses_rows(Layout layout) { return layout == Layout::SparseCsr || layout == Layout::SparseBsr; }

/// A sparse tensor of the dtype and on the device of `parts.values`. Nothing is checked but that the number of elements
/// can be counted.
Tensor make_sparse(SparseParts parts, IntList sizes);
/// The same tensor without history, which shares the parts: what alias() gives.
Tensor share_sparse(const Tensor& self);
/// The same parts with a storage of their own: writes to one are not seen in the other.
Tensor copy_of_parts(const Tensor& self);
/// Gives `self` the parts of `from`; with other sizes also a storage of its own: who shared the old one keeps it.
void take_parts(const Tensor& self, const Tensor& from);
/// copy_elements() where one of the two is sparse: the parts of `in`, in the dtype of `out`. Throws where one is dense.
void copy_parts(const Tensor& out, const Tensor& in);
[[noreturn]] void report_no_elements(const Tensor& t);

}  // namespace facula
