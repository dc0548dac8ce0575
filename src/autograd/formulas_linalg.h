// Declares derivatives of factorizations, and the small matrix functions with which they and the composites are
// written.
#pragma once

#include "core/tensor.h"

namespace facula {

/// The conjugate transpose of the last two dimensions.
Tensor adjoint_of(const Tensor& a);
/// What is on and below (upper: above) the given diagonal, zero elsewhere.
Tensor triangle_of(const Tensor& a, bool upper, int64_t diagonal);
/// The main diagonals, (..., min(m, n)).
Tensor diagonal_of(const Tensor& a);
/// Square matrices with `values` on the diagonal.
Tensor diagonal_matrix(const Tensor& values);
/// Identity matrices of n rows that broadcast, in the dtype of `like`.
Tensor identity_like(const Tensor& like, int64_t n);
/// Some of the rows or columns.
Tensor part_of(const Tensor& a, int64_t dim, int64_t from, int64_t to);
/// Whether a right side is a batch of vectors.
bool is_vector_system(IntList a, IntList b);

Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper);
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& result, const Tensor& factor,
                                                   bool upper, bool wants_b, bool wants_factor);
Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& result, const Tensor& factor, bool upper);
Tensor inv_backward(const Tensor& grad, const Tensor& inverse);
Tensor lu_factor_backward(const Tensor& grad, const Tensor& lu, const Tensor& pivots);
std::tuple<Tensor, Tensor> solve_backward(const Tensor& grad, const Tensor& a, IntList b_sizes, const Tensor& result,
                                          bool left, bool wants_a, bool wants_b);
std::tuple<Tensor, Tensor> solve_triangular_backward(const Tensor& grad, const Tensor& a, const Tensor& result,
                                                     bool upper, bool left, bool unit, bool wants_a, bool wants_b);
Tensor det_backward(const Tensor& grad, const Tensor& a, const Tensor& det);
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_log, const Tensor& a, const Tensor& sign);
Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r, std::string_view mode);
Tensor svd_backward(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh, const Tensor& u, const Tensor& s,
                    const Tensor& vh, bool full, bool vectors, const Tensor& a);
Tensor eigh_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values, const Tensor& vectors,
                     const Tensor& a, std::string_view triangle, bool has_vectors);
Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values, const Tensor& vectors);
Tensor pinv_backward(const Tensor& grad, const Tensor& pinv, const Tensor& a);
std::tuple<Tensor, Tensor> lstsq_backward(const Tensor& grad, const Tensor& residuals, const Tensor& a,
                                          const Tensor& given, const Tensor& solution, bool wants_a, bool wants_b);
Tensor matrix_exp_backward(const Tensor& grad, const Tensor& a);

}  // namespace facula
