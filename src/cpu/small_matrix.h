// Factorizes real matrices so small that calling a library costs more than the work. They are column-major, and results
// are LAPACK's. Matrices of a batch are computed together, one in every lane of vectors, whose lanes choose where
// matrices would branch: the result of a matrix does not depend on its neighbors.
#pragma once

#include <cstdint>

namespace facula::cpu {

constexpr int kSmallMatrix = 8;   // rows and columns, at most
constexpr int kSmallFactor = 16;  // of Cholesky and LU factors

/// The level's functions on `matrices` matrices that follow each other, up to `together`.
template <class T>
struct SmallMatrices {
  int together;
  /// A = L L^T in the lower triangle, or U^T U in the upper; `info` is the first leading minor that is not positive, or
  /// 0. Up to kSmallFactor rows.
  void (*cholesky)(int n, T* a, bool upper, int32_t* info, int matrices);
  /// P A = L U with partial pivoting; `pivots` count from 1, `info` is the first column without a pivot, or 0.
  /// Up to kSmallFactor rows.
  void (*lu)(int n, T* a, int32_t* pivots, int32_t* info, int matrices);
  /// Solves A X = B, or A^T X = B, in place, from the factors of A; `columns` up to kSmallMatrix.
  void (*lu_solve)(int n, const T* lu, const int32_t* pivots, int columns, T* b, bool transposed, int matrices);
  /// The inverse in place of the factors. Where `info` is not 0 they stay.
  void (*inverse)(int n, T* lu, const int32_t* pivots, const int32_t* info, int matrices);
  /// Solves A X = B (left) or X A = B in place for triangular A; B is rows x columns, both up to kSmallMatrix.
  void (*triangular)(const T* a, int rows, int columns, T* b, bool upper, bool left, bool unit, int matrices);
  /// As geqrf and orgqr.
  void (*qr)(int rows, int columns, T* a, T* tau, int matrices);
  void (*reflectors)(int rows, int columns, int count, T* a, const T* tau, int matrices);
  /// Singular values in descending order, and where `u` is not null the first min(rows, columns) vectors of both sides.
  /// The bits of the result are the matrices for which that did not succeed (their elements or vectors are not
  /// moderate), and of which nothing was written.
  uint32_t (*singular)(int rows, int columns, const T* a, T* values, T* u, T* vh, int matrices);
};
template <class T>
inline SmallMatrices<T> small_matrices{};

}  // namespace facula::cpu
