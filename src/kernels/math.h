// Computes elementary functions of one real number, for every kernel of the library.
//
// All of `src/kernels` is plain scalar code that includes nothing, so that the host compiler and NVRTC read
// the same text. This file is the only one that knows which of the two is reading. The functions that
// element-wise ops spend their time in are branch-free: inside a `#pragma omp simd` loop the compiler turns
// them into vector code (elementary_float.h, elementary_double.h). Rare ones call the C library.
//
// FACULA_FN marks functions to be inlined everywhere, FACULA_RARE larger ones that are called, FACULA_TABLE
// constants. Host flags: -fno-math-errno -fno-trapping-math -ffp-contract=fast, never -ffast-math.
#pragma once

#if defined(__CUDACC_RTC__)
#define FACULA_FN __device__ __forceinline__
#define FACULA_RARE __device__ inline
#define FACULA_LIBM(name) ::name
#define FACULA_TABLE __device__ constexpr
#else
#define FACULA_FN inline __attribute__((always_inline))
#define FACULA_RARE inline
#define FACULA_LIBM(name) __builtin_##name
#define FACULA_TABLE inline constexpr
#endif

namespace facula::kernels {

using Int32 = int;
using UInt32 = unsigned;
using Int64 = long long;
using UInt64 = unsigned long long;

FACULA_FN constexpr UInt32 bits(float x) { return __builtin_bit_cast(UInt32, x); }
FACULA_FN constexpr UInt64 bits(double x) { return __builtin_bit_cast(UInt64, x); }
FACULA_FN constexpr float from_bits(UInt32 u) { return __builtin_bit_cast(float, u); }
FACULA_FN constexpr double from_bits(UInt64 u) { return __builtin_bit_cast(double, u); }

#if defined(__CUDACC_RTC__)
inline constexpr bool on_device = true;
#else
inline constexpr bool on_device = false;
#endif

/// Kernels of CUDA devices, the emulated one among them.
#if defined(__CUDACC_RTC__) || defined(FACULA_EMULATED_KERNEL)
inline constexpr bool for_device = true;
#else
inline constexpr bool for_device = false;
#endif
template <class T>
inline constexpr bool is_device_float = false;
template <>
inline constexpr bool is_device_float<float> = for_device;

#if defined(__CUDACC_RTC__) || defined(FACULA_EMULATED_KERNEL) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;
#endif

// The compile-time facts of a floating-point type, in the place of <limits>.
template <class T>
struct Float;
template <>
struct Float<float> {
  static constexpr float infinity = __builtin_bit_cast(float, 0x7f800000u);
  static constexpr float nan = __builtin_bit_cast(float, 0x7fc00000u);
  static constexpr float epsilon = 0x1p-23f;
  static constexpr float smallest_normal = 0x1p-126f;
  static constexpr float largest = 0x1.fffffep127f;
};
template <>
struct Float<double> {
  static constexpr double infinity = __builtin_bit_cast(double, 0x7ff0000000000000ull);
  static constexpr double nan = __builtin_bit_cast(double, 0x7ff8000000000000ull);
  static constexpr double epsilon = 0x1p-52;
  static constexpr double smallest_normal = 0x1p-1022;
  static constexpr double largest = 0x1.fffffffffffffp1023;
};

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double euler_gamma = 0.57721566490153286061;
inline constexpr double ln_2 = 0.69314718055994530942;
inline constexpr double log2_e = 1.44269504088896340736;
inline constexpr double sqrt_pi = 1.77245385090551602730;
inline constexpr double sqrt_2 = 1.41421356237309504880;

// ---- sign, classification, rounding

FACULA_FN float abs(float x) { return FACULA_LIBM(fabsf)(x); }
FACULA_FN double abs(double x) { return FACULA_LIBM(fabs)(x); }
FACULA_FN float copysign(float x, float y) { return FACULA_LIBM(copysignf)(x, y); }
FACULA_FN double copysign(double x, double y) { return FACULA_LIBM(copysign)(x, y); }
FACULA_FN bool signbit(float x) { return bits(x) >> 31; }
FACULA_FN bool signbit(double x) { return bits(x) >> 63; }

template <class T>
FACULA_FN bool isnan(T x) {
  return x != x;
}
template <class T>
FACULA_FN bool isinf(T x) {
  return abs(x) == Float<T>::infinity;
}
template <class T>
FACULA_FN bool isfinite(T x) {
  return abs(x) < Float<T>::infinity;
}

FACULA_FN float floor(float x) { return FACULA_LIBM(floorf)(x); }
FACULA_FN double floor(double x) { return FACULA_LIBM(floor)(x); }
FACULA_FN float ceil(float x) { return FACULA_LIBM(ceilf)(x); }
FACULA_FN double ceil(double x) { return FACULA_LIBM(ceil)(x); }
FACULA_FN float trunc(float x) { return FACULA_LIBM(truncf)(x); }
FACULA_FN double trunc(double x) { return FACULA_LIBM(trunc)(x); }
/// To the nearest integer, halves to the even one.
FACULA_FN float round_half_even(float x) { return FACULA_LIBM(rintf)(x); }
FACULA_FN double round_half_even(double x) { return FACULA_LIBM(rint)(x); }

// ---- arithmetic

FACULA_FN float sqrt(float x) { return FACULA_LIBM(sqrtf)(x); }
FACULA_FN double sqrt(double x) { return FACULA_LIBM(sqrt)(x); }
template <class T>
FACULA_FN T rsqrt(T x) {
  return T(1) / sqrt(x);
}
#if defined(__CUDACC_RTC__)
template <>
FACULA_FN float rsqrt(float x) {
  return ::rsqrtf(x);  // to two units in the last place
}
#endif

/// a * b + c rounded once. Where the hardware cannot do it this is a call: see mul_add.
FACULA_FN float fma(float a, float b, float c) { return FACULA_LIBM(fmaf)(a, b, c); }
FACULA_FN double fma(double a, double b, double c) { return FACULA_LIBM(fma)(a, b, c); }

/// a * b + c, fused where the hardware can, otherwise rounded twice.
template <class T>
FACULA_FN T mul_add(T a, T b, T c) {
  if constexpr (has_fma) return fma(a, b, c);
  return a * b + c;
}

/// What rounding took from the product: a * b == product + result, exactly.
template <class T>
FACULA_FN T product_error(T a, T b, T product) {
  if constexpr (has_fma) return fma(a, b, -product);
  constexpr T split = sizeof(T) == 8 ? T(0x1p27 + 1) : T(0x1p12 + 1);  // Veltkamp: halves of the significand
  const T a_high = a * split - (a * split - a), b_high = b * split - (b * split - b);
  const T a_low = a - a_high, b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
}

struct SumAndError {
  double sum, error;
};

/// a + b == sum + error, exactly.
FACULA_FN SumAndError exact_sum(double a, double b) {
  const double sum = a + b, b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a * b + c where the product keeps all its digits, with or without fused hardware.
template <class T>
FACULA_FN T exact_mul_add(T a, T b, T c) {
  if constexpr (has_fma) return fma(a, b, c);
  const T product = a * b;
  return (product + c) + product_error(a, b, product);
}

/// Polynomial in x, coefficients from the highest power down.
template <class T>
FACULA_FN T horner(T, T constant) {
  return constant;
}
template <class T, class... Rest>
FACULA_FN T horner(T x, T highest, T next, Rest... rest) {
  return horner(x, mul_add(highest, x, next), rest...);
}

/// The same with even and odd powers apart: two chains of half the length, where waiting is what takes the time.
template <class T>
FACULA_FN T horner_apart(T x, T, T higher, T lower) {
  return mul_add(higher, x, lower);
}
template <class T, class... Rest>
FACULA_FN T horner_apart(T x, T square, T higher, T lower, T next, Rest... rest) {
  return horner_apart(x, square, lower, mul_add(higher, square, next), rest...);
}

/// The smaller (larger) of two, NaN if either is. One instruction for the extremum, and one comparison for both.
template <class T>
FACULA_FN T minimum(T a, T b) {
  const T smaller = b < a ? b : a;
  return (a != a) | (b != b) ? a + b : smaller;
}
template <class T>
FACULA_FN T maximum(T a, T b) {
  const T larger = b > a ? b : a;
  return (a != a) | (b != b) ? a + b : larger;
}
/// The smaller (larger) of two, the other one if one is NaN.
template <class T>
FACULA_FN T fmin(T a, T b) {
  return a != a ? b : (b < a ? b : a);
}
template <class T>
FACULA_FN T fmax(T a, T b) {
  return a != a ? b : (b > a ? b : a);
}
/// x clamped to [low, high]; NaN stays NaN. One instruction per bound.
template <class T>
FACULA_FN T clamp(T x, T low, T high) {
  x = high < x ? high : x;
  return low > x ? low : x;
}

/// Whether the quotient may be wrong by more than one when it is rounded down from a / b, or an operand is 0, infinite
/// or NaN.
template <class T>
FACULA_FN bool quotient_is_hard(T a, T b) {
  constexpr T most = sizeof(T) == 8 ? T(0x1p51) : T(0x1p22);
  constexpr T largest = has_fma ? Float<T>::largest : Float<T>::largest * T(0x1p-28);  // room for product_error
  return !((abs(a) < most * abs(b)) & (abs(b) <= largest));
}
/// C's remainder where the quotient is not hard. a - q b is representable, so the fused product is exact, also where
/// rounding made q one too large.
template <class T>
FACULA_FN T fmod_quick(T a, T b) {
  const T x = abs(a), y = abs(b), q = trunc(x / y), product = q * y;
  const T r = has_fma ? fma(-q, y, x) : (x - product) - product_error(q, y, product);
  return copysign(r < T(0) ? r + y : r, a);
}
/// Remainder with the sign of the dividend (C).
FACULA_FN float fmod(float a, float b) { return quotient_is_hard(a, b) ? FACULA_LIBM(fmodf)(a, b) : fmod_quick(a, b); }
FACULA_FN double fmod(double a, double b) {
  return quotient_is_hard(a, b) ? FACULA_LIBM(fmod)(a, b) : fmod_quick(a, b);
}

/// Remainder with the sign of the divisor (Python's %), from C's.
template <class T>
FACULA_FN T remainder_from(T r, T b) {
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T>
FACULA_FN T remainder(T a, T b) {
  return remainder_from(fmod(a, b), b);
}
template <class T>
FACULA_FN T remainder_quick(T a, T b) {
  return remainder_from(fmod_quick(a, b), b);
}

/// Quotient rounded down, consistent with remainder (Python's //), from C's remainder.
template <class T>
FACULA_FN T floor_quotient(T a, T b, T r) {
  T quotient = (a - r) / b;
  quotient = r != T(0) && (b < T(0)) != (r < T(0)) ? quotient - T(1) : quotient;
  const T whole = floor(quotient);
  return quotient == T(0) ? copysign(T(0), a / b) : (quotient - whole > T(0.5) ? whole + T(1) : whole);
}
/// a / b where b is zero.
template <class T>
FACULA_FN T floor_divide(T a, T b) {
  if (b == T(0)) return a / b;
  return floor_quotient(a, b, fmod(a, b));
}
template <class T>
FACULA_FN T floor_divide_quick(T a, T b) {
  return floor_quotient(a, b, fmod_quick(a, b));
}

/// The neighbor of `from` towards `to`. Without the sign, bit patterns are ordered as the numbers are.
template <class T>
FACULA_FN T nextafter(T from, T to) {
  const bool outwards = (to > from) == (from > T(0));
  const T neighbor = from_bits(bits(from) + (outwards ? 1 : -1));
  const T first = copysign(from_bits(bits(T(0)) + 1), to);  // out of zero
  const T moved = from == T(0) ? first : neighbor;
  return from != from || to != to ? from + to : (from == to ? to : moved);
}
FACULA_FN float ldexp(float x, int exponent) { return FACULA_LIBM(ldexpf)(x, exponent); }
FACULA_FN double ldexp(double x, int exponent) { return FACULA_LIBM(ldexp)(x, exponent); }
FACULA_FN float frexp(float x, int* exponent) { return FACULA_LIBM(frexpf)(x, exponent); }
FACULA_FN double frexp(double x, int* exponent) { return FACULA_LIBM(frexp)(x, exponent); }

/// sqrt(a^2 + b^2) without overflow on the way. float goes through double, which cannot overflow.
FACULA_FN float hypot(float a, float b) {
  const double x = a, y = b;
  const float length = static_cast<float>(sqrt(x * x + y * y));
  return isinf(a) || isinf(b) ? Float<float>::infinity : length;
}
FACULA_FN double hypot(double a, double b) { return FACULA_LIBM(hypot)(a, b); }

}  // namespace facula::kernels

#include "device_math.h"
#include "elementary_double.h"
#include "elementary_float.h"
