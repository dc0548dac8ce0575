// Defines complex numbers and their elementary functions.
//
// Edges (infinities, NaN, signed zeros, branch cuts) follow Annex G of the C standard. The functions are
// stated once, in double; float32 goes through double, where none of the intermediate overflows can happen.
#pragma once

#include "math.h"

namespace facula::kernels {

/// Laid out like std::complex<T> and NumPy's complex types.
template <class T>
struct Complex {
  using Real = T;
  T re, im;

  FACULA_FN Complex& operator+=(Complex z) { return *this = {re + z.re, im + z.im}; }
  FACULA_FN Complex& operator-=(Complex z) { return *this = {re - z.re, im - z.im}; }
  FACULA_FN Complex& operator*=(Complex z) { return *this = *this * z; }
  FACULA_FN Complex& operator/=(Complex z) { return *this = *this / z; }

  friend FACULA_FN Complex operator+(Complex z) { return z; }
  friend FACULA_FN Complex operator-(Complex z) { return {-z.re, -z.im}; }
  friend FACULA_FN Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend FACULA_FN Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend FACULA_FN Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend FACULA_FN Complex operator+(Complex z, T r) { return {z.re + r, z.im}; }
  friend FACULA_FN Complex operator+(T r, Complex z) { return {r + z.re, z.im}; }
  friend FACULA_FN Complex operator-(Complex z, T r) { return {z.re - r, z.im}; }
  friend FACULA_FN Complex operator-(T r, Complex z) { return {r - z.re, -z.im}; }
  friend FACULA_FN Complex operator*(Complex z, T r) { return {z.re * r, z.im * r}; }
  friend FACULA_FN Complex operator*(T r, Complex z) { return {r * z.re, r * z.im}; }
  friend FACULA_FN Complex operator/(Complex z, T r) { return {z.re / r, z.im / r}; }
  friend FACULA_FN bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
  friend FACULA_FN bool operator!=(Complex a, Complex b) { return !(a == b); }

