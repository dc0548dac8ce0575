// Singular values: reflectors from both sides make the matrix bidiagonal, which is then made diagonal in double
// precision (Golub and Kahan).
#include "cpu/own_svd.h"

#include <limits>
#include <numeric>

#include "cpu/isa/tridiagonal.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// The diagonal of an upper bidiagonal matrix, and what is behind each of its elements.
struct Bidiagonal {
  std::vector<double> diagonal, behind;

  explicit Bidiagonal(int64_t n) : diagonal(static_cast<size_t>(n)), behind(diagonal.size()) {}
  double& d(int64_t i) { return diagonal[static_cast<size_t>(i)]; }
  double& e(int64_t i) { return behind[static_cast<size_t>(i)]; }
  int64_t size() const { return static_cast<int64_t>(diagonal.size()); }
  double norm() const {
    double most = 0;
    for (size_t i = 0; i < diagonal.size(); ++i) most = std::max(most, std::abs(diagonal[i]) + std::abs(behind[i]));
    return most;
  }
};

/// Makes a tall matrix bidiagonal. Below the diagonal of `a` are then the reflectors of the left side, below that of
/// `right`, one row lower, those of the right side.
template <class T>
Bidiagonal make_bidiagonal(Columns<T>& a, Columns<T>& right, T* left_tau, T* right_tau) {
  const int64_t n = a.count;
  Bidiagonal result(n);
  const auto rows = static_cast<size_t>(a.step), columns = static_cast<size_t>(right.step);
  std::vector<T> v(rows), y(rows), w(columns), by(columns), along(columns);
  const T* known = nullptr;  // y, from the second column on
  for (int64_t k = 0; k < n; ++k) {
    T* column = a.column(k);
    if (known)
      for (int64_t i = k; i < a.rows; ++i) column[i] -= y[static_cast<size_t>(i)] * by[static_cast<size_t>(k)];
    if (k) v[static_cast<size_t>(k - 1)] = 0;
    left_tau[k] = make_reflector(a.rows - k, column + k, v.data() + k);
    result.d(k) = column[k];
    if (k + 1 >= n) break;
    subtract_and_multiply(a, k + 1, k, known, by.data(), v.data(), w.data());
    T* row = right.column(k) + k + 1;
    for (int64_t j = k + 1; j < n; ++j) {
      T& product = w[static_cast<size_t>(j)];
      product *= left_tau[k];
      right.column(k)[j] = a.column(j)[k] - product;
    }
    right_tau[k] = make_reflector(n - k - 1, row, along.data() + k + 1);
    result.e(k) = row[0];
    subtract_and_add_up(a, k + 1, k, v.data(), w.data(), along.data(), y.data());
    for (int64_t j = k + 1; j < n; ++j) by[static_cast<size_t>(j)] = right_tau[k] * along[static_cast<size_t>(j)];
    known = y.data();
  }
  return result;
}

/// A step of the method on rows l to m, without a shift where it would be nothing beside the values.
template <class T>
void chase(Bidiagonal& b, int64_t l, int64_t m, double negligible, Sweep<T>* left, Sweep<T>* right) {
  double f = b.d(l), g = b.e(l);
  bool singular = false;
  for (int64_t i = l; i <= m; ++i) singular |= std::abs(b.d(i)) <= negligible;
  if (!singular) {
    // the eigenvalue of the last two rows of B^T B that is nearer to the last element
    const double before = m > l + 1 ? b.e(m - 2) : 0, d = b.d(m - 1), e = b.e(m - 1), last = b.d(m);
    const double upper = d * d + before * before, lower = last * last + e * e, beside = d * e;
    const double half = (upper - lower) / 2, root = std::hypot(half, beside);
    const double shift = lower - beside * beside / (half + std::copysign(root, half));
    if (shift > 0 && std::isfinite(shift)) f = b.d(l) - shift / b.d(l);
  }
  for (int64_t i = l; i < m; ++i) {
    const Rotation columns(f, g);
    double c = columns.cosine, s = columns.sine;
    if (i > l) b.e(i - 1) = columns.length;
    f = c * b.d(i) + s * b.e(i);
    b.e(i) = c * b.e(i) - s * b.d(i);
    g = s * b.d(i + 1);
    b.d(i + 1) *= c;
    if (right) right->set(i, c, s);
    const Rotation rows(f, g);
    c = rows.cosine, s = rows.sine;
    b.d(i) = rows.length;
    f = c * b.e(i) + s * b.d(i + 1);
    b.d(i + 1) = c * b.d(i + 1) - s * b.e(i);
    if (i + 1 < m) {
      g = s * b.e(i + 1);
      b.e(i + 1) *= c;
    }
    if (left) left->set(i, c, s);
  }
  b.e(m - 1) = f;
}

