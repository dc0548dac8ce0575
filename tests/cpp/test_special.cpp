// src/kernels/special.h and complex.h: against the C++ library where it has the function, otherwise through
// identities that tie functions of different families together, and at the edges. Exits non-zero if anything
// is off.
#include <cmath>
#include <complex>
#include <limits>

#include "../../src/kernels/complex.h"
#include "../../src/kernels/special.h"
#include "check.h"

namespace k = facula::kernels;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// Fails unless actual is within `tolerance` of expected, relative to the larger of 1e-300 and |expected|.
void check_close(const char* what, double at, double actual, double expected, double tolerance) {
  const bool same = std::isnan(expected) ? std::isnan(actual) : actual == expected;
  if (same || std::fabs(actual - expected) <= tolerance * std::fmax(std::fabs(expected), 1e-300)) return;
  ++failures;
  std::printf("FAILED %s at %.17g: got %.17g, expected %.17g\n", what, at, actual, expected);
}

template <class F>
void sweep(double low, double high, F&& check) {
  for (int i = 0; i <= 1000; ++i) check(low + (high - low) * (i + 0.37) / 1001);
}

void check_error_family() {
  sweep(-0.999, 0.999, [](double x) { check_close("erf(erfinv)", x, k::erf(k::erfinv(x)), x, 1e-14); });
  sweep(0, 1, [](double p) { check_close("ndtr(ndtri)", p, k::ndtr(k::ndtri(p)), p, 1e-14); });
  sweep(-300, -3, [](double e) {
    const double p = std::pow(10.0, e);
    check_close("log_ndtr(ndtri)", p, k::log_ndtr(k::ndtri(p)), std::log(p), 1e-14);
  });
  sweep(-5, 5, [](double x) {
    check_close("erfcx", x, k::erfcx(x),
                static_cast<double>(std::exp(x * static_cast<long double>(x)) * std::erfc(static_cast<long double>(x))),
                2e-15);
    const double upper = 0.5 * std::erfc(x / std::sqrt(2.0));
    check_close("log_ndtr", x, k::log_ndtr(x),
                x < 0 ? std::log(0.5 * std::erfc(-x / std::sqrt(2.0))) : std::log1p(-upper), 1e-13);
  });
  EXPECT(k::erfinv(1.0) == inf && k::erfinv(-1.0) == -inf && std::isnan(k::erfinv(1.5)) && std::isnan(k::erfinv(nan)));
  EXPECT(k::ndtri(0.0) == -inf && k::ndtri(1.0) == inf && k::ndtri(0.5) == 0 && std::isnan(k::ndtri(-0.1)));
  EXPECT(k::erfcx(inf) == 0 && k::erfcx(-30.0) == inf && std::isnan(k::erfcx(nan)));
  EXPECT(std::fabs(k::erfinv(0.5f) - 0.4769363f) < 1e-7f);
}

