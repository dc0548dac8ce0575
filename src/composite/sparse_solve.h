// Solves A @ X = B where A is triangular, of layout CSR or BSR, and B strided.
#pragma once

#include "core/tensor.h"

namespace facula {

/// Only one triangle of A is read, with `unitriangular` without its diagonal; with `transposed` the system is that of
/// A.mT. Records no derivatives, and refuses what would have some.
Tensor solve_sparse_triangular(const Tensor& A, const Tensor& B, bool upper, bool transposed, bool unitriangular);

}  // namespace facula