/// Calls step(l, m) until what is behind the diagonal is negligible; false where that does not end.
template <class Step>
bool make_diagonal(Bidiagonal& b, double negligible, Step step) {
  constexpr int64_t most = 60;
  int64_t tries = 0;
  for (int64_t m = b.size() - 1; m > 0;) {
    if (std::abs(b.e(m - 1)) <= negligible) {
      b.e(--m) = 0;
      tries = 0;
      continue;
    }
    int64_t l = m - 1;
    while (l > 0 && std::abs(b.e(l - 1)) > negligible) --l;
    if (l > 0) b.e(l - 1) = 0;
    if (++tries == most) return false;
    step(l, m);
  }
  return true;
}

/// Squares of values that are to be as exact as floats are found in double precision.
bool values_by_squares(Bidiagonal& b) {
  const int64_t n = b.size();
  Tridiagonal product(n);
  for (int64_t i = 0; i < n; ++i) {
    const double above = i ? b.e(i - 1) : 0;
    product.diagonal(i) = b.d(i) * b.d(i) + above * above;
    if (i + 1 < n) product.beside(i) = b.d(i) * b.e(i);
  }
  if (!product.make_diagonal(std::numeric_limits<double>::epsilon() / 4)) return false;
  for (int64_t i = 0; i < n; ++i) b.d(i) = std::sqrt(std::max(product.diagonal(i), 0.0));
  return true;
}

template <class T>
void turn_over(int64_t rows, int64_t columns, const T* from, Columns<T>& to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to.column(r)[c] = from[c * rows + r];
}

template <class T>
bool singular(int64_t rows, int64_t columns, const T* given, T* values, T* u, T* vh) {
  const bool tall = rows >= columns;
  const int64_t m = std::max(rows, columns), n = std::min(rows, columns);
  Columns<T> left(m, n), right(n, n);
  if (tall)
    for (int64_t c = 0; c < n; ++c) std::copy_n(given + c * m, m, left.column(c));
  else turn_over(rows, columns, given, left);
  const std::optional<int> exponent = bring_near_one(left);
  if (!exponent) return false;
  std::vector<T> left_tau(static_cast<size_t>(n)), right_tau(left_tau.size());
  Bidiagonal b = make_bidiagonal(left, right, left_tau.data(), right_tau.data());
  constexpr double epsilon =
      std::max(static_cast<double>(std::numeric_limits<T>::epsilon()) / 8, std::numeric_limits<double>::epsilon());
  const double negligible = epsilon * b.norm();
  if (u) {
    form_product(left, n, left_tau.data());
    form_basis(right, right_tau.data());
    Sweep<T> of_left(n), of_right(n);
    const bool ended = make_diagonal(b, negligible, [&](int64_t l, int64_t end) {
      chase(b, l, end, negligible, &of_left, &of_right);
      of_left.apply(left, l, end, true);
      of_right.apply(right, l, end, true);
    });
    if (!ended) return false;
  } else if (sizeof(T) == 4) {
    if (!values_by_squares(b)) return false;
  } else if (!make_diagonal(b, negligible,
                            [&](int64_t l, int64_t end) { chase<T>(b, l, end, negligible, nullptr, nullptr); })) {
    return false;
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return std::abs(b.d(i)) > std::abs(b.d(j)); });
  T *kept = tall ? u : vh, *turned = tall ? vh : u;  // of the longer side, and of the other one
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = order[static_cast<size_t>(k)];
    values[k] = static_cast<T>(std::scalbn(std::abs(b.d(from)), *exponent));
    if (!u) continue;
    const T* of_longer = left.column(from);
    const T *of_shorter = right.column(from), sign = b.d(from) < 0 ? T(-1) : T(1);
    // A = U S V^T: U and V are columns, and V^T is what is given back
    for (int64_t i = 0; i < m; ++i) kept[tall ? k * m + i : i * n + k] = of_longer[i];
    for (int64_t i = 0; i < n; ++i) turned[tall ? i * n + k : k * n + i] = sign * of_shorter[i];
  }
  return true;
}

}  // namespace

void register_own_svd() {
  own_svd<float> = singular<float>;
  own_svd<double> = singular<double>;
}

}  // namespace facula::cpu::FACULA_ISA
