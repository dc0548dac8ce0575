// Computes orthogonal polynomials of degree n at x, by their three-term recurrences, in double.
//
// The degree arrives as a floating-point number (it may be a tensor) and is cut to an integer. Below 0 the
// polynomial is 0. NaN in x gives NaN, except for degree 0.
#pragma once

#include "math.h"

namespace facula::kernels {

/// Degree cut to an integer; NaN and what no integer can hold count as negative.
template <class T>
FACULA_FN Int64 polynomial_degree(T n) {
  return n > T(-1) && n < T(0x1p62) ? static_cast<Int64>(n) : -1;
}

/// The four kinds of Chebyshev polynomials share T_n = 2 x T_(n-1) - T_(n-2), and are 1 at degree 0.
FACULA_RARE double chebyshev_recurrence(double first, double x, Int64 n) {
  double before = 1, value = first;
  for (Int64 k = 1; k < n && value == value; ++k) {
    const double next = 2 * x * value - before;
    before = value;
    value = next;
  }
  return n == 0 ? 1 : value;
}

/// From this degree on the trigonometric forms are used inside (-1, 1); below, the recurrence is exact
/// enough.
inline constexpr Int64 trigonometric_degree = 9;

FACULA_RARE double chebyshev_t(double x, Int64 n) {
  if (n < 0) return 0;
  if (abs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  if (n >= trigonometric_degree && abs(x) < 1) return cos(static_cast<double>(n) * acos(x));
  return chebyshev_recurrence(x, x, n);
}

FACULA_RARE double chebyshev_u(double x, Int64 n) {
  if (n < 0) return 0;
  const double d = static_cast<double>(n);
  if (abs(x) == 1) return x > 0 || n % 2 == 0 ? d + 1 : -(d + 1);
  if (n >= trigonometric_degree && abs(x) < 1) return sin((d + 1) * acos(x)) / sin(acos(x));
  return chebyshev_recurrence(2 * x, x, n);
}

FACULA_RARE double chebyshev_v(double x, Int64 n) {
  if (n < 0) return 0;
  const double d = static_cast<double>(n);
  if (x == 1) return 1;
  if (x == -1) return n % 2 == 0 ? 2 * d + 1 : -(2 * d + 1);
  if (n >= trigonometric_degree && abs(x) < 1) return cos((d + 0.5) * acos(x)) / cos(0.5 * acos(x));
  return chebyshev_recurrence(2 * x - 1, x, n);
}

FACULA_RARE double chebyshev_w(double x, Int64 n) {
  if (n < 0) return 0;
  const double d = static_cast<double>(n);
  if (x == 1) return 2 * d + 1;
  if (x == -1) return n % 2 == 0 ? 1 : -1;
  if (n >= trigonometric_degree && abs(x) < 1) return sin((d + 0.5) * acos(x)) / sin(0.5 * acos(x));
  return chebyshev_recurrence(2 * x + 1, x, n);
}

/// Physicists' Hermite polynomials: H_k+1 = 2 x H_k - 2 k H_k-1. They leave the range of double by degree
/// 513.
FACULA_RARE double hermite_h(double x, Int64 n) {
  if (n < 0) return 0;
  if (n > 512) return Float<double>::nan;
  double before = 1, value = 2 * x;
  for (Int64 k = 1; k < n; ++k) {
    const double next = 2 * x * value - 2 * static_cast<double>(k) * before;
    before = value;
    value = next;
  }
  return n == 0 ? 1 : value;
}

/// Probabilists' Hermite polynomials: He_k+1 = x He_k - k He_k-1.
FACULA_RARE double hermite_he(double x, Int64 n) {
  if (n < 0) return 0;
  if (n > 512) return Float<double>::nan;
  double before = 1, value = x;
  for (Int64 k = 1; k < n; ++k) {
    const double next = x * value - static_cast<double>(k) * before;
    before = value;
    value = next;
  }
  return n == 0 ? 1 : value;
}

FACULA_RARE double laguerre_l(double x, Int64 n) {
  if (n < 0) return 0;
  if (x == 0) return 1;
  double before = 1, value = 1 - x;
  for (Int64 k = 1; k < n && value == value; ++k) {
    const double d = static_cast<double>(k), next = ((2 * d + 1 - x) * value - d * before) / (d + 1);
    before = value;
    value = next;
  }
  return n == 0 ? 1 : value;
}

FACULA_RARE double legendre_p(double x, Int64 n) {
  if (n < 0) return 0;
  if (abs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  double before = 1, value = x;
  for (Int64 k = 1; k < n && value == value; ++k) {
    const double d = static_cast<double>(k), next = ((2 * d + 1) * x * value - d * before) / (d + 1);
    before = value;
    value = next;
  }
  return n == 0 ? 1 : value;
}

// The public forms: name(x, n), both of the compute type. The shifted ones are those of 2 x - 1.
#define FACULA_POLYNOMIAL(name, function, argument)                  \
  template <class T>                                                 \
  FACULA_FN T name(T self, T n) {                                    \
    const double x = static_cast<double>(self);                      \
    return static_cast<T>(function(argument, polynomial_degree(n))); \
  }
FACULA_POLYNOMIAL(chebyshev_polynomial_t, chebyshev_t, x)
FACULA_POLYNOMIAL(chebyshev_polynomial_u, chebyshev_u, x)
FACULA_POLYNOMIAL(chebyshev_polynomial_v, chebyshev_v, x)
FACULA_POLYNOMIAL(chebyshev_polynomial_w, chebyshev_w, x)
FACULA_POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev_t, 2 * x - 1)
FACULA_POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev_u, 2 * x - 1)
FACULA_POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev_v, 2 * x - 1)
FACULA_POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev_w, 2 * x - 1)
FACULA_POLYNOMIAL(hermite_polynomial_h, hermite_h, x)
FACULA_POLYNOMIAL(hermite_polynomial_he, hermite_he, x)
FACULA_POLYNOMIAL(laguerre_polynomial_l, laguerre_l, x)
FACULA_POLYNOMIAL(legendre_polynomial_p, legendre_p, x)
#undef FACULA_POLYNOMIAL

}  // namespace facula::kernels
