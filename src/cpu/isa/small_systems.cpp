// Small matrices that solve systems: Cholesky, LU and triangular ones.
#include <numeric>

#include "cpu/isa/small_lanes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void small_cholesky(int n, T* a, bool upper, int32_t* info, int matrices) {
  using V = LaneValues<T>;
  using I = LaneIntegers<T>;
  V x[kSmallFactor * kSmallFactor];
  load_lanes(x, a, n * n, matrices);
  const int by_row = upper ? n : 1, by_column = upper ? 1 : n;  // the upper factor is the lower one, turned over
  I failed{};
  for (int j = 0; j < n; ++j) {
    V* column = x + j * by_column;
    const V square = column[j * by_row];
    const I positive = square > 0;  // NaN is not
    failed = (positive == 0) & (failed == 0) ? I{} + (j + 1) : failed;
    const V root = lanes_sqrt(V(positive ? square : V{} + T(1)));
    column[j * by_row] = root;
    for (int i = j + 1; i < n; ++i) column[i * by_row] /= root;
    for (int c = j + 1; c < n; ++c) {
      const V factor = column[c * by_row];
      for (int i = c; i < n; ++i) x[c * by_column + i * by_row] -= column[i * by_row] * factor;
    }
  }
  store_lanes(a, x, n * n, matrices);
  store_integers(info, 1, failed, matrices);
}

template <class T>
void small_lu(int n, T* a, int32_t* pivots, int32_t* info, int matrices) {
  using V = LaneValues<T>;
  using I = LaneIntegers<T>;
  V x[kSmallFactor * kSmallFactor];
  load_lanes(x, a, n * n, matrices);
  I failed{};
  for (int k = 0; k < n; ++k) {
    V* column = x + k * n;
    V largest = lanes_abs(column[k]);
    I best = I{} + k;
    for (int i = k + 1; i < n; ++i) {
      const V size = lanes_abs(column[i]);
      const I larger = size > largest;
      best = larger ? I{} + i : best;
      largest = larger ? size : largest;
    }
    store_integers(pivots + k, n, I(best + 1), matrices);
    for (int j = 0; j < n; ++j) {
      V* at = x + j * n;
      const V top = at[k];
      V chosen = top;
      for (int i = k + 1; i < n; ++i) {
        const I here = best == i;
        const V element = at[i];
        chosen = here ? element : chosen;
        at[i] = here ? top : element;
      }
      at[k] = chosen;
    }
    const I none = column[k] == 0;
    failed = none & (failed == 0) ? I{} + (k + 1) : failed;
    const V pivot = none ? V{} + T(1) : column[k];  // below a zero all are zero
    // equal rows have a factor of 1, which a reciprocal may not give
    for (int i = k + 1; i < n; ++i) column[i] /= pivot;
    for (int j = k + 1; j < n; ++j)
      for (int i = k + 1; i < n; ++i) x[j * n + i] = less_product<T>(x[j * n + i], column[i], x[j * n + k]);
  }
  store_lanes(a, x, n * n, matrices);
  store_integers(info, 1, failed, matrices);
}

/// Which row of A every row of P A is, from pivots.
struct ExchangedRows {
  int row[kSmallMatrix];

  ExchangedRows(int n, const int32_t* pivots) {
    std::iota(row, row + n, 0);
    for (int k = 0; k < n; ++k) std::swap(row[k], row[pivots[k] - 1]);
  }
};

/// Solves L U X = B in place.
template <class T>
void solve_factors(int n, const LaneValues<T>* lu, int columns, LaneValues<T>* b) {
  for (int j = 0; j < columns; ++j) {
    LaneValues<T>* x = b + j * n;
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
void solve_factors_transposed(int n, const LaneValues<T>* lu, int columns, LaneValues<T>* b) {
  for (int j = 0; j < columns; ++j) {
    LaneValues<T>* x = b + j * n;
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < k; ++i) x[k] -= lu[k * n + i] * x[i];
      x[k] /= lu[k * n + k];
    }
    for (int k = n; k-- > 0;)
      for (int i = k + 1; i < n; ++i) x[k] -= lu[k * n + i] * x[i];
  }
}

