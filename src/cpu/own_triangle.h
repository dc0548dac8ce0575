// Solves systems with triangular matrices that stay in the near caches, where a library's calls and packing cost more
// than the work.
#pragma once

#include <cstdint>

namespace facula::cpu {

constexpr int64_t kOwnTriangle = 128;  // rows up to which this takes less time than the library, measured on Zen 5

/// The level's functions on column-major matrices. They return false, and have written nothing, where an element of the
/// diagonal is zero or not finite, or so small that its reciprocal is not.
template <class T>
struct OwnTriangle {
  /// Solves A X = B (left) or X A = B in place; B is rows x columns.
  bool (*solve)(const T* a, int64_t rows, int64_t columns, T* b, bool upper, bool left, bool unit);
  /// Solves A X = B, or A^T X = B, in place, from the LU factors of A and its pivots, which count from 1.
  bool (*lu_solve)(int64_t n, const T* lu, const int32_t* pivots, int64_t columns, T* b, bool transposed);
  /// Solves A X = B in place from the Cholesky factor of A.
  bool (*cholesky_solve)(int64_t n, const T* factor, int64_t columns, T* b, bool upper);
};
template <class T>
inline OwnTriangle<T> own_triangle{};

}  // namespace facula::cpu