void check_gamma_family() {
  sweep(0.01, 40, [](double x) {
    check_close("lgamma", x, k::lgamma(x), std::lgamma(x), 1e-14);
    check_close("digamma recurrence", x, k::digamma(x + 1) - 1 / x + 100, k::digamma(x) + 100, 1e-14);
    check_close("digamma as a difference", x, (std::lgamma(x + 1e-4) - std::lgamma(x - 1e-4)) / 2e-4 + 1,
                k::digamma(x) + 1, 5e-2 / x / x + 1e-6);
    check_close("trigamma is zeta(2, x)", x, k::trigamma(x), k::zeta(2.0, x), 1e-13);
    check_close("polygamma(2, x)", x, k::polygamma(2.0, x), -2 * k::zeta(3.0, x), 1e-13);
  });
  sweep(-9.9, -0.1, [](double x) {
    check_close("trigamma reflection", x, k::trigamma(x) - 1 / (x * x), k::trigamma(x + 1), 1e-9);
  });
  check_close("zeta(2, 1)", 1, k::zeta(2.0, 1.0), M_PI * M_PI / 6, 1e-15);
  check_close("zeta(4, 1)", 1, k::zeta(4.0, 1.0), std::pow(M_PI, 4) / 90, 1e-15);
  sweep(0.01, 60, [](double x) {
    check_close("igamma(1, x)", x, k::igamma(1.0, x), -std::expm1(-x), 1e-13);
    check_close("igamma(1/2, x)", x, k::igamma(0.5, x), std::erf(std::sqrt(x)), 1e-13);
    check_close("igammac(1/2, x)", x, k::igammac(0.5, x), std::erfc(std::sqrt(x)), 1e-11);
    // From a to a + 1 the functions change by x^a e^-x / gamma(a + 1); across the switch to the uniform
    // expansion, too.
    const double a = 1999.5, z = a + 6 * (x - 30);
    check_close("igamma step", z, k::igamma(a, z) - k::igamma(a + 1, z) + 1,
                std::exp(a * std::log(z) - z - std::lgamma(a + 1)) + 1, 1e-11);
    check_close("igamma sum", z, k::igamma(a + 1, z) + k::igammac(a + 1, z), 1, 1e-14);
  });
  EXPECT(k::digamma(0.0) == -inf && k::digamma(-0.0) == inf && std::isnan(k::digamma(-3.0)) && k::digamma(inf) == inf);
  EXPECT(k::lgamma(-2.0) == inf && k::lgamma(inf) == inf);
  EXPECT(k::zeta(1.0, 2.0) == inf && std::isnan(k::zeta(0.5, 2.0)) && k::zeta(3.0, -1.0) == inf &&
         std::isnan(k::zeta(2.5, -1.5)));
  EXPECT(std::isnan(k::igamma(0.0, 0.0)) && k::igamma(0.0, 1.0) == 1 && k::igamma(2.0, 0.0) == 0 &&
         k::igamma(2.0, inf) == 1);
  EXPECT(std::isnan(k::igamma(-1.0, 1.0)) && std::isnan(k::igamma(inf, inf)) && k::igammac(inf, 1.0) == 1);
  check_close("mvlgamma", 3, k::mvlgamma(3.0, 2.0), 0.5 * std::log(M_PI) + std::lgamma(3.0) + std::lgamma(2.5), 1e-14);
}

void check_bessel_family() {
  sweep(0.05, 60, [](double x) {
    check_close("i0", x, k::i0(x), std::cyl_bessel_i(0.0, x), 1e-13);
    check_close("i1", -x, k::i1(-x), -std::cyl_bessel_i(1.0, x), 1e-13);
    check_close("k0", x, k::modified_bessel_k0(x), std::cyl_bessel_k(0.0, x), 1e-13);
    check_close("k1", x, k::modified_bessel_k1(x), std::cyl_bessel_k(1.0, x), 1e-13);
    const double wronskian = k::i0e(x) * k::scaled_modified_bessel_k1(x) + k::i1e(x) * k::scaled_modified_bessel_k0(x);
    check_close("I0 K1 + I1 K0", x, wronskian * x, 1, 2e-15);
    const double oscillating = k::bessel_j1(x) * k::bessel_y0(x) - k::bessel_j0(x) * k::bessel_y1(x);
    check_close("J1 Y0 - J0 Y1", x, oscillating * x * M_PI / 2, 1, 1e-13);
    check_close("spherical j0", x, k::spherical_bessel_j0(x), std::sin(x) / x, 1e-15);
    // Airy functions are Bessel functions of order 1/3.
    const double zeta = 2 * std::pow(x / 6, 1.5) / 3;
    check_close("airy_ai", x / 6, k::airy_ai(x / 6), std::sqrt(x / 18) / M_PI * std::cyl_bessel_k(1.0 / 3, zeta),
                1e-12);
    const double minus_third =
        std::cos(M_PI / 3) * std::cyl_bessel_j(1.0 / 3, zeta) - std::sin(M_PI / 3) * std::cyl_neumann(1.0 / 3, zeta);
    const double expected = std::sqrt(x / 6) / 3 * (std::cyl_bessel_j(1.0 / 3, zeta) + minus_third);
    check_close("airy_ai", -x / 6, k::airy_ai(-x / 6) + 2, expected + 2, 1e-12);
  });
  EXPECT(k::i0(0.0) == 1 && k::i1(0.0) == 0 && k::i0e(inf) == 0 && std::isfinite(k::i0(712.0)));
  EXPECT(k::modified_bessel_k0(0.0) == inf && std::isnan(k::modified_bessel_k1(-1.0)) &&
         k::modified_bessel_k0(inf) == 0);
  EXPECT(k::bessel_y0(0.0) == -inf && std::isnan(k::bessel_y1(-1.0)) && std::isnan(k::bessel_j0(inf)));
  EXPECT(k::spherical_bessel_j0(0.0) == 1 && k::spherical_bessel_j0(inf) == 0);
  EXPECT(std::isnan(k::airy_ai(inf)) && k::airy_ai(200.0) == 0);
}

