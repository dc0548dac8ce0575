// Declares what a backend provides for linear algebra. Matrices are batches in column-major order (stride one along a
// column, matrices one after the other); `info` holds one int32 per matrix, zero for success.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// a becomes its Cholesky factor in the named triangle.
inline Kernel<void(const Tensor& a, const Tensor& info, bool upper)> cholesky_kernel{"linalg.cholesky"};
/// b becomes the solution of A x = b, A given by its Cholesky factor in the named triangle.
inline Kernel<void(const Tensor& factor, const Tensor& b, bool upper)> cholesky_solve_kernel{"cholesky_solve"};
/// a becomes L and U of its LU factors; pivots count from one.
inline Kernel<void(const Tensor& a, const Tensor& pivots, const Tensor& info)> lu_kernel{"linalg.lu_factor"};
/// b becomes the solution of op(A) x = b, A given by its LU factors; op is 'N', 'T' or 'C'.
inline Kernel<void(const Tensor& lu, const Tensor& pivots, const Tensor& b, char op)> lu_solve_kernel{
    "linalg.lu_solve"};
/// a, given by its LU factors, becomes its inverse.
inline Kernel<void(const Tensor& lu, const Tensor& pivots, const Tensor& info)> inverse_kernel{"linalg.inv"};
/// The determinants of the matrices with these LU factors, and their signs and the logarithms of their sizes.
inline Kernel<void(const Tensor& out, const Tensor& lu, const Tensor& pivots)> det_kernel{"linalg.det"};
inline Kernel<void(const Tensor& sign, const Tensor& logarithm, const Tensor& lu, const Tensor& pivots)> slogdet_kernel{
    "linalg.slogdet"};
/// out (contiguous square matrices, zero) becomes the permutations that the exchanges `pivots` make together.
inline Kernel<void(const Tensor& out, const Tensor& pivots)> lu_permutation_kernel{"lu_unpack"};
/// b becomes the solution of a x = b (left) or x a = b for a triangular a.
inline Kernel<void(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit)> triangular_kernel{
    "linalg.solve_triangular"};
/// a becomes R and the reflectors of its QR factors.
inline Kernel<void(const Tensor& a, const Tensor& tau)> qr_kernel{"linalg.qr"};
/// a holds reflectors and becomes the first columns of the orthogonal matrix they make.
inline Kernel<void(const Tensor& a, const Tensor& tau)> reflectors_kernel{"linalg.householder_product"};
/// c is multiplied by the orthogonal matrix of the reflectors.
inline Kernel<void(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool transpose)> reflect_kernel{
    "ormqr"};
/// Singular values, and vectors where u is defined (full or reduced by its shape); a is destroyed.
inline Kernel<void(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info)> svd_kernel{
    "linalg.svd"};
/// Eigenvalues of Hermitian matrices in w; a becomes the vectors when wanted.
inline Kernel<void(const Tensor& a, const Tensor& w, const Tensor& info, bool upper, bool vectors)> eigh_kernel{
    "linalg.eigh"};
/// Eigenvalues in w and, where defined, vectors in v, both complex; a is destroyed.
inline Kernel<void(const Tensor& a, const Tensor& w, const Tensor& v, const Tensor& info)> eig_kernel{"linalg.eig"};
/// a becomes L and D of its LDL factors.
inline Kernel<void(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian)> ldl_kernel{
    "linalg.ldl_factor"};
inline Kernel<void(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian)> ldl_solve_kernel{
    "linalg.ldl_solve"};
/// b (max(m, n) rows) becomes the least-squares solution by the LAPACK driver `driver` (gels, gelsy, gelsd, gelss).
inline Kernel<void(const Tensor& a, const Tensor& b, const Tensor& rank, const Tensor& s, double rcond,
                   std::string_view driver)>
    least_squares_kernel{"linalg.lstsq"};

}  // namespace facula
