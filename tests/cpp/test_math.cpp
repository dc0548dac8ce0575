// Errors in units in the last place (ULP) of src/kernels/math.h, and its values at the edges.
//
// float32 functions are compared with the C library's long double ones on samples of all bit patterns and of
// the interval where each function bends; float64 functions with the long double ones, or libquadmath's where
// 64 bits of significand are too few. Prints one line per function; exits non-zero if a bound is exceeded or
// an edge is wrong.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "../../src/kernels/math.h"
#include "check.h"
#include "units.h"

namespace k = facula::kernels;

namespace {

template <class T>
constexpr T inf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();

/// A reproducible sequence of 64-bit words (SplitMix64).
struct Words {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  template <class T>
  T any_bits();
  double uniform(double low, double high) { return low + (high - low) * (next() >> 11) * 0x1p-53; }
};
template <>
float Words::any_bits<float>() {
  return k::from_bits(static_cast<k::UInt32>(next()));
}
template <>
double Words::any_bits<double>() {
  return k::from_bits(static_cast<k::UInt64>(next()));
}

template <class T>
constexpr T edges[] = {T(0),
                       -T(0),
                       T(1),
                       T(-1),
                       T(0.5),
                       T(-0.5),
                       T(2),
                       T(-2),
                       T(1e10),
                       T(-1e10),
                       inf<T>,
                       -inf<T>,
                       nan<T>,
                       std::numeric_limits<T>::min(),
                       -std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::denorm_min(),
                       -std::numeric_limits<T>::denorm_min(),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::lowest()};

constexpr int sample_count = 400'000;

/// The bounds below are for fused multiply-add; without it polynomials round more often.
constexpr double without_fma = k::has_fma ? 1 : 1.6;

template <class T>
struct Unary {
  const char* name;
  T (*function)(T);
  long double (*reference)(long double);
  double low, high;  // where half of the samples are taken; the other half is any bit pattern
  double bound;      // in ULP
};

template <class T>
void check_unary(const Unary<T>& f) {
  Words words{42};
  long double worst = 0;
  T worst_at = 0;
  auto look = [&](T x) {
    const long double error = error_in_ulp(f.function(x), f.reference(x));
    if (error > worst) worst = error, worst_at = x;
  };
  for (T x : edges<T>) look(x);
  for (int i = 0; i < sample_count; ++i) look(i % 2 ? words.any_bits<T>() : T(words.uniform(f.low, f.high)));
  std::printf("%-8s f%-2d %8.3Lf ULP at %.17g\n", f.name, int(sizeof(T) * 8), worst, double(worst_at));
  if (!(worst <= f.bound * without_fma)) {
    ++failures;
    std::printf("FAILED %s: more than %.2f ULP: got %.9g, expected %.9Lg\n", f.name, f.bound,
                double(f.function(worst_at)), f.reference(worst_at));
  }
}

template <class T>
struct Binary {
  const char* name;
  T (*function)(T, T);
  long double (*reference)(long double, long double);
  double low, high;
  double bound;
};

template <class T>
void check_binary(const Binary<T>& f) {
  Words words{43};
  long double worst = 0;
  T worst_x = 0, worst_y = 0;
  auto look = [&](T x, T y) {
    const long double error = error_in_ulp(f.function(x, y), f.reference(x, y));
    if (error > worst) worst = error, worst_x = x, worst_y = y;
  };
  for (T x : edges<T>)
    for (T y : edges<T>) look(x, y);
  for (int x = -3; x <= 3; ++x)
    for (int y = -5; y <= 5; ++y) look(T(x), T(y));
  for (int i = 0; i < sample_count; ++i) {
    if (i % 2) look(words.any_bits<T>(), words.any_bits<T>());
    else look(T(words.uniform(f.low, f.high)), T(words.uniform(f.low, f.high)));
  }
  std::printf("%-8s f%-2d %8.3Lf ULP at %.17g, %.17g\n", f.name, int(sizeof(T) * 8), worst, double(worst_x),
              double(worst_y));
  if (!(worst <= f.bound * without_fma)) {
    ++failures;
    std::printf("FAILED %s: more than %.2f ULP: got %.9g, expected %.9Lg\n", f.name, f.bound,
                double(f.function(worst_x, worst_y)), f.reference(worst_x, worst_y));
  }
}

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double rsqrt(long double x) { return 1 / std::sqrt(x); }
long double round_half_even(long double x) { return std::nearbyint(x); }
// x87's argument reduction is exact in glibc's sinl and cosl, for every long double.

template <class T>
const Unary<T> unary_functions[] = {
    {"exp", k::exp, std::exp, -100, 90, 1.5},    {"exp2", k::exp2, std::exp2, -150, 128, 2},
    {"expm1", k::expm1, std::expm1, -2, 2, 2},   {"sigmoid", k::sigmoid, sigmoid, -20, 20, 3},
    {"tanh", k::tanh, std::tanh, -2, 2, 2.5},    {"sinh", k::sinh, std::sinh, -3, 3, 3},
    {"cosh", k::cosh, std::cosh, -3, 3, 2.5},    {"log", k::log, std::log, 0, 3, 1.5},
    {"log2", k::log2, std::log2, 0, 3, 2},       {"log10", k::log10, std::log10, 0, 3, 2.5},
    {"log1p", k::log1p, std::log1p, -1, 2, 1.5}, {"asinh", k::asinh, std::asinh, -3, 3, 3.5},
    {"acosh", k::acosh, std::acosh, 1, 5, 3.5},  {"atanh", k::atanh, std::atanh, -1, 1, 3.5},
    {"sin", k::sin, std::sin, -10, 10, 1.5},     {"cos", k::cos, std::cos, -10, 10, 1.5},
    {"tan", k::tan, std::tan, -10, 10, 3},       {"asin", k::asin, std::asin, -1, 1, 3},
    {"acos", k::acos, std::acos, -1, 1, 3},      {"atan", k::atan, std::atan, -5, 5, 2},
    {"erf", k::erf, std::erf, -4, 4, 2},         {"erfc", k::erfc, std::erfc, -4, 10, 4},
    {"sqrt", k::sqrt, std::sqrt, 0, 10, 0.5001}, {"rsqrt", k::rsqrt<T>, rsqrt, 0, 10, 1.5},
    {"floor", k::floor, std::floor, -10, 10, 0}, {"ceil", k::ceil, std::ceil, -10, 10, 0},
    {"trunc", k::trunc, std::trunc, -10, 10, 0}, {"round", k::round_half_even, round_half_even, -10, 10, 0},
};

template <class T>
const Binary<T> binary_functions[] = {
    {"pow", k::pow, std::pow, 0, 20, 1.0},
    {"atan2", k::atan2, std::atan2, -5, 5, 2.5},
    {"hypot", k::hypot, std::hypot, -5, 5, 1.0},
    {"fmod", k::fmod, std::fmod, -5, 5, 0},
};

/// Multiples of pi/2 that come closest to a float, and the ends of quarter_turns' bands.
void check_range_reduction() {
  const float near_multiple[] = {16367173.0f * 0x1p72f,
                                 0x1p50f,
                                 0x1p77f,
                                 0x1p104f,
                                 k::nextafter(0x1p77f, 0.0f),
                                 k::nextafter(0x1p50f, 0.0f),
                                 k::nextafter(0x1p104f, 0.0f),
                                 0x1.fffffep127f};
  for (float x : near_multiple) {
    EXPECT(error_in_ulp(k::sin(x), std::sin(static_cast<long double>(x))) < 1.5L * without_fma);
    EXPECT(error_in_ulp(k::cos(x), std::cos(static_cast<long double>(x))) < 1.5L * without_fma);
  }
  const double near_multiple_double[] = {6381956970095103.0 * 0x1p797, 5319372648326541.0 * 0x1p-48, 0x1p32, 0x1p1000,
                                         1e22};
  for (double x : near_multiple_double) {
    EXPECT(error_in_ulp(k::sin(x), std::sin(static_cast<long double>(x))) < 1.5L * without_fma);
    EXPECT(error_in_ulp(k::cos(x), std::cos(static_cast<long double>(x))) < 1.5L * without_fma);
  }
}

template <class T>
void check_comparisons_and_remainders() {
  EXPECT(std::isnan(k::minimum(nan<T>, T(1))) && std::isnan(k::minimum(T(1), nan<T>)));
  EXPECT(std::isnan(k::maximum(nan<T>, T(1))) && std::isnan(k::maximum(T(1), nan<T>)));
  EXPECT(k::minimum(T(1), T(2)) == T(1) && k::maximum(T(1), T(2)) == T(2));
  EXPECT(k::fmin(nan<T>, T(1)) == T(1) && k::fmin(T(1), nan<T>) == T(1));
  EXPECT(k::fmax(nan<T>, T(1)) == T(1) && k::fmax(T(1), nan<T>) == T(1));
  EXPECT(std::isnan(k::clamp(nan<T>, T(0), T(1))) && k::clamp(T(3), T(0), T(1)) == T(1));
  EXPECT(k::remainder(T(-7), T(3)) == T(2) && k::remainder(T(7), T(-3)) == T(-2) &&
         std::isnan(k::remainder(T(1), T(0))));
  EXPECT(k::floor_divide(T(-7), T(3)) == T(-3) && k::floor_divide(T(7), T(-3)) == T(-3));
  EXPECT(k::floor_divide(T(1), T(0)) == inf<T> && k::floor_divide(T(6), T(3)) == T(2));
  EXPECT(k::isnan(nan<T>) && !k::isnan(inf<T>) && k::isinf(-inf<T>) && !k::isinf(nan<T>) && !k::isfinite(nan<T>));
  EXPECT(k::signbit(-T(0)) && !k::signbit(T(0)));
  EXPECT(k::nextafter(T(1), T(2)) == T(1) + std::numeric_limits<T>::epsilon());
  int exponent = 0;
  EXPECT(k::frexp(T(12), &exponent) == T(0.75) && exponent == 4 && k::ldexp(T(0.75), 4) == T(12));
}

template <class T>
void check_all() {
  for (const auto& f : unary_functions<T>) check_unary(f);
  for (const auto& f : binary_functions<T>) check_binary(f);
  check_comparisons_and_remainders<T>();
}

}  // namespace

int main() {
  check_all<float>();
  check_all<double>();
  check_range_reduction();
  std::printf("%d failures\n", failures.load());
  return failures != 0;
}
