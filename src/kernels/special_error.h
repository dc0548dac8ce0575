// Computes the error function's family, in double: scaled and inverse forms, and the normal distribution.
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

/// The first terms of such a series, written out, so that loops over it become vector code.
template <int terms, int count>
FACULA_FN double first_chebyshev_terms(double v, const double (&c)[count], double b1 = 0, double b2 = 0) {
  if constexpr (terms == 1) return v * b1 - b2 + c[0];
  else return first_chebyshev_terms<terms - 1>(v, c, 2 * v * b1 - b2 + c[terms - 1], b1);
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
FACULA_FN double ndtr(double x) { return 0.5 * erfc(-x / sqrt_2); }

/// log(ndtr(x)), also where ndtr(x) is too small for a double.
FACULA_RARE double log_ndtr(double x) {
  const double z = x / sqrt_2;
  if (x < -1) return log(0.5 * erfcx(-z)) - z * z;
  return log1p(-0.5 * erfc(z));
}

/// erfinv(a) / a for a = sqrt(1 - e^-w), 0 <= w < 16.8, to 1.3e-8: fits through Chebyshev nodes in w and sqrt(w).
template <class T>
FACULA_FN T erfinv_ratio(T w) {
  const T s = sqrt(w);
  const T near =
      horner(w - T(2.5), T(-8.93192597e-9), T(2.33359672e-8), T(4.68131348e-7), T(-3.46398527e-6), T(-4.97241969e-6),
             T(0.000218349386), T(-0.00125272639), T(-0.00417739288), T(0.246640279), T(1.50140936));
  const T middle =
      horner(s - T(3), T(0.000111538581), T(-0.000305525051), T(-5.04588529e-5), T(0.00147970395), T(-0.00360090033),
             T(0.00568921629), T(-0.00763648964), T(0.00944499211), T(1.00167491), T(2.83297681));
  return w < T(5) ? near : middle;
}

/// The same for w in [16, 750], to 6e-8, in 1 / sqrt(w); infinite at infinity.
template <class T>
FACULA_FN T erfinv_ratio_far(T w) {
  const T s = sqrt(w);
  return s * horner(T(1) / s, T(-698.924021), T(951.583674), T(-568.502671), T(198.275383), T(-46.4790845),
                    T(8.82893735), T(-1.51995133), T(-0.015175474), T(1.00009451));
}

/// The y >= 0 with erf(y) = a and erfc(y) = q = 1 - a; infinite for q = 0, NaN for negative q.
template <class T>
FACULA_FN T inverse_erf(T a, T q) {
  const T w = -log(q * (T(2) - q));
  const T y = a * (w < T(16.5) ? erfinv_ratio(w) : erfinv_ratio_far(w));
  if constexpr (sizeof(T) == 4) return y;
  // One step of Halley's method cubes the error.
  const T newton = (a < T(0.5) ? erf(y) - a : q - erfc(y)) * T(0.5 * sqrt_pi) * exp(y * y);
  return q > T(0) ? y - newton / (T(1) + y * newton) : y;
}

/// The x with ndtr(x) = p; NaN outside [0, 1].
template <class T>
FACULA_FN T ndtri(T p) {
  const T tail = p < T(0.5) ? p : T(1) - p, q = T(2) * tail;
  const T x = T(sqrt_2) * inverse_erf(T(1) - q, q);
  return p < T(0.5) ? -x : x;
}

/// The y with erf(y) = x; NaN outside [-1, 1].
FACULA_FN double erfinv(double x) {
  const double a = abs(x);
  return copysign(inverse_erf(a, 1 - a), x);
}
FACULA_FN float erfinv(float x) {  // 1 - |x| >= 2^-24 keeps it from the far interval
  const float a = abs(x), y = a * erfinv_ratio(-log((1.0f - a) * (1.0f + a)));
  return copysign(a == 1.0f ? Float<float>::infinity : y, x);
}

FACULA_RARE float erfcx(float x) { return static_cast<float>(erfcx(static_cast<double>(x))); }
/// As erfc(-x / sqrt(2)) / 2, whose exponent -x^2 / 2 is taken with its rounding error.
FACULA_FN float ndtr(float x) {
  const float a = clamp(abs(x), 0.0f, 14.3f), z = a * float(1 / sqrt_2), s = a * a;
  const float low = -0.5f * product_error(a, a, s), scaled = erfc_scaled(z);
  const float e = exp_nonpositive(-0.5f * s, 0.5f);
  const float tail = e * mul_add(scaled, low, scaled);
  const float near = mul_add(0.5f, erf_near_zero(x * float(1 / sqrt_2)), 0.5f);
  return abs(x) < 0.7f ? near : (x < 0.0f ? tail : (x >= 0.0f ? 1.0f - tail : x));
}
FACULA_RARE float log_ndtr(float x) { return static_cast<float>(log_ndtr(static_cast<double>(x))); }

}  // namespace facula::kernels
