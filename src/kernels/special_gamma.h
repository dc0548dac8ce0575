// Computes the gamma function's family, in double.
#pragma once

#include "math.h"

namespace facula::kernels {

FACULA_RARE double lgamma(double x) { return FACULA_LIBM(lgamma)(x); }

/// |sin(pi t)| for |t| <= 1/2, to 7e-10.
FACULA_FN double sine_of_half_turns(double t) {
  const double x = pi * abs(t);
  return x * horner(x * x, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0);
}

/// Free of branches, for float results: Stirling's series above 8, reached by the recurrence; reflection below 1/2.
/// What both multiply by goes into one logarithm.
FACULA_FN double lgamma_for_float(double x) {
  const bool reflects = x < 0.5;
  const double y = reflects ? 1 - x : x, shifted = y < 8 ? y + 8 : y;
  const double product = y * (y + 1) * (y + 2) * (y + 3) * (y + 4) * (y + 5) * (y + 6) * (y + 7);
  const double z = 1 / shifted, z2 = z * z;
  const double tail =
      z * horner(z2, 1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
  const double large = (shifted - 0.5) * log(shifted) - shifted + 0.91893853320467274178 + tail;
  const double below = y < 8 ? product : 1.0;
  const double factor = reflects ? below * pi / sine_of_half_turns(x - round_half_even(x)) : below;
  const double value = large - log(factor);
  const double finite = x == 1 || x == 2 ? 0 : (reflects ? -value : value);  // the roots, which the sum only comes near
  return abs(x) == Float<double>::infinity ? Float<double>::infinity : finite;
}

/// Derivative of lgamma. -0 and +0 are the poles' two sides; the other poles are NaN.
FACULA_RARE double digamma(double x) {
  if (x == 0) return copysign(Float<double>::infinity, -x);
  double result = 0;
  if (x < 0) {
    const double whole = trunc(x);
    if (x == whole || isinf(x)) return Float<double>::nan;
    result = -pi / FACULA_LIBM(tan)(pi * (x - whole));  // reflection
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  const double tail = horner(z, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
  return result + (log(x) - 0.5 / x - z * tail);
}

/// Derivative of digamma.
FACULA_RARE double trigamma(double x) {
  double result = 0, sign = 1;
  if (x < 0.5) {  // reflection
    const double s = pi / sin(pi * x);
    result = -s * s;
    x = 1 - x;
    sign = -1;
  }
  for (; x < 10; x += 1) result += 1 / (x * x);
  const double z = 1 / (x * x);
  const double tail = horner(z, 7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6);
  return sign * (result + (1 + 0.5 / x + z * tail) / x);
}

/// Free of branches, for float results: the series above 4, reached by the recurrence, as one fraction.
FACULA_FN double trigamma_for_float(double x) {
  const bool reflects = x < 0.5;
  const double y = reflects ? 1 - x : x, shifted = y < 4 ? y + 4 : y;
  const double a = y * y, b = (y + 1) * (y + 1), c = (y + 2) * (y + 2), d = (y + 3) * (y + 3);
  const double below = ((a + b) * c * d + (c + d) * a * b) / (a * b * c * d);
  const double z = 1 / shifted, z2 = z * z;
  const double tail = horner(z2, 7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6);
  const double value = mul_add(z2, tail, mul_add(0.5, z, 1.0)) * z + (y < 4 ? below : 0.0);
  const double s = pi / sine_of_half_turns(x - round_half_even(x));
  return reflects ? s * s - value : value;
}

/// Hurwitz's zeta, the sum of (q + k)^-s over k = 0, 1, ... For q <= 0 only whole s are defined.
FACULA_RARE double zeta(double s, double q) {
  if (s == 1) return Float<double>::infinity;
  if (s < 1) return Float<double>::nan;
  if (q <= 0) {
    if (q == floor(q)) return Float<double>::infinity;
    if (s != floor(s)) return Float<double>::nan;
  }
  // Euler and Maclaurin: some terms by hand, then integral, half term and corrections B_2j / (2j)! *
  // derivatives.
  double sum = 0, a = q;
  for (int k = 0; k < 10 || a < 10; ++k, a += 1) {
    const double term = pow(a, -s);
    sum += term;
    if (abs(term) < 1e-17 * abs(sum) && a > 0) return sum;
  }
  constexpr double ratio[] = {1.0 / 12,
                              -1.0 / 720,
                              1.0 / 30240,
                              -1.0 / 1209600,
                              1.0 / 47900160,
                              -691.0 / 1307674368000.0,
                              1.0 / 74724249600.0,
                              -3617.0 / 10670622842880000.0};
  const double first = pow(a, -s);
  sum += first * a / (s - 1) + 0.5 * first;
  double factor = s * first / a;
  for (int j = 0; j < 8; ++j) {
    sum += ratio[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
  }
  return sum;
}

/// Derivative number n of digamma, n = 0, 1, ...
FACULA_RARE double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  const double sign = fmod(n, 2.0) == 0 ? -1 : 1;
  return sign * exp(lgamma(n + 1)) * zeta(n + 1, x);
}

// ---- incomplete gamma functions

/// log(1 + x) - x without cancellation.
FACULA_RARE double log1p_minus_x(double x) {
  if (abs(x) > 0.3) return log1p(x) - x;
  double power = x * x, sum = 0;
  for (int k = 2; k < 40; ++k, power *= -x) sum -= power / k;
  return sum;
}

// T is the type of the result, which says how exact it is to be; computed in double.
template <class T>
inline constexpr double negligible = sizeof(T) == 4 ? 1e-10 : 1e-17;

/// x^a e^-x / gamma(a + 1) for a > 0, for float results: Stirling's series above 8, reached by the recurrence.
FACULA_RARE double gamma_density_for_float(double a, double x) {
  const double y = a + 1, w = y * (y + 7), z = y < 8 ? y + 8 : y;
  const double passed = y < 8 ? w * (w + 6) * ((w + 10) * (w + 12)) : 1;  // y (y + 1) ... (y + 7)
  const double r = 1 / z, tail = r * horner(r * r, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
  constexpr double half_log_2_pi = 0.91893853320467274178;
  return passed * exp(a * log(x) - (z - 0.5) * log(z) + (z - x - half_log_2_pi - tail));
}

/// The same.
template <class T>
FACULA_RARE double gamma_density(double a, double x) {
  if constexpr (sizeof(T) == 4) return gamma_density_for_float(a, x);
  else return exp(a * log(x) - x - lgamma(a + 1));
}

/// The lower function by its power series; best for x < a + 1. The sum is one fraction, and looked at every
/// few terms: divisions and branches that turn out differently are what terms would take.
template <class T>
FACULA_RARE double igamma_series(double a, double x) {
  constexpr double large = 1e200;
  double above = 1, below = 1, power = 1;
  for (int k = 1; k < 4000 && power > negligible<T> * above; k += 4) {
    for (int j = 0; j < 4; ++j) {
      below *= a + (k + j);
      power *= x;
      above = mul_add(above, a + (k + j), power);
    }
    if (below > large) {
      above /= below;
      power /= below;
      below = 1;
    }
  }
  return above / below * gamma_density<T>(a, x);
}

/// The upper function by its continued fraction (Lentz's method); best for x > a + 1.
template <class T>
FACULA_RARE double igammac_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < 4000; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    d = 1 / (abs(d) < tiny ? tiny : d);
    c = abs(c) < tiny ? tiny : c;
    const double change = c * d;
    h *= change;
    if (abs(change - 1) < 10 * negligible<T>) break;
  }
  return h * a * gamma_density<T>(a, x);
}

/// Either function for large a by Temme's uniform expansion; `side` is 1 for the upper one, -1 for the lower.
FACULA_RARE double igamma_uniform(double a, double x, double side) {
  const double mu = (x - a) / a;
  const double half_eta_square = -log1p_minus_x(mu), eta = copysign(sqrt(2 * half_eta_square), mu);
  const double c0 = horner(eta, -571.0 / 261273600, 1.0 / 25515, -139.0 / 777600, 1.0 / 2835, 1.0 / 864, -2.0 / 135,
                           1.0 / 12, -1.0 / 3);
  const double c1 = horner(eta, -223.0 / 1088640, 25.0 / 12096, -1.0 / 288, -1.0 / 540);
  const double density = exp(-a * half_eta_square);
  // Where the density has vanished eta may be large and the corrections' series meaningless.
  const double correction = density > 0 ? density / sqrt(2 * pi * a) * (c0 + c1 / a + 25.0 / 6048 / (a * a)) : 0;
  return 0.5 * erfc(side * eta * sqrt(0.5 * a)) + side * correction;
}

inline constexpr double uniform_from = 2000;  // the size of a where the uniform expansion takes over

/// What both functions share at the edges; returns false where there is no edge. `lower` is the lower
/// function.
FACULA_RARE bool igamma_at_edges(double a, double x, double* lower) {
  const double inf = Float<double>::infinity, nan = Float<double>::nan;
  if (a < 0 || x < 0) return *lower = nan, true;
  if (a == 0) return *lower = x > 0 ? 1 : nan, true;
  if (x == 0) return *lower = 0, true;
  if (a == inf) return *lower = x == inf ? nan : 0, true;
  if (x == inf) return *lower = 1, true;
  if (a != a || x != x) return *lower = nan, true;
  return false;
}

/// The regularized lower incomplete gamma function.
template <class T = double>
FACULA_RARE double igamma(double a, double x) {
  double lower = 0;
  if (igamma_at_edges(a, x, &lower)) return lower;
  if (a > uniform_from) return igamma_uniform(a, x, -1);
  return x <= a + 1 ? igamma_series<T>(a, x) : 1 - igammac_fraction<T>(a, x);
}

/// The regularized upper incomplete gamma function, 1 - igamma.
template <class T = double>
FACULA_RARE double igammac(double a, double x) {
  double lower = 0;
  if (igamma_at_edges(a, x, &lower)) return 1 - lower;
  if (a > uniform_from) return igamma_uniform(a, x, 1);
  return x <= a + 1 ? 1 - igamma_series<T>(a, x) : igammac_fraction<T>(a, x);
}

FACULA_FN float lgamma(float x) { return static_cast<float>(lgamma_for_float(x)); }
FACULA_RARE float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
FACULA_FN float trigamma(float x) { return static_cast<float>(trigamma_for_float(x)); }
FACULA_RARE float zeta(float s, float q) {
  return static_cast<float>(zeta(static_cast<double>(s), static_cast<double>(q)));
}
FACULA_RARE float polygamma(float n, float x) {
  return static_cast<float>(polygamma(static_cast<double>(n), static_cast<double>(x)));
}
FACULA_RARE float igamma(float a, float x) {
  return static_cast<float>(igamma<float>(static_cast<double>(a), static_cast<double>(x)));
}
FACULA_RARE float igammac(float a, float x) {
  return static_cast<float>(igammac<float>(static_cast<double>(a), static_cast<double>(x)));
}

/// log of the multivariate gamma function of order p, x > (p - 1) / 2.
template <class T>
FACULA_RARE T mvlgamma(T x, T p) {
  double sum = 0.25 * static_cast<double>(p) * (static_cast<double>(p) - 1) * log(pi);
  for (double j = 0; j < static_cast<double>(p); j += 1) sum += lgamma(static_cast<double>(x) - 0.5 * j);
  return static_cast<T>(sum);
}

}  // namespace facula::kernels
