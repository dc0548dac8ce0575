// Factorisations of real matrices so small that calling a library costs more than the work. Column-major, results as
// LAPACK's.
#pragma once

#include <algorithm>
#include <cmath>

namespace facula::cpu {

constexpr int kSmallMatrix = 8;  // rows and columns, at most

/// P A = L U with partial pivoting; `pivots` count from 1, `info` is the first column without a pivot, or 0.
template <class T, class Int>
void small_lu(Int n, T* a, Int* pivots, Int* info) {
  *info = 0;
  for (Int k = 0; k < n; ++k) {
    T* column = a + k * n;
    Int best = k;
    for (Int i = k + 1; i < n; ++i) best = std::abs(column[i]) > std::abs(column[best]) ? i : best;
    pivots[k] = best + 1;
    if (column[best] == T(0)) {
      if (*info == 0) *info = k + 1;
      continue;
    }
    if (best != k) {
      for (Int j = 0; j < n; ++j) std::swap(a[j * n + k], a[j * n + best]);
    }
    T inverse = T(1) / column[k];
    for (Int i = k + 1; i < n; ++i) column[i] *= inverse;
    for (Int j = k + 1; j < n; ++j) {
      T factor = a[j * n + k];
      for (Int i = k + 1; i < n; ++i) a[j * n + i] -= column[i] * factor;
    }
  }
}

/// Solves A X = B in place, from small_lu.
template <class T, class Int>
void small_lu_solve(Int n, const T* lu, const Int* pivots, Int columns, T* b) {
  for (Int j = 0; j < columns; ++j) {
    T* x = b + j * n;
    for (Int k = 0; k < n; ++k) std::swap(x[k], x[pivots[k] - 1]);
    for (Int k = 0; k < n; ++k) {
      for (Int i = k + 1; i < n; ++i) x[i] -= lu[k * n + i] * x[k];
    }
    for (Int k = n; k-- > 0;) {
      x[k] /= lu[k * n + k];
      for (Int i = 0; i < k; ++i) x[i] -= lu[k * n + i] * x[k];
    }
  }
}

/// The inverse in the place of small_lu's factors.
template <class T, class Int>
void small_inverse(Int n, T* lu, const Int* pivots) {
  T result[kSmallMatrix * kSmallMatrix] = {};
  for (Int k = 0; k < n; ++k) result[k * n + k] = T(1);
  small_lu_solve(n, lu, pivots, n, result);
  std::copy_n(result, n * n, lu);
}

/// A = L L^T in the lower triangle, or U^T U in the upper; `info` is the first leading minor that is not positive, or
/// 0.
template <class T, class Int>
void small_cholesky(Int n, T* a, bool upper, Int* info) {
  auto at = [&](Int i, Int j) -> T& { return upper ? a[i * n + j] : a[j * n + i]; };  // i >= j
  *info = 0;
  for (Int j = 0; j < n; ++j) {
    T square = at(j, j);
    for (Int k = 0; k < j; ++k) square -= at(j, k) * at(j, k);
    if (!(square > T(0))) {
      *info = j + 1;
      return;
    }
    T root = at(j, j) = std::sqrt(square);
    for (Int i = j + 1; i < n; ++i) {
      T sum = at(i, j);
      for (Int k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
      at(i, j) = sum / root;
    }
  }
}

}  // namespace facula::cpu
