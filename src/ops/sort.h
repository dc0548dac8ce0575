// Declares kernels of sorting and searching. Rows lie contiguous; NaN counts as larger than every number.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// `values` (rows, n) is sorted in place, stably; `indices`, where defined, receives where each element was.
inline Kernel<void(const Tensor& values, const Tensor& indices, bool descending)> sort_kernel{"sort"};
/// The first k elements of the sorted rows of `in` (rows, n): values and indices (rows, k).
inline Kernel<void(const Tensor& values, const Tensor& indices, const Tensor& in, bool largest)> topk_kernel{"topk"};
/// Element k (from 0) of the sorted rows: values and indices (rows, 1).
inline Kernel<void(const Tensor& values, const Tensor& indices, const Tensor& in, int64_t k)> kthvalue_kernel{
    "kthvalue"};
/// Positions for `values` (rows, m) in `sequence` (rows or 1, n) of one dtype; `sorter` as sequence, or
/// undefined; throws where an entry of it is no position.
inline Kernel<void(const Tensor& out, const Tensor& sequence, const Tensor& values, const Tensor& sorter, bool right)>
    searchsorted_kernel{"searchsorted"};

}  // namespace facula
