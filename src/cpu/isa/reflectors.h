// Householder's reflectors, made and applied one by one. Columns are copied to where they begin with whole vectors and
// end with zeros, so that no loop has a rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
constexpr int64_t kLanes = VectorOf<T>::lanes;

/// A matrix whose columns are whole vectors.
template <class T>
struct Columns {
  int64_t rows, count, step;
  std::vector<T> values;

  Columns(int64_t rows, int64_t count, const T* from)
      : rows(rows),
        count(count),
        step((rows + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        values(static_cast<size_t>(step * count)) {
    for (int64_t c = 0; c < count; ++c) std::copy_n(from + c * rows, rows, column(c));
  }
  T* column(int64_t c) { return values.data() + c * step; }
  void copy_to(T* to) {
    for (int64_t c = 0; c < count; ++c) std::copy_n(column(c), rows, to + c * rows);
  }
};

/// The length of n elements, without overflow or underflow on the way.
template <class T>
double length_of(int64_t n, const T* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  if (sizeof(T) == 4 || (sum > 1e-270 && sum < 1e300) || sum != sum) return std::sqrt(sum);
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  if (largest == 0 || std::isinf(largest)) return largest;
  sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] / largest) * (x[i] / largest);
  return largest * std::sqrt(sum);
}

/// Makes the reflector that takes x to a multiple of its first element, which that becomes: H = 1 - tau v v^T, with v
/// behind the first element in place, and whole in `v`.
template <class T>
T make_reflector(int64_t n, T* x, T* v) {
  const double length = length_of(n - 1, x + 1);
  v[0] = 1;
  if (length == 0) {
    std::fill_n(v + 1, n - 1, T(0));
    return 0;
  }
  const double first = x[0];
  // squares of floats are numbers of double, and so is the inverse of any difference of floats
  const double size = sizeof(T) == 4 ? std::sqrt(first * first + length * length) : std::hypot(first, length);
  const double beta = -std::copysign(size, first), divisor = first - beta, inverse = 1 / divisor;
  for (int64_t i = 1; i < n; ++i) {
    const double element = static_cast<double>(x[i]);
    x[i] = v[i] = static_cast<T>(sizeof(T) == 4 ? element * inverse : element / divisor);
  }
  x[0] = static_cast<T>(beta);
  return static_cast<T>((beta - first) / beta);
}

/// Applies a reflector to `columns` columns of n elements, a whole number of vectors.
template <int columns, class T>
void reflect(int64_t n, const T* v, T tau, T* a, int64_t step) {
  using V = typename VectorOf<T>::type;
  V sums[columns] = {};
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    const V at = load_vector(v + i);
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) sums[c] += at * load_vector(a + c * step + i);
  }
  T factors[columns];
  for (int c = 0; c < columns; ++c) {
    const auto pair = merge_lanes<2>(sums[c], [](auto x, auto y) { return x + y; });
    factors[c] = tau * (pair[0] + pair[1]);
  }
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    const V at = load_vector(v + i);
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      const V changed = load_vector(a + c * step + i) - factors[c] * at;
      std::memcpy(a + c * step + i, &changed, sizeof changed);
    }
  }
}

/// Applies the reflector number `j` to the columns from `from` on. `v` is zero up to its row j.
template <class T>
void reflect_from(Columns<T>& a, int64_t j, int64_t from, const T* v, T tau) {
  const int64_t row = j / kLanes<T> * kLanes<T>, n = a.step - row;
  if (tau == 0) return;
  for (; from + 4 <= a.count; from += 4) reflect<4>(n, v + row, tau, a.column(from) + row, a.step);
  for (; from < a.count; ++from) reflect<1>(n, v + row, tau, a.column(from) + row, a.step);
}

}  // namespace facula::cpu::FACULA_ISA