  /// Smith's method, as NumPy has it: no overflow where the quotient is finite; a finite number over 0 is
  /// infinite.
  friend FACULA_FN Complex operator/(Complex a, Complex b) {
    const bool tall = kernels::abs(b.re) < kernels::abs(b.im);
    const T large = tall ? b.im : b.re, small = tall ? b.re : b.im;
    const T ratio = small / large, scale = T(1) / (large + small * ratio);
    const T re = tall ? a.re * ratio + a.im : a.re + a.im * ratio;
    const T im = tall ? a.im * ratio - a.re : a.im - a.re * ratio;
    const bool zero = b.re == T(0) && b.im == T(0);
    return {zero ? a.re / kernels::abs(b.re) : re * scale, zero ? a.im / kernels::abs(b.re) : im * scale};
  }
  friend FACULA_FN Complex operator/(T r, Complex z) { return Complex{r, T(0)} / z; }
};

using Complex64 = Complex<float>;
using Complex128 = Complex<double>;

// ---- parts and predicates

template <class T>
FACULA_FN Complex<T> conj(Complex<T> z) {
  return {z.re, -z.im};
}
template <class T>
FACULA_FN T real(Complex<T> z) {
  return z.re;
}
template <class T>
FACULA_FN T imag(Complex<T> z) {
  return z.im;
}
template <class T>
FACULA_FN T abs(Complex<T> z) {
  return hypot(z.re, z.im);
}
/// Angle in (-pi, pi].
template <class T>
FACULA_FN T arg(Complex<T> z) {
  return atan2(z.im, z.re);
}
template <class T>
FACULA_FN bool isnan(Complex<T> z) {
  return isnan(z.re) || isnan(z.im);
}
template <class T>
FACULA_FN bool isinf(Complex<T> z) {
  return isinf(z.re) || isinf(z.im);
}
template <class T>
FACULA_FN bool isfinite(Complex<T> z) {
  return isfinite(z.re) && isfinite(z.im);
}
/// z / |z|, 0 at 0.
template <class T>
FACULA_FN Complex<T> sgn(Complex<T> z) {
  const T length = abs(z);
  return length == T(0) ? Complex<T>{T(0), T(0)} : z / length;
}
template <class T>
FACULA_FN Complex<T> square(Complex<T> z) {
  return {(z.re - z.im) * (z.re + z.im), T(2) * z.re * z.im};
}
template <class T>
FACULA_FN Complex<T> reciprocal(Complex<T> z) {
  return T(1) / z;
}

FACULA_FN Complex128 widen(Complex64 z) { return {z.re, z.im}; }
FACULA_FN Complex64 narrow(Complex128 z) { return {static_cast<float>(z.re), static_cast<float>(z.im)}; }

FACULA_FN Complex128 times_i(Complex128 z) { return {-z.im, z.re}; }
FACULA_FN Complex128 over_i(Complex128 z) { return {z.im, -z.re}; }

// ---- exponential and logarithm

inline constexpr double exp_overflows = 709;

FACULA_RARE Complex128 exp(Complex128 z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (isinf(z.re) && !isfinite(z.im))
    return z.re < 0 ? Complex128{0, copysign(0.0, z.im)} : Complex128{z.re, Float<double>::nan};
  const double c = cos(z.im), s = sin(z.im);
  if (z.re == -Float<double>::infinity) return {copysign(0.0, c), copysign(0.0, s)};
  if (z.re <= exp_overflows) {
    const double e = exp(z.re);
    return {e * c, e * s};
  }
  const double root = exp(0.5 * z.re);  // in two factors: e^x may overflow where e^x cos(y) does not
  return {root * c * root, root * s * root};
}

/// e^z - 1.
FACULA_RARE Complex128 expm1(Complex128 z) {
  if (!isfinite(z) || z.re > 1) return exp(z) - 1.0;
  const double half_sine = sin(0.5 * z.im), e = expm1(z.re);
  return {e * cos(z.im) - 2 * half_sine * half_sine, (e + 1) * sin(z.im)};
}

/// log(x^2 + y^2) / 2, accurate also where |z| is near 1 and where the squares would leave the range.
FACULA_RARE double log_abs(double x, double y) {
  x = abs(x);
  y = abs(y);
  if (isinf(x) || isinf(y)) return Float<double>::infinity;
  const double a = maximum(x, y), b = minimum(x, y);
  if (a > 0.5 && a < 2) {
    const double a2 = a * a, b2 = b * b;
    const double lost = product_error(a, a, a2) + product_error(b, b, b2);
    return 0.5 * log1p(((a2 - 1) + b2) + lost);
  }
  if (a > 0x1p1000) return log(hypot(0.5 * a, 0.5 * b)) + ln_2;
  if (a < 0x1p-1000) return log(hypot(0x1p100 * a, 0x1p100 * b)) - 100 * ln_2;
  return log(hypot(a, b));
}

FACULA_RARE Complex128 log(Complex128 z) { return {log_abs(z.re, z.im), atan2(z.im, z.re)}; }
FACULA_RARE Complex128 log2(Complex128 z) { return log(z) * log2_e; }
FACULA_RARE Complex128 log10(Complex128 z) { return log(z) * 0.43429448190325182765; }
FACULA_RARE Complex128 log1p(Complex128 z) {
  const double angle = atan2(z.im, 1 + z.re);
  if (abs(z.re) + abs(z.im) > 0.5 || isnan(z)) return {log_abs(1 + z.re, z.im), angle};
  return {0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), angle};
}
FACULA_RARE Complex128 exp2(Complex128 z) { return exp(z * ln_2); }

FACULA_RARE Complex128 sigmoid(Complex128 z) { return 1.0 / (1.0 + exp(-z)); }

// ---- powers

