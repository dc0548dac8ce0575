// Declares batches of matrices on the device, and what the files of linear algebra use of each other.
#pragma once

#include "core/tensor.h"
#include "cuda/kernel.h"
#include "cuda/kernels/linalg_args.h"

namespace facula::cuda {

/// The batch as one dimension: (matrices, rows, columns). What is made of it below has three dimensions, too.
Tensor batch_of(const Tensor& t);
inline Tensor flipped(const Tensor& t) {
  return make_view(t, {t.size(0), t.size(2), t.size(1)}, {t.stride(0), t.stride(2), t.stride(1)}, 0, false);
}
/// Rows [r, r_end) and columns [c, c_end).
inline Tensor part_of(const Tensor& t, int64_t r, int64_t r_end, int64_t c, int64_t c_end) {
  return make_view(t, {t.size(0), r_end - r, c_end - c}, {t.stride(0), t.stride(1), t.stride(2)},
                   r * t.stride(1) + c * t.stride(2), false);
}
/// A fresh batch, column after column.
Tensor new_matrices(const Tensor& like, int64_t rows, int64_t columns);
/// The same with its own elements, or with the other's, conjugated.
Tensor copy_of(const Tensor& t, bool conjugated);
/// out = in (conjugated), of one shape.
void copy_matrices(const Tensor& out, const Tensor& in, bool conjugated);
void set_identity(const Tensor& t);

inline MatrixBatch matrices(const Tensor& t) { return {t.data(), t.stride(0), t.stride(1), t.stride(2)}; }
inline int device_of(const Tensor& t) { return t.device().index; }
/// Blocks that work on one matrix each, of as many threads as there are elements in a column of `side`.
Grid grid_by_matrix(const Tensor& t, int64_t side);
/// Warps for `count` columns or matrices, one each.
Grid grid_by_warp(const Tensor& t, int64_t count);

/// a becomes R and reflectors; a is (matrices, rows, columns), column after column.
void factorize_qr(const Tensor& a, const Tensor& tau);
/// x = Q x, or x = Q^H x with `adjoint`, for the reflectors; x has any strides. With `of_identity` it is diagonal.
void apply_reflectors(const Tensor& a, const Tensor& tau, const Tensor& x, bool adjoint, bool of_identity);
/// x Q, or x Q^H.
void apply_reflectors_right(const Tensor& a, const Tensor& tau, const Tensor& x, bool adjoint);
/// The rows of b begin with the x for which a x - b, or for wide matrices x itself, is shortest; a is destroyed.
void solve_full_rank(const Tensor& a, const Tensor& b);

}  // namespace facula::cuda
