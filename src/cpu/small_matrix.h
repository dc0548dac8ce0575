// Factorisations of real matrices so small that calling a library costs more than the work. Column-major, results as
// LAPACK's. Matrices of a batch are worked on together, one in every lane of vectors, whose lanes choose where matrices
// would branch: what a matrix gives does not depend on its neighbours.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace facula::cpu {

constexpr int kSmallMatrix = 8;  // rows and columns, at most
constexpr int kSmallElements = kSmallMatrix * kSmallMatrix;

template <class T>
struct SmallLanes {
  static constexpr int count = 16 / sizeof(T);
  typedef T Values __attribute__((vector_size(16)));
  using Integer = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Integer Integers __attribute__((vector_size(16)));
};
template <class T>
using SmallValues = typename SmallLanes<T>::Values;
template <class T>
using SmallIntegers = typename SmallLanes<T>::Integers;

/// `size` elements of each of `matrices` matrices, one after the other in memory; other lanes repeat the last one.
template <class T, class V>
void load_small(V* to, const T* from, int size, int matrices) {
  for (int e = 0; e < size; ++e)
    for (int l = 0; l < static_cast<int>(sizeof(V) / sizeof(to[0][0])); ++l)
      to[e][l] = from[std::min(l, matrices - 1) * size + e];
}
template <class T, class V>
void store_small(T* to, const V* from, int size, int matrices) {
  for (int l = 0; l < matrices; ++l)
    for (int e = 0; e < size; ++e) to[l * size + e] = static_cast<T>(from[e][l]);
}

template <class V, class I>
void exchange_where(I chosen, V& a, V& b) {
  const V before = a;
  a = chosen ? b : before;
  b = chosen ? before : b;
}

/// a - x * y, rounded once for float: what cancels to nothing is then a matrix without an inverse, not an accident of
/// two roundings.
template <class T>
SmallValues<T> less_product(SmallValues<T> a, SmallValues<T> x, SmallValues<T> y) {
  if constexpr (std::is_same_v<T, float>) {
    typedef double Wide __attribute__((vector_size(sizeof(double) * SmallLanes<float>::count)));
    const Wide exact =
        __builtin_convertvector(a, Wide) - __builtin_convertvector(x, Wide) * __builtin_convertvector(y, Wide);
    return __builtin_convertvector(exact, SmallValues<T>);
  } else {
    return a - x * y;
  }
}

/// P A = L U with partial pivoting; `pivots` count from 1, `info` is the first column without a pivot, or 0.
template <class T>
void small_lu(int n, SmallValues<T>* a, SmallIntegers<T>* pivots, SmallIntegers<T>& info) {
  using V = SmallValues<T>;
  using I = SmallIntegers<T>;
  info = I{};
  for (int k = 0; k < n; ++k) {
    V* column = a + k * n;
    V largest = column[k] < 0 ? -column[k] : column[k];
    I best = I{} + k;
    for (int i = k + 1; i < n; ++i) {
      const V size = column[i] < 0 ? -column[i] : column[i];
      best = size > largest ? I{} + i : best;
      largest = size > largest ? size : largest;
    }
    pivots[k] = best + 1;
    for (int i = k + 1; i < n; ++i)
      for (int j = 0; j < n; ++j) exchange_where(best == i, a[j * n + k], a[j * n + i]);
    const I none = column[k] == 0;
    info = (none & (info == 0)) ? I{} + (k + 1) : info;
    const V pivot = none ? V{} + T(1) : column[k];  // below a zero all are zero
    for (int i = k + 1; i < n; ++i)
      column[i] /= pivot;  // equal rows have a factor of 1, which a reciprocal may not give
    for (int j = k + 1; j < n; ++j)
      for (int i = k + 1; i < n; ++i) a[j * n + i] = less_product<T>(a[j * n + i], column[i], a[j * n + k]);
  }
}

/// Which row of A every row of P A is, from pivots.
struct SmallRows {
  int row[kSmallMatrix];

  template <class Int>
  SmallRows(int n, const Int* pivots) {
    std::iota(row, row + n, 0);
    for (int k = 0; k < n; ++k) std::swap(row[k], row[pivots[k] - 1]);
  }
};

/// Solves L U X = B in place, from small_lu.
template <class T>
void small_lu_solve(int n, const SmallValues<T>* lu, int columns, SmallValues<T>* b) {
  for (int j = 0; j < columns; ++j) {
    SmallValues<T>* x = b + j * n;
    for (int k = 0; k < n; ++k)
      for (int i = k + 1; i < n; ++i) x[i] -= lu[k * n + i] * x[k];
    for (int k = n; k-- > 0;) {
      x[k] /= lu[k * n + k];
      for (int i = 0; i < k; ++i) x[i] -= lu[k * n + i] * x[k];
    }
  }
}

/// Solves (L U)^T X = B in place.
template <class T>
void small_lu_solve_transposed(int n, const SmallValues<T>* lu, int columns, SmallValues<T>* b) {
  for (int j = 0; j < columns; ++j) {
    SmallValues<T>* x = b + j * n;
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < k; ++i) x[k] -= lu[k * n + i] * x[i];
      x[k] /= lu[k * n + k];
    }
    for (int k = n; k-- > 0;)
      for (int i = k + 1; i < n; ++i) x[k] -= lu[k * n + i] * x[i];
  }
}

template <class V>
V small_sqrt(V x) {
  for (int l = 0; l < static_cast<int>(sizeof(V) / sizeof(x[0])); ++l) x[l] = std::sqrt(x[l]);
  return x;
}

/// The singular values of m x n matrices, m >= n, in descending order: rotations of pairs of columns until all are
/// orthogonal (one-sided Jacobi). Fourth powers of elements are numbers of T.
template <class T>
void small_singular_values(int m, int n, SmallValues<T>* a, SmallValues<T>* values) {
  using V = SmallValues<T>;
  using I = SmallIntegers<T>;
  constexpr int kMostSweeps = 30;
  const T tolerance = static_cast<T>(m) * std::numeric_limits<T>::epsilon() / 2;
  auto product = [&](const V* x, const V* y) {
    V sum = x[0] * y[0];
    for (int i = 1; i < m; ++i) sum += x[i] * y[i];
    return sum;
  };
  bool changed = true;
  for (int sweep = 0; sweep < kMostSweeps && changed; ++sweep) {
    changed = false;
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) {
        V *x = a + p * m, *y = a + q * m;
        const V xx = product(x, x), yy = product(y, y), xy = product(x, y), size = xy < 0 ? -xy : xy;
        const I turns = size > tolerance * small_sqrt(V(xx * yy));
        bool any = false;
        for (int l = 0; l < SmallLanes<T>::count; ++l) any |= turns[l] != 0;
        if (!any) continue;
        changed = true;
        const V zeta = (yy - xx) / (turns ? xy + xy : V{} + T(1)), distance = zeta < 0 ? -zeta : zeta;
        const V tangent = T(1) / (distance + small_sqrt(V(T(1) + zeta * zeta)));
        const V t = turns ? (zeta < 0 ? -tangent : tangent) : V{};
        const V c = T(1) / small_sqrt(V(T(1) + t * t)), s = c * t;
        for (int i = 0; i < m; ++i) {
          const V before = x[i];
          x[i] = c * before - s * y[i];
          y[i] = s * before + c * y[i];
        }
      }
    }
  }
  for (int j = 0; j < n; ++j) values[j] = small_sqrt(product(a + j * m, a + j * m));
  for (int end = n; end > 1; --end)
    for (int j = 0; j + 1 < end; ++j) exchange_where(values[j] < values[j + 1], values[j], values[j + 1]);
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