/// The root with a non-negative real part.
FACULA_RARE Complex128 sqrt(Complex128 z) {
  const double inf = Float<double>::infinity;
  if (z.re == 0 && z.im == 0) return {0, z.im};
  if (isinf(z.im)) return {inf, z.im};
  if (z.re == inf) return {inf, isnan(z.im) ? z.im : copysign(0.0, z.im)};
  if (z.re == -inf) return {isnan(z.im) ? z.im : 0, copysign(inf, z.im)};
  const double largest = fmax(abs(z.re), abs(z.im));
  const double scale = largest > 0x1p1020 ? 0x1p-4 : (largest < 0x1p-960 ? 0x1p120 : 1.0);  // an even power of two
  const double x = abs(z.re) * scale, y = z.im * scale;
  const double unscale = scale == 1.0 ? 1.0 : (scale < 1 ? 0x1p2 : 0x1p-60);
  const double root = sqrt(0.5 * (x + hypot(x, y))), other = 0.5 * abs(y) / root;
  const Complex128 result = z.re < 0 ? Complex128{other, copysign(root, y)} : Complex128{root, copysign(other, y)};
  return result * unscale;
}

FACULA_RARE Complex128 rsqrt(Complex128 z) { return 1.0 / sqrt(z); }

/// z^w = e^(w log z); 1 where w is 0, 0 where z is 0 and w has a positive real part.
FACULA_RARE Complex128 pow(Complex128 z, Complex128 w) {
  if (w.re == 0 && w.im == 0) return {1, 0};
  if (z.re == 0 && z.im == 0 && w.re > 0) return {0, 0};
  if (w.re == 2 && w.im == 0) return square(z);
  return exp(w * log(z));
}

// ---- hyperbolic functions

FACULA_RARE Complex128 sinh(Complex128 z) {
  const double x = z.re, y = z.im;
  if (y == 0) return {sinh(x), y};
  if (!isfinite(y)) {
    if (x == 0 || isinf(x)) return {x, Float<double>::nan};
    return {Float<double>::nan, Float<double>::nan};
  }
  if (abs(x) <= exp_overflows) return {sinh(x) * cos(y), cosh(x) * sin(y)};
  const double root = exp(0.5 * abs(x));
  return {copysign(0.5 * root, x) * cos(y) * root, 0.5 * root * sin(y) * root};
}

FACULA_RARE Complex128 cosh(Complex128 z) {
  const double x = z.re, y = z.im;
  if (y == 0) return {cosh(x), copysign(0.0, x) * y};
  if (x == 0) return {cos(y), isfinite(y) ? x * sin(y) : 0.0};
  if (isinf(x) && !isfinite(y)) return {Float<double>::infinity, Float<double>::nan};
  if (abs(x) <= exp_overflows) return {cosh(x) * cos(y), sinh(x) * sin(y)};
  const double root = exp(0.5 * abs(x));
  return {0.5 * root * cos(y) * root, copysign(0.5 * root, x) * sin(y) * root};
}

FACULA_RARE Complex128 tanh(Complex128 z) {
  const double x = z.re, y = z.im;
  if (y == 0) return {tanh(x), y};
  if (isinf(x)) return {copysign(1.0, x), copysign(0.0, isfinite(y) ? sin(2 * y) : y)};
  if (!isfinite(y)) return {x == 0 ? x : Float<double>::nan, Float<double>::nan};
  if (abs(x) > 22) return {copysign(1.0, x), 4 * sin(y) * cos(y) * exp(-2 * abs(x))};
  // Kahan's form, which has no cancellation.
  const double t = tan(y), beta = 1 + t * t, s = sinh(x), rho = sqrt(1 + s * s);
  const double denominator = 1 + beta * s * s;
  return {beta * rho * s / denominator, t / denominator};
}

/// log(2 (x + iy)): what the inverse functions tend to where squares would overflow.
FACULA_RARE Complex128 log_of_double(double x, double y) { return {log_abs(x, y) + ln_2, atan2(y, x)}; }

inline constexpr double square_overflows = 0x1p500;

/// The inverses are Kahan's: square roots of 1 - z and 1 + z keep full accuracy near the branch points.
FACULA_RARE Complex128 asinh(Complex128 z) {
  const double x = z.re, y = z.im;
  if (isnan(z) && !isinf(z)) return {Float<double>::nan, y == 0 ? y : Float<double>::nan};
  if (abs(x) > square_overflows || abs(y) > square_overflows) {
    const Complex128 w = log_of_double(abs(x), y);
    return {copysign(w.re, x), w.im};
  }
  const Complex128 minus = sqrt(Complex128{1 + y, -x}), plus = sqrt(Complex128{1 - y, x});  // of 1 - iz, 1 + iz
  return {asinh(plus.im * minus.re - plus.re * minus.im), atan2(y, plus.re * minus.re - plus.im * minus.im)};
}