void check_polynomials() {
  for (int n = 0; n < 12; ++n) {
    const double d = n;
    sweep(-0.99, 0.99, [&](double x) {
      const double t = std::acos(x), u = std::acos(2 * x * 0.5);
      check_close("chebyshev_t", x, k::chebyshev_polynomial_t(x, d) + 2, std::cos(n * t) + 2, 1e-13);
      check_close("chebyshev_u", x, k::chebyshev_polynomial_u(x, d) + 50, std::sin((n + 1) * t) / std::sin(t) + 50,
                  1e-12);
      check_close("chebyshev_v", x, k::chebyshev_polynomial_v(x, d) + 50,
                  std::cos((n + 0.5) * u) / std::cos(0.5 * u) + 50, 1e-12);
      check_close("chebyshev_w", x, k::chebyshev_polynomial_w(x, d) + 50,
                  std::sin((n + 0.5) * u) / std::sin(0.5 * u) + 50, 1e-12);
      check_close("shifted t", x, k::shifted_chebyshev_polynomial_t(0.5 * (x + 1), d) + 2, std::cos(n * t) + 2, 1e-12);
      check_close("legendre", x, k::legendre_polynomial_p(x, d) + 2, std::legendre(n, x) + 2, 1e-13);
      check_close("hermite", x, k::hermite_polynomial_h(x, d), std::hermite(n, x), 1e-9);
      check_close("hermite he", x, k::hermite_polynomial_he(x, d) + 1,
                  std::pow(2, -0.5 * n) * std::hermite(n, x / std::sqrt(2.0)) + 1, 1e-9);
      check_close("laguerre", x + 1, k::laguerre_polynomial_l(x + 1, d) + 2, std::laguerre(n, x + 1) + 2, 1e-12);
    });
    const double odd_sign = n % 2 ? -1 : 1;
    EXPECT(k::chebyshev_polynomial_t(-1.0, d) == odd_sign && k::legendre_polynomial_p(-1.0, d) == odd_sign);
    EXPECT(k::chebyshev_polynomial_u(-1.0, d) == odd_sign * (n + 1) && k::chebyshev_polynomial_u(1.0, d) == n + 1);
    EXPECT(k::chebyshev_polynomial_v(-1.0, d) == odd_sign * (2 * n + 1) &&
           k::chebyshev_polynomial_w(1.0, d) == 2 * n + 1);
  }
  EXPECT(k::chebyshev_polynomial_t(0.5, -1.0) == 0 && k::hermite_polynomial_h(0.5, -2.0) == 0 &&
         k::laguerre_polynomial_l(0.5, nan) == 0);
  EXPECT(k::legendre_polynomial_p(0.5, -0.5) == 1 && k::chebyshev_polynomial_t(0.5f, 1.7f) == 0.5f);
  EXPECT(std::isnan(k::chebyshev_polynomial_u(nan, 2.0)) && std::isnan(k::hermite_polynomial_h(0.5, 600.0)));
}

void check_small_functions() {
  EXPECT(k::entr(0.0) == 0 && k::entr(-1.0) == -inf && k::entr(1.0) == 0 && std::isnan(k::entr(nan)));
  EXPECT(k::sinc(0.0) == 1 && std::fabs(k::sinc(0.5) - 2 / M_PI) < 1e-15);
  EXPECT(k::xlogy(0.0, 0.0) == 0 && std::isnan(k::xlogy(0.0, nan)) && k::xlogy(1.0, 0.0) == -inf);
  EXPECT(k::xlog1py(0.0, -1.0) == 0 && std::isnan(k::xlog1py(0.0, nan)) && k::xlog1py(2.0, 1.0) == 2 * k::log1p(1.0));
  EXPECT(k::logit(0.0, -1.0) == -inf && std::isnan(k::logit(2.0, -1.0)) && k::logit(0.0, 0.2) == k::log(0.2 / 0.8));
}

