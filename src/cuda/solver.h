// Factorizes matrices by cuSOLVER. Each function does what the kernel of its name in ops/linalg.h does, for batches as
// linalg.h has them (matrices, rows, columns), column after column. It returns false and does nothing where the library
// is not there, lacks the function, or the policy (solver.cpp opens with it) leaves the task to our own kernels.
#pragma once

#include "core/tensor.h"

namespace facula::cuda::solver {

bool cholesky(const Tensor& a, const Tensor& info, bool upper);
bool cholesky_solve(const Tensor& factor, const Tensor& b, bool upper);
bool lu(const Tensor& a, const Tensor& pivots, const Tensor& info);
bool lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, char op);
bool qr(const Tensor& a, const Tensor& tau);
bool reflectors(const Tensor& a, const Tensor& tau);
/// c becomes Q c (left) or c Q, for the Q of the reflectors, or with `adjoint` its adjoint.
bool reflect(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool adjoint);
bool eigh(const Tensor& a, const Tensor& w, const Tensor& info, bool upper, bool vectors);
bool svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info);
bool eig(const Tensor& a, const Tensor& w, const Tensor& v, const Tensor& info);
bool ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian);
bool ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian);

}  // namespace facula::cuda::solver
