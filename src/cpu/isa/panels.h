// Triangular matrices that are worked on by panels as wide as a vector: the rows of a panel's triangle are then one
// vector of each column, and all others are whole vectors.
#pragma once

#include <type_traits>

#include "cpu/isa/reflectors.h"

namespace facula::cpu::FACULA_ISA {

#define FACULA_UNROLLED _Pragma("GCC unroll 16")

template <class T>
struct Panel {
  static constexpr int P = kLanes<T>;
  using V = typename VectorOf<T>::type;
  using Integer = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using I = typename VectorOf<Integer>::type;

  static void store(T* to, V v) { std::memcpy(to, &v, sizeof v); }
  static I places() {
    I result;
    for (int l = 0; l < P; ++l) result[l] = static_cast<Integer>(l);
    return result;
  }

  const Columns<T>& a;
  int64_t first;  // row and column
  int width;      // columns

  /// Solves with the panel's triangle, whose diagonal is taken as ones, in the columns of `b` from `from` on: downwards
  /// with the lower one.
  template <bool down>
  void solve(Columns<T>& b, int64_t from) const {
    V factors[P] = {};
    for (int c = 0; c < width; ++c) factors[c] = load_vector(a.column(first + c) + first);
    for (; from + 4 <= b.count; from += 4) solve_columns<down, 4>(factors, b, from);
    for (; from < b.count; ++from) solve_columns<down, 1>(factors, b, from);
  }

  /// Subtracts what the panel's columns, times the rows that belong to them, are in the rows from `top` to `end` of
  /// `b`, which are whole vectors.
  void subtract(Columns<T>& b, int64_t from, int64_t top, int64_t end) const {
    for (; from + 4 <= b.count; from += 4) subtract_columns<4>(b, from, top, end);
    for (; from < b.count; ++from) subtract_columns<1>(b, from, top, end);
  }

 private:
  template <bool down, int count>
  void solve_columns(const V* factors, Columns<T>& b, int64_t j) const {
    const I place = places();
    V x[count];
    for (int i = 0; i < count; ++i) x[i] = load_vector(b.column(j + i) + first);
    FACULA_UNROLLED for (int step = 0; step + 1 < P; ++step) {
      const int c = down ? step : P - 1 - step;
      const I others = down ? place > c : place < c;  // which an unknown that is not finite is not to reach
      FACULA_UNROLLED for (int i = 0; i < count; ++i) {
        x[i] = others ? x[i] - factors[c] * __builtin_shuffle(x[i], I{} + c) : x[i];
      }
    }
    for (int i = 0; i < count; ++i) store(b.column(j + i) + first, x[i]);
  }

  template <int count>
  void subtract_columns(Columns<T>& b, int64_t j, int64_t top, int64_t end) const {
    for (; top + 2 * P <= end; top += 2 * P) subtract_tile<2, count>(b, j, top);
    for (; top < end; top += P) subtract_tile<1, count>(b, j, top);
  }
  template <int vectors, int count>
  void subtract_tile(Columns<T>& b, int64_t j, int64_t row) const {
    V sum[vectors][count];
    const T* by[count];
    FACULA_UNROLLED for (int i = 0; i < count; ++i) {
      by[i] = b.column(j + i) + first;
      FACULA_UNROLLED for (int v = 0; v < vectors; ++v) sum[v][i] = load_vector(b.column(j + i) + row + v * P);
    }
    const T* panel = a.column(first) + row;
    for (int c = 0; c < width; ++c, panel += a.step) {
      FACULA_UNROLLED for (int v = 0; v < vectors; ++v) {
        const V at = load_vector(panel + v * P);
        FACULA_UNROLLED for (int i = 0; i < count; ++i) sum[v][i] -= at * by[i][c];
      }
    }
    FACULA_UNROLLED for (int i = 0; i < count; ++i) {
      FACULA_UNROLLED for (int v = 0; v < vectors; ++v) store(b.column(j + i) + row + v * P, sum[v][i]);
    }
  }
};

/// Solves A X = B in place for the lower (`down`) or upper triangle of A, whose diagonal is taken as ones.
template <bool down, class T>
void substitute(const Columns<T>& a, Columns<T>& b) {
  constexpr int64_t P = kLanes<T>;
  const int64_t n = a.count;
  if constexpr (down) {
    for (int64_t first = 0; first < n; first += P) {
      const Panel<T> panel{a, first, static_cast<int>(std::min(P, n - first))};
      panel.template solve<true>(b, 0);
      panel.subtract(b, 0, first + P, a.step);
    }
  } else {
    for (int64_t first = (n - 1) / P * P; first >= 0; first -= P) {
      const Panel<T> panel{a, first, static_cast<int>(std::min(P, n - first))};
      panel.template solve<false>(b, 0);
      panel.subtract(b, 0, 0, first);
    }
  }
}

}  // namespace facula::cpu::FACULA_ISA
