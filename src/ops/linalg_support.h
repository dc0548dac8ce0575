// Declares checks and memory layouts that the ops of linear algebra share.
#pragma once

#include "ops/kernel_table.h"

namespace facula::ops {

void check_matrix(const char* op, const Tensor& a);
void check_square(const char* op, const Tensor& a);
/// A matrix and a right side of one dtype and device.
void check_pair(const char* op, const Tensor& a, const Tensor& b);
void check_reflectors(const char* op, const Tensor& a, const Tensor& tau, bool tall = true);
/// The same, and matrices of the same batch that the product of the reflectors can multiply.
void check_reflected(const char* op, const Tensor& a, const Tensor& tau, const Tensor& other, bool left);
/// Row numbers of int32 as LAPACK counts them. With `blocks`, those of 2x2 blocks are negative, and stand in pairs.
void check_pivots(const char* op, const Tensor& pivots, int64_t rows, bool blocks);
/// Throws a LinAlgError naming the batch element when one of `info` is positive.
void check_info(const char* op, const Tensor& info, const char* meaning);

/// Whether the right side of a system is a batch of vectors rather than of matrices.
bool is_vector_right_side(IntList a, IntList b);
/// The batch sizes of `a` and one more.
Dims vector_sizes(const Tensor& a, int64_t length);
/// One int32 per matrix, zero.
Tensor info_like(const Tensor& a);
/// Uninitialized matrices with the batch of `like`, column after column.
Tensor empty_column_major(const Tensor& like, int64_t rows, int64_t columns, DType dtype);
inline Tensor empty_column_major(const Tensor& like, int64_t rows, int64_t columns) {
  return empty_column_major(like, rows, columns, like.dtype());
}
/// A fresh copy, column after column.
Tensor column_major(const Tensor& a);
Tensor expand_batch(const Tensor& a, const Dims& batch);
/// Copies the top left corner that two batches have in common.
void copy_corner(const Tensor& to, const Tensor& from);
void fill_zero(const Tensor& a);
void set_identity(const Tensor& a);
/// Sets what is strictly below (or above) the diagonal of column-major matrices to zero.
void zero_triangle(const Tensor& a, bool below);
/// Least squares report residuals when every matrix has full rank.
bool residuals_known(const Tensor& rank, int64_t columns);

}  // namespace facula::ops