template <class T>
void small_lu_solve(int n, const T* lu, const int32_t* pivots, int columns, T* b, bool transposed, int matrices) {
  using V = LaneValues<T>;
  constexpr int size = kSmallMatrix * kSmallMatrix;
  V factors[size], x[size];
  T exchanged[size * kMatricesTogether<T>];
  load_lanes(factors, lu, n * n, matrices);
  const int elements = n * columns;
  auto each_element = [&](auto f) {  // f(an element of P B, the same of B)
    for (int l = 0; l < matrices; ++l) {
      const ExchangedRows rows(n, pivots + l * n);
      for (int j = l * elements; j < (l + 1) * elements; j += n)
        for (int i = 0; i < n; ++i) f(exchanged[j + i], b[j + rows.row[i]]);
    }
  };
  if (!transposed) each_element([](T& to, T from) { to = from; });
  load_lanes(x, transposed ? b : exchanged, elements, matrices);
  if (transposed) solve_factors_transposed<T>(n, factors, columns, x);
  else solve_factors<T>(n, factors, columns, x);
  store_lanes(transposed ? exchanged : b, x, elements, matrices);
  if (transposed) each_element([](T from, T& to) { to = from; });
}

template <class T>
void small_inverse(int n, T* lu, const int32_t* pivots, const int32_t* info, int matrices) {
  using V = LaneValues<T>;
  constexpr int size = kSmallMatrix * kSmallMatrix;
  V factors[size], x[size];
  T identity[size * kMatricesTogether<T>] = {};
  load_lanes(factors, lu, n * n, matrices);
  for (int l = 0; l < matrices; ++l) {
    const ExchangedRows rows(n, pivots + l * n);
    for (int i = 0; i < n; ++i) identity[l * n * n + rows.row[i] * n + i] = 1;
  }
  load_lanes(x, identity, n * n, matrices);
  solve_factors<T>(n, factors, n, x);
  store_lanes(identity, x, n * n, matrices);
  for (int l = 0; l < matrices; ++l)
    if (info[l] == 0) std::copy_n(identity + l * n * n, n * n, lu + l * n * n);
}

template <class T>
void small_triangular(const T* a, int rows, int columns, T* b, bool upper, bool left, bool unit, int matrices) {
  using V = LaneValues<T>;
  constexpr int size = kSmallMatrix * kSmallMatrix;
  V matrix[size], x[size];
  // X A = B is A^T X^T = B^T
  const int n = left ? rows : columns, systems = left ? columns : rows, by_row = left ? 1 : n, by_column = left ? n : 1;
  const int next = left ? 1 : rows, next_system = left ? rows : 1;
  const bool down = upper != left;  // a lower triangle, as seen from the left
  load_lanes(matrix, a, n * n, matrices);
  load_lanes(x, b, rows * columns, matrices);
  for (int s = 0; s < systems; ++s) {
    V* at = x + s * next_system;
    for (int step = 0; step < n; ++step) {
      const int k = down ? step : n - 1 - step;
      const V* column = matrix + k * by_column;
      if (!unit) at[k * next] /= column[k * by_row];
      const V known = at[k * next];
      for (int i = down ? k + 1 : 0; i < (down ? n : k); ++i) at[i * next] -= column[i * by_row] * known;
    }
  }
  store_lanes(b, x, rows * columns, matrices);
}

template <class T>
void set_systems() {
  SmallMatrices<T>& table = small_matrices<T>;
  table.together = kMatricesTogether<T>;
  table.cholesky = small_cholesky<T>;
  table.lu = small_lu<T>;
  table.lu_solve = small_lu_solve<T>;
  table.inverse = small_inverse<T>;
  table.triangular = small_triangular<T>;
}

}  // namespace

void register_small_systems() {
  set_systems<float>();
  set_systems<double>();
}

}  // namespace facula::cpu::FACULA_ISA
