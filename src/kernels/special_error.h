// The error function's family: scaled and inverse forms, and the normal distribution. Computed in double.
#pragma once

#include "math.h"

namespace facula::kernels {

/// Sum of c[k] T_k(v), v in [-1, 1], by Clenshaw's recurrence.
template <int count>
FACULA_FN double chebyshev_series(double v, const double (&c)[count]) {
  double b1 = 0, b2 = 0;
  for (int k = count - 1; k > 0; --k) {
    const double b0 = 2 * v * b1 - b2 + c[k];
    b2 = b1;
    b1 = b0;
  }
  return v * b1 - b2 + c[0];
}

/// (1 + 2 x) e^(x^2) erfc(x) in v = (x - 2) / (x + 2), all of [0, infinity].
FACULA_TABLE double erfcx_scaled[] = {
    1.1760066555883004,      0.025779673870048207,    -0.10659315067778503,    0.038808879574483819,
    -0.0054148999308937249,  -0.00040815257282372384, 0.00019843768248553527,  9.8425327760481272e-06,
    -7.7632655610628589e-06, -7.1740014575296825e-07, 3.1406949555818431e-07,  6.188423669546144e-08,
    -9.8906199344922142e-09, -4.5953996225101801e-09, -7.1805877281770856e-11, 2.6296183336364044e-10,
    4.8677340566079039e-11,  -8.0268041937590181e-12, -4.7791335708452981e-12, -4.3470126478464435e-13,
    2.4123142738461942e-13,  8.6109005212772467e-14,  2.5947648983712198e-15,  -5.8722543815010508e-15,
    -1.7019328812344317e-15, 1.3873587121173449e-17,  1.4092174407259632e-16,  3.8412754939993898e-17};

/// e^(x^2) erfc(x).
FACULA_RARE double erfcx(double x) {
  const double a = abs(x);
  const double v = a < 1e300 ? (a - 2) / (a + 2) : 1.0;
  const double scaled = chebyshev_series(v, erfcx_scaled) / (1 + 2 * a);
  if (x != x) return x;
  return x < 0 ? 2 * exp(x * x) - scaled : scaled;
}

/// The normal distribution function.
FACULA_RARE double ndtr(double x) { return 0.5 * erfc(-x / sqrt_2); }

/// log(ndtr(x)), also where ndtr(x) is too small for a double.
FACULA_RARE double log_ndtr(double x) {
  const double z = x / sqrt_2;
  if (x < -1) return log(0.5 * erfcx(-z)) - z * z;
  return log1p(-0.5 * erfc(z));
}

/// The x <= 0 with ndtr(x) = p, for p in (0, 1/2].
FACULA_RARE double lower_ndtri(double p) {
  // Start: Abramowitz and Stegun 26.2.23 (error 4.5e-4). Then Newton's method on log(ndtr(x)) = log(p), where
  // ndtr(x) and its derivative are e^(-x^2/2) times 0.5 * erfcx(-x/sqrt(2)) and 1/sqrt(2 pi).
  const double log_p = log(p), t = sqrt(-2 * log_p);
  double x = horner(t, 0.010328, 0.802853, 2.515517) / horner(t, 0.001308, 0.189269, 1.432788, 1.0) - t;
  constexpr double sqrt_half_pi = 1.25331413731550025121;
  for (int step = 0; step < 3; ++step) {
    const double scaled = erfcx(-x / sqrt_2);
    x -= (log(0.5 * scaled) - 0.5 * x * x - log_p) * (sqrt_half_pi * scaled);
  }
  return x;
}

/// The y with erf(y) = x, for |x| <= 1/2.
FACULA_RARE double erfinv_near_zero(double x) {
  // Two terms of the power series (error 4e-3), then Halley's method, which cubes the error.
  double y = x * (0.5 * sqrt_pi) * (1 + x * x * (pi / 12));
  for (int step = 0; step < 3; ++step) {
    const double newton = (erf(y) - x) * (0.5 * sqrt_pi) * exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return y;
}

/// The x with ndtr(x) = p; NaN outside [0, 1].
FACULA_RARE double ndtri(double p) {
  if (p == 0) return -Float<double>::infinity;
  if (p == 1) return Float<double>::infinity;
  if (!(p > 0 && p < 1)) return Float<double>::nan;
  if (p >= 0.25 && p <= 0.75) return sqrt_2 * erfinv_near_zero(2 * p - 1);
  return p < 0.5 ? lower_ndtri(p) : -lower_ndtri(1 - p);
}

/// The y with erf(y) = x; NaN outside [-1, 1].
FACULA_RARE double erfinv(double x) {
  const double a = abs(x);
  if (a == 1) return copysign(Float<double>::infinity, x);
  if (!(a < 1)) return Float<double>::nan;
  return a <= 0.5 ? erfinv_near_zero(x) : copysign(lower_ndtri(0.5 * (1 - a)) / sqrt_2, x);
}

FACULA_RARE float erfcx(float x) { return static_cast<float>(erfcx(static_cast<double>(x))); }
FACULA_RARE float ndtr(float x) { return static_cast<float>(ndtr(static_cast<double>(x))); }
FACULA_RARE float log_ndtr(float x) { return static_cast<float>(log_ndtr(static_cast<double>(x))); }
FACULA_RARE float ndtri(float p) { return static_cast<float>(ndtri(static_cast<double>(p))); }
FACULA_RARE float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

}  // namespace facula::kernels