FACULA_RARE Complex128 acos(Complex128 z) {
  const double x = z.re, y = z.im;
  if (isnan(z) && !isinf(z)) return {x == 0 ? pi / 2 : Float<double>::nan, Float<double>::nan};
  if (abs(x) > square_overflows || abs(y) > square_overflows) {
    const Complex128 w = log_of_double(x, abs(y));
    return {w.im, -copysign(w.re, y)};
  }
  const Complex128 minus = sqrt(Complex128{1 - x, -y}), plus = sqrt(Complex128{1 + x, y});
  return {2 * atan2(minus.re, plus.re), asinh(plus.re * minus.im - plus.im * minus.re)};
}

FACULA_RARE Complex128 acosh(Complex128 z) {
  const Complex128 w = acos(z);  // acosh(z) is i acos(z) or -i acos(z), whichever has a non-negative real part
  return signbit(w.im) ? Complex128{-w.im, w.re} : Complex128{w.im, -w.re};
}

FACULA_RARE Complex128 atanh(Complex128 z) {
  const double x = z.re, y = z.im;
  if (isnan(z) && !isinf(z)) return {x == 0 ? x : Float<double>::nan, Float<double>::nan};
  if (isinf(z) || abs(x) > square_overflows || abs(y) > square_overflows) {
    const double re = isfinite(z) ? (abs(x) > abs(y) ? 1 / x / (1 + y / x * (y / x)) : x / y / (y + x / y * x)) : 0.0;
    return {copysign(re, x), isnan(y) ? y : copysign(pi / 2, y)};
  }
  const double a = abs(x), to_one = 1 - a;
  const bool at_pole = to_one == 0 && abs(y) < 1e-100;  // there y^2 would be lost
  const double re = at_pole ? 0.5 * (ln_2 - log(abs(y))) : 0.25 * log1p(4 * a / (to_one * to_one + y * y));
  return {copysign(re, x), 0.5 * atan2(2 * y, to_one * (1 + a) - y * y)};
}

// ---- trigonometric functions, through i z

FACULA_RARE Complex128 sin(Complex128 z) { return over_i(sinh(times_i(z))); }
FACULA_RARE Complex128 cos(Complex128 z) { return cosh(times_i(z)); }
FACULA_RARE Complex128 tan(Complex128 z) { return over_i(tanh(times_i(z))); }
FACULA_RARE Complex128 asin(Complex128 z) { return over_i(asinh(times_i(z))); }
FACULA_RARE Complex128 atan(Complex128 z) { return over_i(atanh(times_i(z))); }

#define FACULA_IN_DOUBLE(name) \
  FACULA_RARE Complex64 name(Complex64 z) { return narrow(name(widen(z))); }
FACULA_IN_DOUBLE(exp)
FACULA_IN_DOUBLE(expm1)
FACULA_IN_DOUBLE(exp2)
FACULA_IN_DOUBLE(log)
FACULA_IN_DOUBLE(log2)
FACULA_IN_DOUBLE(log10)
FACULA_IN_DOUBLE(log1p)
FACULA_IN_DOUBLE(sigmoid)
FACULA_IN_DOUBLE(sqrt)
FACULA_IN_DOUBLE(rsqrt)
FACULA_IN_DOUBLE(sinh)
FACULA_IN_DOUBLE(cosh)
FACULA_IN_DOUBLE(tanh)
FACULA_IN_DOUBLE(asinh)
FACULA_IN_DOUBLE(acosh)
FACULA_IN_DOUBLE(atanh)
FACULA_IN_DOUBLE(sin)
FACULA_IN_DOUBLE(cos)
FACULA_IN_DOUBLE(tan)
FACULA_IN_DOUBLE(asin)
FACULA_IN_DOUBLE(acos)
FACULA_IN_DOUBLE(atan)
#undef FACULA_IN_DOUBLE
FACULA_RARE Complex64 pow(Complex64 z, Complex64 w) { return narrow(pow(widen(z), widen(w))); }

}  // namespace facula::kernels
