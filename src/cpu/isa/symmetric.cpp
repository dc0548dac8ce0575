// Eigenvalues of symmetric matrices: reflectors make the matrix tridiagonal, then the implicit QL method with
// Wilkinson's shifts makes it diagonal. The tridiagonal matrix is kept in double precision.
#include "cpu/symmetric.h"

#include <limits>
#include <numeric>

#include "cpu/isa/reflectors.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// products[c] = a's column c times v, for the columns from `first` on. `v` is zero above that row.
template <class T>
void multiply(Columns<T>& a, int64_t first, const T* v, T* products) {
  using V = typename VectorOf<T>::type;
  const int64_t row = first / kLanes<T> * kLanes<T>;
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

/// a -= v w^T + w v^T from row and column `first` on.
template <class T>
void subtract_products(Columns<T>& a, int64_t first, const T* v, const T* w) {
  using V = typename VectorOf<T>::type;
  const int64_t row = first / kLanes<T> * kLanes<T>;
  for (int64_t c = first; c < a.count; ++c) {
    T* column = a.column(c);
    const T by_v = w[c], by_w = v[c];
    for (int64_t i = row; i < a.step; i += kLanes<T>) {
      const V changed = load_vector(column + i) - by_v * load_vector(v + i) - by_w * load_vector(w + i);
      std::memcpy(column + i, &changed, sizeof changed);
    }
  }
}

template <class T>
class Symmetric {
 public:
  Symmetric(int64_t n, const T* given, bool upper)
      : n_(n),
        a_(n, n, given),
        diagonal_(static_cast<size_t>(n)),
        beside_(static_cast<size_t>(n)),
        tau_(static_cast<size_t>(n)) {
    for (int64_t c = 0; c < n; ++c)
      for (int64_t r = c + 1; r < n; ++r)
        (upper ? a_.column(c)[r] : a_.column(r)[c]) = upper ? a_.column(r)[c] : a_.column(c)[r];
  }

  /// Brings the largest element to between 1 and 2; false where one is not finite.
  bool scale() {
    T largest = 0, nothing = 0;
    const T* x = a_.values.data();
    const auto count = static_cast<int64_t>(a_.values.size());
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
    for (int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, std::abs(x[i]));
      nothing += x[i] * T(0);
    }
    if (nothing != T(0)) return false;
    exponent_ = largest > 0 ? std::max(std::ilogb(largest), -1000) : 0;
    const double factor = std::ldexp(1.0, -exponent_);
    for (T& element : a_.values) element = static_cast<T>(static_cast<double>(element) * factor);
    return true;
  }

  void make_tridiagonal() {
    std::vector<T> v(static_cast<size_t>(a_.step)), w(static_cast<size_t>(a_.step));
    for (int64_t k = 0; k < n_; ++k) {
      T* column = a_.column(k);
      diagonal(k) = column[k];
      if (k + 1 >= n_) break;
      v[static_cast<size_t>(k)] = w[static_cast<size_t>(k)] = 0;
      const int64_t first = k + 1;
      const T tau = tau_[static_cast<size_t>(k)] = make_reflector(n_ - first, column + first, v.data() + first);
      beside(k) = column[first];
      if (tau == 0) continue;
      multiply(a_, first, v.data(), w.data());
      T along = 0;
      for (int64_t i = first; i < n_; ++i) along += w[static_cast<size_t>(i)] * v[static_cast<size_t>(i)];
      for (int64_t i = first; i < n_; ++i)
        w[static_cast<size_t>(i)] = tau * (w[static_cast<size_t>(i)] - tau / 2 * along * v[static_cast<size_t>(i)]);
      subtract_products(a_, first, v.data(), w.data());
    }
  }

  /// The product of the reflectors in their place: the matrix of the basis in which the given one is tridiagonal.
  void make_basis() {
    std::vector<T> v(static_cast<size_t>(a_.step));
    for (int64_t k = n_ - 1; k-- > 0;) {
      const int64_t first = k + 1;
      T* column = a_.column(first);  // it holds what is below the diagonal of the column before it from here on
      std::copy_n(a_.column(k) + first, n_ - first, v.data() + first);
      v[static_cast<size_t>(first)] = 1;
      const T tau = tau_[static_cast<size_t>(k)];
      reflect_from(a_, first, first + 1, v.data(), tau);
      std::fill_n(column, first, T(0));
      for (int64_t i = first; i < n_; ++i) column[i] = (i == first ? T(1) : T(0)) - tau * v[static_cast<size_t>(i)];
    }
    std::fill_n(a_.column(0), n_, T(0));
    a_.column(0)[0] = 1;
  }

  /// Rotates until all elements beside the diagonal are negligible; false where that does not end.
  bool make_diagonal(bool vectors) {
    constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()) / 4;
    constexpr int64_t most = 60;
    const double negligible = vectors ? epsilon : epsilon * epsilon;
    if (!vectors)
      for (double& x : beside_) x *= x;
    for (int64_t l = 0; l < n_; ++l) {
      for (int64_t tries = 0;; ++tries) {
        int64_t m = l;
        for (; m + 1 < n_; ++m) {
          const double size = std::abs(diagonal(m)) + std::abs(diagonal(m + 1));
          if (std::abs(beside(m)) <= negligible * (vectors ? size : size * size)) break;
        }
        if (m == l) break;
        if (tries == most) return false;
        if (vectors) chase(l, m);
        else chase_squares(l, m);
      }
    }
    return true;
  }

  void store(T* a, T* values, bool vectors) {
    std::vector<int64_t> order(static_cast<size_t>(n_));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return diagonal(i) < diagonal(j); });
    for (int64_t k = 0; k < n_; ++k) {
      const int64_t from = order[static_cast<size_t>(k)];
      values[k] = static_cast<T>(std::scalbn(diagonal(from), exponent_));
      if (vectors) std::copy_n(a_.column(from), n_, a + k * n_);
    }
  }

 private:
  double& diagonal(int64_t i) { return diagonal_[static_cast<size_t>(i)]; }
  double& beside(int64_t i) { return beside_[static_cast<size_t>(i)]; }

  /// One step of the method on rows l to m: a shift near an eigenvalue of the first two rows makes an element that is
  /// rotated up from the end.
  void chase(int64_t l, int64_t m) {
    const double half = (diagonal(l + 1) - diagonal(l)) / (2 * beside(l));
    double g = diagonal(m) - diagonal(l) + beside(l) / (half + std::copysign(std::sqrt(half * half + 1), half));
    double sine = 1, cosine = 1, shifted = 0;
    for (int64_t i = m - 1; i >= l; --i) {
      const double f = sine * beside(i), b = cosine * beside(i), length = std::sqrt(f * f + g * g);
      beside(i + 1) = length;
      if (length == 0) {  // the matrix falls into two before its end
        diagonal(i + 1) -= shifted;
        beside(m) = 0;
        return;
      }
      const double inverse = 1 / length;
      sine = f * inverse;
      cosine = g * inverse;
      g = diagonal(i + 1) - shifted;
      const double r = (diagonal(i) - g) * sine + 2 * cosine * b;
      shifted = sine * r;
      diagonal(i + 1) = g + shifted;
      g = cosine * r - b;
      rotate(a_.column(i), a_.column(i + 1), static_cast<T>(cosine), static_cast<T>(sine));
    }
    diagonal(l) -= shifted;
    beside(l) = g;
    beside(m) = 0;
  }
  /// The same without roots, for eigenvalues alone (Pal, Walker and Kahan): beside_ has squares, and so have the sine
  /// and the cosine.
  void chase_squares(int64_t l, int64_t m) {
    const double root = std::sqrt(beside(l)), half = (diagonal(l + 1) - diagonal(l)) / (2 * root);
    const double shift = diagonal(l) - root / (half + std::copysign(std::sqrt(half * half + 1), half));
    double cosine = 1, sine = 0, g = diagonal(m) - shift, p = g * g;
    for (int64_t i = m - 1; i >= l; --i) {
      const double square = beside(i), r = p + square, inverse = 1 / r, old_g = g, old_cosine = cosine, ratio = r / p;
      if (i != m - 1) beside(i + 1) = sine * r;
      if (r == 0) {  // nothing is left to rotate
        diagonal(i + 1) = old_g + shift;
        beside(i) = 0;
        return;
      }
      cosine = p * inverse;
      sine = square * inverse;
      const double at = diagonal(i);
      g = cosine * (at - shift) - sine * old_g;
      diagonal(i + 1) = old_g + (at - g);
      p = cosine != 0 ? g * g * ratio : old_cosine * square;
    }
    beside(l) = sine * p;
    diagonal(l) = shift + g;
  }
  void rotate(T* x, T* y, T cosine, T sine) {
    using V = typename VectorOf<T>::type;
    for (int64_t i = 0; i < a_.step; i += kLanes<T>) {
      const V from_x = load_vector(x + i), from_y = load_vector(y + i);
      const V to_x = cosine * from_x - sine * from_y, to_y = sine * from_x + cosine * from_y;
      std::memcpy(x + i, &to_x, sizeof to_x);
      std::memcpy(y + i, &to_y, sizeof to_y);
    }
  }

  int64_t n_;
  Columns<T> a_;
  std::vector<double> diagonal_, beside_;  // beside_[i] is in rows i and i + 1
  std::vector<T> tau_;
  int exponent_ = 0;
};

template <class T>
bool eigen(int64_t n, T* a, T* values, bool upper, bool vectors) {
  Symmetric<T> matrix(n, a, upper);
  if (!matrix.scale()) return false;
  matrix.make_tridiagonal();
  if (vectors) matrix.make_basis();
  if (!matrix.make_diagonal(vectors)) return false;
  matrix.store(a, values, vectors);
  return true;
}

}  // namespace

void register_symmetric() {
  symmetric_eigen<float> = eigen<float>;
  symmetric_eigen<double> = eigen<double>;
}

}  // namespace facula::cpu::FACULA_ISA
