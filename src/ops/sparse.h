// Declares kernels of sparse matrices: entries with a row and a column each (int64, contiguous), and values.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// Where the entries of every row begin, if they are ordered by `rows`: `bounds` has one number more than there are
/// rows. Gives whether they are in order already; throws where a row lies outside.
inline Kernel<bool(const Tensor& bounds, const Tensor& rows)> row_bounds_kernel{"mm"};
/// Entries ordered by `rows`, those of one row as they were: `columns` and `values` go to the tensors in front of them.
/// `bounds` are those of row_bounds_kernel.
inline Kernel<void(const Tensor& columns_out, const Tensor& values_out, const Tensor& bounds, const Tensor& rows,
                   const Tensor& columns, const Tensor& values)>
    order_entries_kernel{"mm"};
/// A matrix by rows times a strided one whose rows are contiguous, floating-point. Throws where `bounds` decrease or
/// lie outside of the entries, and where a column lies outside of `dense`.
inline Kernel<void(const Tensor& out, const Tensor& bounds, const Tensor& columns, const Tensor& values,
                   const Tensor& dense)>
    sparse_rows_kernel{"mm"};
/// For every entry the product of row `rows[i]` of `a` and row `columns[i]` of `b`, both floating-point with contiguous
/// rows of one length. Throws where one lies outside.
inline Kernel<void(const Tensor& out, const Tensor& rows, const Tensor& columns, const Tensor& a, const Tensor& b)>
    sampled_rows_kernel{"mm"};

}  // namespace facula
