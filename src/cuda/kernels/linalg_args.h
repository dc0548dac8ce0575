// What the kernels of linear algebra are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// A batch of matrices: element (r, c) of matrix i lies at i * batch + r * row + c * column.
struct MatrixBatch {
  void* data;
  long long batch, row, column;
};

/// Columns [from, until) are factorized; what that does to others is done up to column `to`.
struct Panel {
  long long from, until, to;
};

/// In which order reflectors are applied, and which of their parts are conjugated.
struct Reflection {
  bool backward, conjugate_factors, conjugate_vectors;
  bool of_identity;  // columns are those of a diagonal matrix: reflector k leaves columns before it as they are
};

/// Rotations of pairs of rows and columns, or of columns, until nothing is left to do; n x n matrices, `count` of them,
/// column after column.
struct Sweeps {
  long long count, n;
  void *matrix, *vectors;  // the vectors, which may be null, are turned along
  void* rotations;         // four real numbers for each pair
  void* limits;            // of each matrix: what is small enough to be left
  int* exponents;          // of each matrix: the power of two that it was divided by
  int* turned;             // of each matrix: whether a sweep found something to do
  int* info;
};

}  // namespace facula::cuda
