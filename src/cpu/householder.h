// Computes QR factorizations of real matrices that fit into the second-level cache, one reflector after the other.
// There the blocks, the workspaces and the calls of a library cost more than the work.
#pragma once

#include <cstdint>

namespace facula::cpu {

/// Rows and columns up to which this takes less time than the library, measured on Zen 4.
constexpr int64_t kHouseholderRows = 1024, kHouseholderColumns = 192;

/// The level's functions on column-major matrices, results as LAPACK's.
template <class T>
struct Householder {
  /// As geqrf: R above, the reflectors' vectors below the diagonal of `a`, their factors in `tau`.
  void (*factor)(int64_t rows, int64_t columns, T* a, T* tau);
  /// As orgqr: the first `columns` columns of the product of the `count` reflectors that lie in `a`.
  void (*form)(int64_t rows, int64_t columns, int64_t count, T* a, const T* tau);
  /// The least-squares solutions of A X = B, at least as many rows as columns, in the first rows of B, for matrices
  /// that are surely of full rank: whose condition number is well below 1 / `rcond`. For others false, and nothing was
  /// written.
  bool (*least_squares)(int64_t rows, int64_t columns, const T* a, int64_t systems, T* b, double rcond);
};
template <class T>
inline Householder<T> householder{};

}  // namespace facula::cpu
