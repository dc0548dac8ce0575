// Computes derivatives of random samples by the parameters of their distribution, at a fixed quantile: dx/da is
// -(dF/da) / f with the distribution function F and the density f (implicit reparameterization: Figurnov, Mohamed and
// Mnih 2018). F and f share the factors that under- and overflow, which cancel in the quotient. They are computed in
// double; `tolerance` ends the series, earlier for float32 results.
#pragma once

#include "special_gamma.h"

namespace facula::kernels {

/// A value and its derivative by one parameter.
struct Dual {
  double value = 0, slope = 0;
};
FACULA_FN Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
FACULA_FN Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
FACULA_FN Dual inverse(Dual a) {
  const double r = 1 / a.value;
  return {r, -a.slope * r * r};
}

/// The continued fraction b_0 + a_1 / (b_1 + a_2 / (b_2 + ...)) by Lentz's method. `next` sets a_k and b_k.
template <class Next>
FACULA_RARE Dual continued_fraction(Dual first, double tolerance, Next next) {
  Dual result = first, c = first, d{};
  for (int k = 1; k < 20000; ++k) {
    Dual a, b;
    next(k, a, b);
    d = inverse(b + a * d);
    c = b + a * inverse(c);
    const Dual change = c * d;
    result = result * change;
    if (abs(change.value - 1) < tolerance && abs(change.slope) < 10 * tolerance * (1 + abs(result.slope))) break;
  }
  return result;
}

/// dx/da of a gamma sample from its normal quantile z, for large a: the derivative of the expansion of Cornish and
/// Fisher, x = a + z sqrt(a) + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt(a)) - (3 z^4 + 7 z^2 - 16) / (810 a).
FACULA_RARE double gamma_sample_grad_large(double a, double x) {
  const double root = sqrt(a), cube = FACULA_LIBM(cbrt)(x / a);
  double z = 3 * root * (cube - 1 + 1 / (9 * a));  // Wilson and Hilferty, then Newton's method
  for (int step = 0; step < 3; ++step) {
    const double s = z * z;
    const double found = a + z * root + (s - 1) / 3 + z * (s - 7) / (36 * root) - ((3 * s + 7) * s - 16) / (810 * a);
    const double slope = root + 2 * z / 3 + (3 * s - 7) / (36 * root) - z * (12 * s + 14) / (810 * a);
    z -= (found - x) / slope;
  }
  const double s = z * z;
  return 1 + z / (2 * root) - z * (s - 7) / (72 * a * root) + ((3 * s + 7) * s - 16) / (810 * a * a);
}

/// dx/da of a sample x of the standard gamma distribution of shape a.
FACULA_RARE double gamma_sample_grad(double a, double x, double tolerance = 1e-16) {
  if (!(a > 0) || !(x >= 0)) return Float<double>::nan;
  if (x == 0) return 0;
  if (a > 5000) return gamma_sample_grad_large(a, x);
  if (x <= a + 1) {  // F = x f / a * sum, by the power series
    Dual sum{1, 0}, term{1, 0};
    for (int k = 1; k < 4000 && (term.value > tolerance * sum.value || abs(term.slope) > tolerance * abs(sum.slope));
         ++k) {
      const double r = 1 / (a + k);
      term = term * Dual{x * r, -x * r * r};
      sum = sum + term;
    }
    return -x / a * ((log(x) - digamma(a + 1)) * sum.value + sum.slope);
  }
  // 1 - F = x f * fraction
  const Dual upper =
      inverse(continued_fraction({x + 1 - a, -1}, tolerance, [=](int k, Dual& numerator, Dual& denominator) {
        numerator = {-k * (k - a), static_cast<double>(k)};
        denominator = {x + 1 - a + 2 * k, -1};
      }));
  return x * ((log(x) - digamma(a)) * upper.value + upper.slope);
}

/// The incomplete beta function over x^a (1 - x)^b / B(a, b), by the even part of its continued fraction (DiDonato and
/// Morris 1992); quick for x < (a + 1) / (a + b + 2).
FACULA_RARE Dual beta_fraction(Dual a, Dual b, double x, double tolerance) {
  const Dual lambda = a + Dual{-x} * (a + b);
  Dual r = inverse(a + Dual{1});  // 1 / (a + 2 n - 1)
  return inverse(
      continued_fraction(a * (lambda + Dual{1}) * r, tolerance, [&](int k, Dual& numerator, Dual& denominator) {
        const double n = k;
        const Dual p = Dual{n * x} * (b + Dual{-n}) * r;
        numerator = p * Dual{x} * (a + Dual{n - 1}) * (a + b + Dual{n - 1}) * r;
        r = inverse(a + Dual{2 * n + 1});
        denominator = Dual{n} + p + (a + Dual{n}) * (lambda + Dual{1 + n * (2 - x)}) * r;
      }));
}

/// dx/da / (1 - x) of a sample x of the beta distribution with parameters a and total - a, the second one fixed.
/// The derivative of component j of a Dirichlet sample by concentration i is this, with x the component i, times
/// (i == j) - x_j.
FACULA_RARE double dirichlet_grad(double x, double a, double total, double tolerance = 1e-16) {
  const double b = total - a;
  if (!(a > 0) || !(b >= 0) || !(x >= 0) || !(x <= 1)) return Float<double>::nan;
  if (x == 0) return 0;
  if (b == 0) return trigamma(a);  // the limit; reached when total is rounded
  const bool below = x < (a + 1) / (total + 2);
  const Dual part =
      below ? beta_fraction({a, 1}, {b, 0}, x, tolerance) : beta_fraction({b, 0}, {a, 1}, 1 - x, tolerance);
  const double slope = (log(x) - digamma(a) + digamma(total)) * part.value + part.slope;
  return below ? -x * slope : x * slope;
}

FACULA_RARE float gamma_sample_grad(float a, float x) {
  return static_cast<float>(gamma_sample_grad(static_cast<double>(a), static_cast<double>(x), 1e-8));
}
FACULA_RARE float dirichlet_grad(float x, float a, float total) {
  return static_cast<float>(
      dirichlet_grad(static_cast<double>(x), static_cast<double>(a), static_cast<double>(total), 1e-8));
}

}  // namespace facula::kernels
