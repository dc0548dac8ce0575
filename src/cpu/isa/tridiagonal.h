// Eigenvalues of symmetric tridiagonal matrices in double precision, by the implicit QL method with Wilkinson's shifts.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "cpu/isa/rotations.h"

namespace facula::cpu::FACULA_ISA {

class Tridiagonal {
 public:
  explicit Tridiagonal(int64_t n) : n_(n), diagonal_(static_cast<size_t>(n)), beside_(diagonal_.size()) {}
  double& diagonal(int64_t i) { return diagonal_[static_cast<size_t>(i)]; }
  /// The element in rows i and i + 1; what is behind the last one is nothing.
  double& beside(int64_t i) { return beside_[static_cast<size_t>(i)]; }

  /// Rotates until the elements beside the diagonal are negligible, which is what `epsilon` says; false where that does
  /// not end. The columns of `a` are rotated alike.
  template <class T>
  bool make_diagonal(double epsilon, Columns<T>& a) {
    Sweep<T> sweep(n_);
    if (sizeof(T) == 8)
      return iterate([&](double x, double size) { return std::abs(x) <= epsilon * size; },
                     [&](int64_t l, int64_t m) { chase(l, m, sweep, a); });
    // in floats, roots of squares with twice their digits do: these need not be waited for
    for (int64_t i = 0; i + 1 < n_; ++i) {
      const bool below = beside(i) < 0;
      if (below) turn_over(a, i + 1);
      if (below && i + 2 < n_) beside(i + 1) = -beside(i + 1);
      beside(i) *= beside(i);
    }
    std::vector<double> cosines(static_cast<size_t>(n_)), sines(cosines.size());
    return iterate([&](double x, double size) { return x <= epsilon * epsilon * (size * size); },
                   [&](int64_t l, int64_t m) {
                     double *c = cosines.data(), *s = sines.data();
                     const Chased chased = chase_squares(l, m, [=](int64_t i, double sign, double cosine, double sine) {
                       c[i] = sign * cosine;
                       s[i] = sine;
                     });
                     T *to_c = sweep.cosine.data(), *to_s = sweep.sine.data();
                     FACULA_SIMD
                     for (int64_t i = chased.from; i < m; ++i) {
                       to_c[i] = static_cast<T>(std::copysign(std::sqrt(std::abs(c[i])), c[i]));
                       to_s[i] = static_cast<T>(-std::sqrt(s[i]));
                     }
                     sweep.apply(a, chased.from, m, false);
                     if (chased.turned) turn_over(a, l);
                   });
  }
  /// The same without columns.
  bool make_diagonal(double epsilon) {
    for (double& x : beside_) x *= x;
    return iterate([&](double x, double size) { return x <= epsilon * epsilon * (size * size); },
                   [&](int64_t l, int64_t m) { chase_squares(l, m, [](auto...) {}); });
  }

 private:
  template <class Negligible, class Chase>
  bool iterate(Negligible negligible, Chase chase_from) {
    constexpr int64_t most = 60;
    for (int64_t l = 0; l < n_; ++l) {
      for (int64_t tries = 0;; ++tries) {
        int64_t m = l;
        while (m + 1 < n_ && !negligible(beside(m), std::abs(diagonal(m)) + std::abs(diagonal(m + 1)))) ++m;
        if (m == l) break;
        if (tries == most) return false;
        chase_from(l, m);
      }
    }
    return true;
  }

  /// One step of the method on rows l to m: a shift near an eigenvalue of the first two rows makes an element that is
  /// rotated up from the end.
  template <class T>
  void chase(int64_t l, int64_t m, Sweep<T>& sweep, Columns<T>& a) {
    const double half = (diagonal(l + 1) - diagonal(l)) / (2 * beside(l));
    double g = diagonal(m) - diagonal(l) + beside(l) / (half + std::copysign(std::sqrt(half * half + 1), half));
    double sine = 1, cosine = 1, shifted = 0;
    for (int64_t i = m - 1; i >= l; --i) {
      const double f = sine * beside(i), b = cosine * beside(i);
      const Rotation rotation(g, f);
      beside(i + 1) = rotation.length;
      if (rotation.length == 0) {  // the matrix falls into two before its end
        diagonal(i + 1) -= shifted;
        beside(m) = 0;
        return sweep.apply(a, i + 1, m, false);
      }
      sine = rotation.sine;
      cosine = rotation.cosine;
      g = diagonal(i + 1) - shifted;
      const double r = (diagonal(i) - g) * sine + 2 * cosine * b;
      shifted = sine * r;
      diagonal(i + 1) = g + shifted;
      g = cosine * r - b;
      sweep.set(i, cosine, -sine);
    }
    diagonal(l) -= shifted;
    beside(l) = g;
    beside(m) = 0;
    sweep.apply(a, l, m, false);
  }
  struct Chased {
    int64_t from;  // the last of the rotations
    bool turned;   // whether what is beside the first row is below zero
  };
  /// The same without roots (Pal, Walker and Kahan): beside_ has squares of elements that are not below zero, and so
  /// have the sine and the cosine. Tells `record` of each rotation, with the sign of its cosine; its sine has none.
  template <class Record>
  Chased chase_squares(int64_t l, int64_t m, Record record) {
    const double root = std::sqrt(beside(l)), half = (diagonal(l + 1) - diagonal(l)) / (2 * root);
    const double shift = diagonal(l) - root / (half + std::copysign(std::sqrt(half * half + 1), half));
    double cosine = 1, sine = 0, g = diagonal(m) - shift, p = g * g, old_sign = 1, sign = std::copysign(1.0, g);
    for (int64_t i = m - 1; i >= l; --i) {
      const double square = beside(i), r = p + square, inverse = 1 / r, old_g = g, old_cosine = cosine, ratio = r / p;
      if (i != m - 1) beside(i + 1) = sine * r;
      if (r == 0) {  // nothing is left to rotate
        diagonal(i + 1) = old_g + shift;
        beside(i) = 0;
        return {i + 1, false};
      }
      cosine = p * inverse;
      sine = square * inverse;
      record(i, sign, cosine, sine);
      const double at = diagonal(i);
      g = cosine * (at - shift) - sine * old_g;
      diagonal(i + 1) = old_g + (at - g);
      p = cosine != 0 ? g * g * ratio : old_cosine * square;
      const double next = cosine != 0 ? std::copysign(sign, sign * g) : -old_sign;
      old_sign = sign;
      sign = next;
    }
    beside(l) = sine * p;
    diagonal(l) = shift + g;
    return {l, sign < 0};
  }
  template <class T>
  static void turn_over(Columns<T>& a, int64_t column) {
    for (int64_t i = 0; i < a.rows; ++i) a.column(column)[i] = -a.column(column)[i];
  }

  int64_t n_;
  std::vector<double> diagonal_, beside_;
};

}  // namespace facula::cpu::FACULA_ISA
