// Systems with triangular matrices. Rows are divided by their element of the diagonal first, so that nothing is divided
// on the way from one unknown to the next.
#include "cpu/own_triangle.h"

#include "cpu/isa/panels.h"
#include "cpu/isa/transpose.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kSystems = 64;  // that are solved together

template <class T>
bool has_reciprocals(int64_t n, const T* a) {
  bool all = true;
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i * (n + 1)];
    all &= x != 0 && std::isfinite(x) && std::isfinite(T(1) / x);
  }
  return all;
}

/// `rows` rows of `columns` elements, column after column, turned over.
template <class T>
void turn(int64_t rows, int64_t columns, const T* from, int64_t from_step, T* to, int64_t to_step) {
  using E = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  transpose_tiles<E>(reinterpret_cast<const char*>(from), from_step * static_cast<int64_t>(sizeof(T)),
                     reinterpret_cast<char*>(to), to_step * static_cast<int64_t>(sizeof(T)), rows, columns);
}

/// A triangle with ones on its diagonal, and what its rows, and those of right-hand sides, are divided by.
template <class T>
class Triangle {
 public:
  Triangle(int64_t n, const T* a, bool turned, bool upper, bool unit)
      : upper_(upper), unit_(unit), a_(n, n), divisors_(n, 1) {
    if (turned) turn(n, n, a, n, a_.column(0), a_.step);
    else
      for (int64_t c = 0; c < n; ++c) std::copy_n(a + c * n, n, a_.column(c));
    if (unit) return;
    std::fill_n(divisors_.column(0), divisors_.step, T(1));
    for (int64_t i = 0; i < n; ++i) divisors_.column(0)[i] = a[i * (n + 1)];
    for (int64_t c = 0; c < n; ++c) divide(a_.column(c), upper ? 0 : c, upper ? c : n);
  }
  void solve(Columns<T>& b) const {
    for (int64_t c = 0; c < b.count && !unit_; ++c) divide(b.column(c), 0, b.rows);
    if (upper_) substitute<false>(a_, b);
    else substitute<true>(a_, b);
  }

 private:
  void divide(T* column, int64_t from, int64_t to) const {
    using V = typename VectorOf<T>::type;
    const T* by = divisors_.column(0);
    for (int64_t i = from / kLanes<T> * kLanes<T>; i < to; i += kLanes<T>) {
      const V quotient = load_vector(column + i) / load_vector(by + i);
      std::memcpy(column + i, &quotient, sizeof quotient);
    }
  }

  bool upper_, unit_;
  Columns<T> a_, divisors_;
};

/// Calls f for parts of the systems A X = B whose right-hand sides are the columns of `b`.
template <class T, class F>
void each_part(int64_t n, int64_t columns, T* b, F f) {
  for (int64_t at = 0; at < columns; at += kSystems) {
    Columns<T> part(n, std::min(kSystems, columns - at), b + at * n);
    f(part);
    part.copy_to(b + at * n);
  }
}

template <class T>
bool solve_triangular(const T* a, int64_t rows, int64_t columns, T* b, bool upper, bool left, bool unit) {
  const int64_t n = left ? rows : columns;
  if (!unit && !has_reciprocals(n, a)) return false;
  const Triangle<T> triangle(n, a, !left, upper == left, unit);
  if (left) {
    each_part(n, columns, b, [&](Columns<T>& part) { triangle.solve(part); });
    return true;
  }
  for (int64_t at = 0; at < rows; at += kSystems) {  // A^T X^T = B^T
    Columns<T> part(n, std::min(kSystems, rows - at));
    turn(part.count, n, b + at, rows, part.column(0), part.step);
    triangle.solve(part);
    turn(n, part.count, part.column(0), part.step, b + at, rows);
  }
  return true;
}

template <class T>
bool solve_by_lu(int64_t n, const T* lu, const int32_t* pivots, int64_t columns, T* b, bool transposed) {
  if (!has_reciprocals(n, lu)) return false;
  const Triangle<T> first(n, lu, transposed, false, !transposed), second(n, lu, transposed, true, transposed);
  each_part(n, columns, b, [&](Columns<T>& part) {
    for (int64_t c = 0; c < part.count && !transposed; ++c) {
      T* column = part.column(c);
      for (int64_t k = 0; k < n; ++k) std::swap(column[k], column[pivots[k] - 1]);
    }
    first.solve(part);
    second.solve(part);
    for (int64_t c = 0; c < part.count && transposed; ++c) {
      T* column = part.column(c);
      for (int64_t k = n; k-- > 0;) std::swap(column[k], column[pivots[k] - 1]);
    }
  });
  return true;
}

template <class T>
bool solve_by_cholesky(int64_t n, const T* factor, int64_t columns, T* b, bool upper) {
  if (!has_reciprocals(n, factor)) return false;
  const Triangle<T> lower(n, factor, upper, false, false), turned(n, factor, !upper, true, false);
  each_part(n, columns, b, [&](Columns<T>& part) {
    lower.solve(part);
    turned.solve(part);
  });
  return true;
}

}  // namespace

void register_own_triangle() {
  own_triangle<float> = {solve_triangular<float>, solve_by_lu<float>, solve_by_cholesky<float>};
  own_triangle<double> = {solve_triangular<double>, solve_by_lu<double>, solve_by_cholesky<double>};
}

}  // namespace facula::cpu::FACULA_ISA