using Standard = std::complex<double>;

struct ComplexFunction {
  const char* name;
  k::Complex128 (*function)(k::Complex128);
  Standard (*reference)(const Standard&);
};

const ComplexFunction complex_functions[] = {
    {"exp", k::exp, std::exp},       {"log", k::log, std::log},       {"log10", k::log10, std::log10},
    {"sqrt", k::sqrt, std::sqrt},    {"sin", k::sin, std::sin},       {"cos", k::cos, std::cos},
    {"tan", k::tan, std::tan},       {"sinh", k::sinh, std::sinh},    {"cosh", k::cosh, std::cosh},
    {"tanh", k::tanh, std::tanh},    {"asinh", k::asinh, std::asinh}, {"acosh", k::acosh, std::acosh},
    {"atanh", k::atanh, std::atanh}, {"asin", k::asin, std::asin},    {"acos", k::acos, std::acos},
    {"atan", k::atan, std::atan},
};

void check_complex() {
  const double parts[] = {0.0, -0.0, 1e-8, 0.3, -0.7, 1, -1, 2.5, -20, 700, 1e10, inf, -inf};
  for (const ComplexFunction& f : complex_functions) {
    for (double re : parts) {
      for (double im : parts) {
        const k::Complex128 actual = f.function({re, im});
        const Standard expected = f.reference({re, im});
        if (!std::isfinite(expected.real()) || !std::isfinite(expected.imag())) {
          check_close(f.name, re, std::fabs(actual.re), std::fabs(expected.real()), 1e-14);
          check_close(f.name, im, std::fabs(actual.im), std::fabs(expected.imag()), 1e-14);
          continue;
        }
        const double error = std::abs(Standard{actual.re, actual.im} - expected);
        const bool signs = std::signbit(actual.re) == std::signbit(expected.real()) &&
                           std::signbit(actual.im) == std::signbit(expected.imag());
        if (error <= 4e-15 * std::abs(expected) && signs) continue;
        ++failures;
        std::printf("FAILED %s(%g, %g): got (%.17g, %.17g), expected (%.17g, %.17g)\n", f.name, re, im, actual.re,
                    actual.im, expected.real(), expected.imag());
      }
    }
  }
  const k::Complex128 a{1.5, -2}, b{0.25, 3};
  EXPECT(k::abs((a / b) * b - a) < 1e-15 && k::abs(k::reciprocal(a) * a - 1.0) < 1e-15 &&
         k::abs(k::square(a) - a * a) < 1e-15);
  EXPECT(k::isinf((a / k::Complex128{0, 0}).re) &&
         k::abs(k::Complex128{1e300, 1e300} / k::Complex128{1e300, 1e300} - 1.0) == 0);
  EXPECT(k::abs(k::pow(a, b) - k::exp(b * k::log(a))) < 1e-15 &&
         k::pow(k::Complex128{0, 0}, a) == (k::Complex128{0, 0}));
  EXPECT(k::pow(k::Complex128{0, 0}, {0, 0}) == (k::Complex128{1, 0}));
  EXPECT(k::abs(k::expm1(k::Complex128{1e-12, 1e-12}) - k::Complex128{1e-12, 1e-12}) < 2e-24);
  EXPECT(k::abs(k::log1p(k::Complex128{1e-12, 1e-12}) - k::Complex128{1e-12, 1e-12}) < 2e-24);
  EXPECT(k::abs(k::sigmoid(a) + k::sigmoid(-a) - 1.0) < 1e-15 && k::sgn(k::Complex128{0, 0}) == (k::Complex128{0, 0}));
  EXPECT(k::abs(k::Complex64{3, 4}) == 5 && k::arg(k::Complex128{-1, 0}) == M_PI && k::conj(a).im == 2);
}

}  // namespace

int main() {
  check_error_family();
  check_gamma_family();
  check_bessel_family();
  check_polynomials();
  check_small_functions();
  check_complex();
  std::printf("%d failures\n", failures.load());
  return failures != 0;
}
