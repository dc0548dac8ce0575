// Householder's reflectors, made and applied one by one. Columns are copied to where they begin with whole vectors and
// end with zeros, so that no loop has a rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
constexpr int64_t kLanes = VectorOf<T>::lanes;

/// A matrix whose columns are whole vectors, in memory that begins with a line of the caches.
template <class T>
struct Columns {
  int64_t rows, count, step;
  std::vector<T> room;
  T* values;

  Columns(int64_t rows, int64_t count)
      : rows(rows), count(count), step(whole(rows)), room(static_cast<size_t>(step * count + kLine)) {
    const auto past = reinterpret_cast<uintptr_t>(room.data()) / sizeof(T) % kLine;
    values = room.data() + (past ? kLine - static_cast<int64_t>(past) : 0);
  }
  Columns(int64_t rows, int64_t count, const T* from) : Columns(rows, count) {
    for (int64_t c = 0; c < count; ++c) std::copy_n(from + c * rows, rows, column(c));
  }
  Columns(const Columns&) = delete;
  T* column(int64_t c) { return values + c * step; }
  const T* column(int64_t c) const { return values + c * step; }
  void copy_to(T* to) const {
    for (int64_t c = 0; c < count; ++c) std::copy_n(column(c), rows, to + c * rows);
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(T);
  /// So many vectors, and one more where rows of columns would share their places in the first cache.
  static int64_t whole(int64_t rows) {
    const int64_t step = (rows + kLanes<T> - 1) / kLanes<T> * kLanes<T>, bytes = step * static_cast<int64_t>(sizeof(T));
    return bytes % 1024 == 0 ? step + kLanes<T> : step;
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

/// products[c] = column c times v, for the columns from `first` on. `v` is zero above row `row`.
template <class T>
void column_products(const Columns<T>& a, int64_t first, int64_t row, const T* v, T* products) {
  using V = typename VectorOf<T>::type;
  row = row / kLanes<T> * kLanes<T>;
  constexpr int together = 4;
  for (int64_t c = first; c < a.count; c += together) {
    V sums[together] = {};
    const T* column[together];
    for (int k = 0; k < together; ++k) column[k] = a.column(std::min(c + k, a.count - 1));
    for (int64_t i = row; i < a.step; i += kLanes<T>) {
      const V at = load_vector(v + i);
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) sums[k] += at * load_vector(column[k] + i);
    }
    for (int k = 0; k < together && c + k < a.count; ++k) {
      const auto pair = merge_lanes<2>(sums[k], [](auto x, auto y) { return x + y; });
      products[c + k] = pair[0] + pair[1];
    }
  }
}

/// Subtracts y times an element of `by` from the columns from `first` on, and then makes products[c] = column c times
/// v, which is zero above row `row`; y is nothing at first.
template <class T>
void subtract_and_multiply(Columns<T>& a, int64_t first, int64_t row, const T* y, const T* by, const T* v,
                           T* products) {
  using V = typename VectorOf<T>::type;
  if (!y) return column_products(a, first, row, v, products);
  row = row / kLanes<T> * kLanes<T>;
  auto some = [&]<int together>(int64_t c) {
    V sums[together] = {};
    for (int64_t i = row; i < a.step; i += kLanes<T>) {
      const V at = load_vector(v + i), taken = load_vector(y + i);
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) {
        T* to = a.column(c + k) + i;
        const V changed = load_vector(to) - taken * by[c + k];
        std::memcpy(to, &changed, sizeof changed);
        sums[k] += at * changed;
      }
    }
    for (int k = 0; k < together; ++k) {
      const auto pair = merge_lanes<2>(sums[k], [](auto x, auto z) { return x + z; });
      products[c + k] = pair[0] + pair[1];
    }
  };
  for (; first + 4 <= a.count; first += 4) some.template operator()<4>(first);
  for (; first < a.count; ++first) some.template operator()<1>(first);
}

/// Subtracts v times an element of `by` from the columns from `first` on, whose sum, each times its element of
/// `factor`, is y from row `row` on.
template <class T>
void subtract_and_add_up(Columns<T>& a, int64_t first, int64_t row, const T* v, const T* by, const T* factor, T* y) {
  using V = typename VectorOf<T>::type;
  row = row / kLanes<T> * kLanes<T>;
  std::fill(y + row, y + a.step, T(0));
  auto some = [&]<int together>(int64_t c) {
    for (int64_t i = row; i < a.step; i += kLanes<T>) {
      const V at = load_vector(v + i);
      V sum = load_vector(y + i);
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) {
        T* to = a.column(c + k) + i;
        const V changed = load_vector(to) - at * by[c + k];
        std::memcpy(to, &changed, sizeof changed);
        sum += changed * factor[c + k];
      }
      std::memcpy(y + i, &sum, sizeof sum);
    }
  };
  for (; first + 4 <= a.count; first += 4) some.template operator()<4>(first);
  for (; first < a.count; ++first) some.template operator()<1>(first);
}

/// Brings the largest element to between 1 and 2, by a power of two that is returned; nothing where one is not finite.
template <class T>
std::optional<int> bring_near_one(Columns<T>& a) {
  T largest = 0, nothing = 0;
  const int64_t count = a.step * a.count;
  T* x = a.values;
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    nothing += x[i] * T(0);
  }
  if (nothing != T(0)) return std::nullopt;
  const int exponent = largest > 0 ? std::max(std::ilogb(largest), -1000) : 0;
  const double factor = std::ldexp(1.0, -exponent);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) * factor);
  return exponent;
}

/// The first columns of the product of the `count` reflectors below the diagonal of `a`, in its place.
template <class T>
void form_product(Columns<T>& a, int64_t count, const T* tau) {
  std::vector<T> v(static_cast<size_t>(a.step));
  for (int64_t c = count; c < a.count; ++c) {
    std::fill_n(a.column(c), a.rows, T(0));
    a.column(c)[c] = 1;
  }
  for (int64_t j = count; j-- > 0;) {
    T* column = a.column(j);
    std::copy_n(column + j + 1, a.rows - j - 1, v.data() + j + 1);
    v[static_cast<size_t>(j)] = 1;
    reflect_from(a, j, j + 1, v.data(), tau[j]);
    std::fill_n(column, j, T(0));
    for (int64_t i = j; i < a.rows; ++i) column[i] = (i == j ? T(1) : T(0)) - tau[j] * v[static_cast<size_t>(i)];
  }
}

/// The same for the square matrix of reflectors that begin one row below the diagonal.
template <class T>
void form_basis(Columns<T>& a, const T* tau) {
  std::vector<T> v(static_cast<size_t>(a.step));
  for (int64_t k = a.count - 1; k-- > 0;) {
    const int64_t first = k + 1;
    T* column = a.column(first);  // it holds what is below the diagonal of the column before it from here on
    std::copy_n(a.column(k) + first, a.rows - first, v.data() + first);
    v[static_cast<size_t>(first)] = 1;
    reflect_from(a, first, first + 1, v.data(), tau[k]);
    std::fill_n(column, first, T(0));
    for (int64_t i = first; i < a.rows; ++i)
      column[i] = (i == first ? T(1) : T(0)) - tau[k] * v[static_cast<size_t>(i)];
  }
  std::fill_n(a.column(0), a.rows, T(0));
  a.column(0)[0] = 1;
}

}  // namespace facula::cpu::FACULA_ISA
