// Eigenvalues of symmetric matrices: reflectors make the matrix tridiagonal, which is then made diagonal in double
// precision.
#include "cpu/symmetric.h"

#include <limits>
#include <numeric>

#include "cpu/isa/tridiagonal.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// a -= v w^T + w v^T in the columns from `first` on, and from that row on; then products[c] = column c times `next`,
/// which is zero above it. Both at once, so that the matrix is read and written once for each reflector.
template <class T>
void subtract_and_multiply_pairs(Columns<T>& a, int64_t first, const T* v, const T* w, const T* next, T* products) {
  using V = typename VectorOf<T>::type;
  const int64_t row = first / kLanes<T> * kLanes<T>;
  auto some = [&]<int together>(int64_t c) {
    V sums[together] = {};
    for (int64_t i = row; i < a.step; i += kLanes<T>) {
      const V at = load_vector(next + i), from_v = load_vector(v + i), from_w = load_vector(w + i);
#pragma GCC unroll 4
      for (int k = 0; k < together; ++k) {
        T* to = a.column(c + k) + i;
        const V changed = load_vector(to) - w[c + k] * from_v - v[c + k] * from_w;
        std::memcpy(to, &changed, sizeof changed);
        sums[k] += at * changed;
      }
    }
    for (int k = 0; k < together; ++k) {
      const auto pair = merge_lanes<2>(sums[k], [](auto x, auto y) { return x + y; });
      products[c + k] = pair[0] + pair[1];
    }
  };
  for (; first + 4 <= a.count; first += 4) some.template operator()<4>(first);
  for (; first < a.count; ++first) some.template operator()<1>(first);
}

/// The tridiagonal matrix; `a` becomes the reflectors that lead there, with their factors in `tau`.
template <class T>
Tridiagonal make_tridiagonal(Columns<T>& a, T* tau) {
  const int64_t n = a.count;
  Tridiagonal result(n);
  // v of the last reflector that did something and its w, and those that are made
  std::vector<T> room(static_cast<size_t>(4 * a.step));
  T *v = room.data(), *w = v + a.step, *next = w + a.step, *products = next + a.step;
  for (int64_t k = 0; k < n; ++k) {
    T* column = a.column(k);
    const T by_v = v[k], by_w = w[k];
    for (int64_t i = k; i < n; ++i) column[i] -= by_w * v[i] + by_v * w[i];
    result.diagonal(k) = column[k];
    if (k + 1 >= n) break;
    const int64_t first = k + 1;
    std::fill_n(next + std::max<int64_t>(k - 1, 0), k ? 2 : 1, T(0));  // where the last but one began
    tau[k] = make_reflector(n - first, column + first, next + first);
    result.beside(k) = column[first];
    subtract_and_multiply_pairs(a, first, v, w, next, products);
    T along = 0;
    for (int64_t i = first; i < n; ++i) along += products[i] * next[i];
    products[k] = 0;
    for (int64_t i = first; i < n; ++i) products[i] = tau[k] * (products[i] - tau[k] / 2 * along * next[i]);
    std::swap(v, next);
    std::swap(w, products);
  }
  return result;
}

template <class T>
bool eigen(int64_t n, T* a, T* values, bool upper, bool vectors) {
  Columns<T> matrix(n, n, a);
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = c + 1; r < n; ++r)
      (upper ? matrix.column(c)[r] : matrix.column(r)[c]) = upper ? matrix.column(r)[c] : matrix.column(c)[r];
  const std::optional<int> exponent = bring_near_one(matrix);
  if (!exponent) return false;
  std::vector<T> tau(static_cast<size_t>(n));
  Tridiagonal reduced = make_tridiagonal(matrix, tau.data());
  if (vectors) form_basis(matrix, tau.data());
  constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()) / 4;
  if (vectors ? !reduced.make_diagonal(epsilon, matrix) : !reduced.make_diagonal(epsilon)) return false;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return reduced.diagonal(i) < reduced.diagonal(j); });
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = order[static_cast<size_t>(k)];
    values[k] = static_cast<T>(std::scalbn(reduced.diagonal(from), *exponent));
    if (vectors) std::copy_n(matrix.column(from), n, a + k * n);
  }
  return true;
}

}  // namespace

void register_symmetric() {
  symmetric_eigen<float> = eigen<float>;
  symmetric_eigen<double> = eigen<double>;
}

}  // namespace facula::cpu::FACULA_ISA
