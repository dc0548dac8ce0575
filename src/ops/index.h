// Declares kernels of indexing with tensors.
#pragma once

#include "kernels/choices.h"
#include "ops/kernel_table.h"

namespace facula {

using kernels::Combine;

/// A dense operand (the result of gathering, the source of scattering) and, for each of its elements, a place
/// in `target`. Along a dimension that the index stands for, `strides` is 0 and the place comes from the
/// index alone.
struct IndexMap {
  Tensor target;
  Dims strides;      // of target, in elements, over the dense operand's shape
  Tensor index;      // int64, a view in the dense operand's shape
  int64_t step = 1;  // elements of target per unit of index
  int64_t size = 0;  // indices lie in [0, size), or in [-size, size) when `wraps`
  bool wraps = false;
  const char* op = "";  // for the error about an index outside
  ErrorKind error = ErrorKind::Index;

  template <class See>
  void memory(See see) const {
    see(target);
    see(index);
  }
};
inline Kernel<void(const Tensor& out, const IndexMap& map)> gather_kernel{"gather"};
inline Kernel<void(const IndexMap& map, const Tensor& source, Combine combine)> scatter_kernel{"scatter"};

/// One of the index tensors that stand together for several dimensions.
struct FoldedIndex {
  int64_t dim, size;    // of the indexed tensor; indices lie in [-size, size)
  int64_t step, start;  // what a unit of the index, and the index 0, add to a place
  const char* op;
};
/// table += the places that `index` names; both contiguous int64 of one shape.
inline Kernel<void(const Tensor& table, const Tensor& index, const FoldedIndex& fold)> fold_index_kernel{"index"};

/// The number of elements of a contiguous tensor that are not zero, and their positions.
/// `out` is (count, ndim) int64; at most its rows are filled, the first ones.
inline Kernel<int64_t(const Tensor& in)> count_nonzero_kernel{"nonzero"};
inline Kernel<void(const Tensor& out, const Tensor& in)> nonzero_kernel{"nonzero"};

/// Contiguous tensors of one shape: the elements where mask is true, packed; and packed ones spread there.
inline Kernel<void(const Tensor& out, const Tensor& in, const Tensor& mask)> masked_select_kernel{"masked_select"};
inline Kernel<void(const Tensor& out, const Tensor& mask, const Tensor& source)> masked_scatter_kernel{
    "masked_scatter"};

}  // namespace facula
