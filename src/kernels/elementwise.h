// Defines the scalar functions of ops/elementwise.yaml that are not in math.h and complex.h.
//
// T is the compute type: float, double, Complex<float>, Complex<double>, an integer type or bool. Integer
// arithmetic wraps around. Where two values are possible both are computed and one is picked, so that the
// loops vectorize.
#pragma once

#include "complex.h"
#include "math.h"

namespace facula::kernels {

/// Integer types and bool; among the compute types only these have a remainder operator.
template <class T>
concept Integer = requires(T x) { x % x; };

template <class T>
concept Real = requires(T x) { x < x; };

template <Integer T>
inline constexpr bool is_signed = T(-1) < T(0);

template <Integer T>
inline constexpr int bit_width = 8 * sizeof(T);

// ---- sign and magnitude

template <class T>
FACULA_FN T neg(T self) {
  return static_cast<T>(-self);
}
/// Through UInt64, where the lowest number of a type wraps to itself instead of overflowing.
template <Integer T>
FACULA_FN T neg(T self) {
  return static_cast<T>(UInt64(0) - static_cast<UInt64>(self));
}

template <Integer T>
FACULA_FN T abs(T self) {
  return self < T(0) ? neg(self) : self;
}

template <Real T>
FACULA_FN T sign(T self) {
  return static_cast<T>((T(0) < self) - (self < T(0)));
}
template <Real T>
FACULA_FN T sgn(T self) {
  return sign(self);
}

template <Integer T>
FACULA_FN bool signbit(T self) {
  return self < T(0);
}

template <class T>
FACULA_FN T zero(T) {
  return T(0);
}

template <class T>
FACULA_FN Complex<T> make_complex(T re, T im) {
  return {re, im};
}

template <class T>
FACULA_FN T reciprocal(T self) {
  return T(1) / self;
}

template <Real T>
FACULA_FN T conj(T self) {
  return self;
}

template <Real T>
FACULA_FN T angle(T self) {
  const T side = self < T(0) ? T(pi) : T(0);
  return isnan(self) ? self : side;
}

template <class R>
FACULA_FN R angle(Complex<R> self) {
  return arg(self);
}

// ---- rounding

template <Integer T>
FACULA_FN T floor(T self) {
  return self;
}
template <Integer T>
FACULA_FN T ceil(T self) {
  return self;
}
template <Integer T>
FACULA_FN T trunc(T self) {
  return self;
}
template <Integer T>
FACULA_FN T round_half_even(T self) {
  return self;
}

template <class T>
FACULA_FN T frac(T self) {
  return self - trunc(self);
}

/// One of up and down is 1: a power of ten is exact where its inverse is not, so one divides and never
/// multiplies by it.
template <class T>
FACULA_FN T round_scaled(T self, T up, T down) {
  return round_half_even(self * up / down) * down / up;
}

// ---- products, powers and logarithms

template <class T>
FACULA_FN T mul(T self, T other) {
  return static_cast<T>(self * other);
}
/// Integers wrap around, as unsigned ones do.
template <Integer T>
FACULA_FN T mul(T self, T other) {
  return static_cast<T>(static_cast<UInt64>(self) * static_cast<UInt64>(other));
}
template <>
FACULA_FN bool mul<bool>(bool self, bool other) {
  return self && other;
}

template <class T>
FACULA_FN T cube(T self) {
  return mul(mul(self, self), self);
}
template <class T>
FACULA_FN T square(T self) {
  return mul(self, self);
}

template <class T>
FACULA_FN T distance_root(T self) {
  return sqrt(self < T(0) ? T(0) : self);
}

/// By repeated squaring. A negative exponent leaves 1 or -1 for these bases and 0, the truncated fraction,
/// for others.
template <Integer T>
FACULA_FN T pow(T self, T exponent) {
  if (exponent < T(0)) {
    if (self == T(1)) return T(1);
    if (!is_signed<T> || self != T(-1)) return T(0);
    return (exponent & T(1)) ? T(-1) : T(1);
  }
  UInt64 result = 1, base = static_cast<UInt64>(self);
  for (UInt64 left = static_cast<UInt64>(exponent); left; left >>= 1) {
    if (left & 1) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

/// The larger plus a correction; equal infinities have no difference and are their own sum.
template <Real T>
FACULA_FN T logaddexp(T self, T other) {
  const T sum = maximum(self, other) + log1p(exp(-abs(self - other)));
  return self == other && isinf(self) ? self : sum;
}
template <Real T>
FACULA_FN T logaddexp2(T self, T other) {
  const T sum = maximum(self, other) + log1p(exp2(-abs(self - other))) * T(log2_e);
  return self == other && isinf(self) ? self : sum;
}
/// Ordered by real part, so that the exponential cannot overflow.
template <class R>
FACULA_FN Complex<R> logaddexp(Complex<R> self, Complex<R> other) {
  const bool ordered = real(self) < real(other);
  const Complex<R> low = ordered ? self : other, high = ordered ? other : self;
  if (isinf(real(low)) && real(low) == real(high)) return real(low) < R(0) ? low : log(exp(low) + exp(high));
  return high + log1p(exp(low - high));
}

/// 2^exponent for exponents of normal numbers.
template <class T>
FACULA_FN T power_of_two(T exponent) {
  if constexpr (sizeof(T) == 4) return from_bits(bits(exponent + T(0x1.8p23) + T(127)) << 23);
  else return from_bits(bits(exponent + T(0x1.8p52) + T(1023)) << 52);
}

/// In two steps: 2^-exponent overflows for subnormal numbers, the halves do not.
template <class T>
FACULA_FN T frexp_mantissa(T self, T exponent) {
  const T half = trunc(T(0.5) * exponent);
  return self * power_of_two(-half) * power_of_two(half - exponent);
}
template <class T>
FACULA_FN Int64 frexp_exponent(T self) {
  constexpr int digits = sizeof(T) == 4 ? 23 : 52, bias = sizeof(T) == 4 ? 126 : 1022;
  const bool subnormal = abs(self) < Float<T>::smallest_normal;
  const T scaled = subnormal ? self * T(0x1p52) : self;
  const Int64 exponent = static_cast<Int64>(bits(abs(scaled)) >> digits) - (subnormal ? bias + 52 : bias);
  return self == T(0) || !isfinite(self) ? 0 : exponent;
}

template <class T>
FACULA_FN T tanh_backward(T grad_output, T output) {
  return grad_output * (T(1) - output * output);
}

template <class T>
FACULA_FN T deg2rad(T self) {
  return self * T(pi / 180);
}
template <class T>
FACULA_FN T rad2deg(T self) {
  return self * T(180 / pi);
}

// ---- arithmetic

/// alpha is nearly always 1; the test is hoisted out of the loop, and keeps infinite complex numbers from 0 *
/// inf. On a device one instruction gives the same for 1 and needs no test.
template <class T>
FACULA_FN T add(T self, T other, T alpha) {
  if constexpr (on_device && Real<T>) return fma(alpha, other, self);
  else return static_cast<T>(alpha == T(1) ? self + other : self + alpha * other);
}
template <Integer T>
FACULA_FN T add(T self, T other, T alpha) {
  const UInt64 a = static_cast<UInt64>(self), b = static_cast<UInt64>(other);
  return static_cast<T>(alpha == T(1) ? a + b : a + static_cast<UInt64>(alpha) * b);
}
template <class T>
FACULA_FN T sub(T self, T other, T alpha) {
  if constexpr (on_device && Real<T>) return fma(-alpha, other, self);
  else return static_cast<T>(alpha == T(1) ? self - other : self - alpha * other);
}
template <Integer T>
FACULA_FN T sub(T self, T other, T alpha) {
  const UInt64 a = static_cast<UInt64>(self), b = static_cast<UInt64>(other);
  return static_cast<T>(alpha == T(1) ? a - b : a - static_cast<UInt64>(alpha) * b);
}
template <class T>
FACULA_FN T rsub(T self, T other, T alpha) {
  return sub(other, self, alpha);
}

template <class T>
FACULA_FN T div(T self, T other) {
  return self / other;
}

template <class T>
FACULA_FN T div_trunc(T self, T other) {
  return trunc(self / other);
}
template <class T>
FACULA_FN T div_trunc_quick(T self, T other) {
  return trunc(self / other);
}
/// Dividing by 0 or, for the lowest number, by -1 stops the processor: 0 gives 0 and -1 negates.
template <Integer T>
FACULA_FN T div_trunc(T self, T other) {
  const bool special = other == T(0) || (is_signed<T> && other == T(-1));
  const T quotient = static_cast<T>(self / (special ? T(1) : other));
  return special ? (other == T(0) ? T(0) : neg(self)) : quotient;
}

template <Integer T>
FACULA_FN T fmod(T self, T other) {
  const bool special = other == T(0) || (is_signed<T> && other == T(-1));
  return special ? T(0) : static_cast<T>(self % (special ? T(1) : other));
}
template <Integer T>
FACULA_FN T remainder(T self, T other) {
  const T r = fmod(self, other);
  return r != T(0) && (r < T(0)) != (other < T(0)) ? static_cast<T>(r + other) : r;
}
template <Integer T>
FACULA_FN T floor_divide(T self, T other) {
  const T r = fmod(self, other), quotient = div_trunc(self, other);
  return r != T(0) && (r < T(0)) != (other < T(0)) ? static_cast<T>(quotient - T(1)) : quotient;
}

// The quick forms divide doubles: below 2^51 the quotient of two whole numbers lies further below the next whole number
// than rounding reaches. 1.5 * 2^52 converts them, also where there is no instruction for vectors.
FACULA_FN double whole_to_double(Int64 x) { return from_bits(static_cast<UInt64>(x) + bits(0x1.8p52)) - 0x1.8p52; }
FACULA_FN Int64 double_to_whole(double x) { return static_cast<Int64>(bits(x + 0x1.8p52) - bits(0x1.8p52)); }

template <Integer T>
FACULA_FN bool quotient_is_hard(T self, T other) {
  constexpr UInt64 half = 1ull << 50;
  const UInt64 a = static_cast<UInt64>(self), b = static_cast<UInt64>(other);
  return (other == T(0)) | ((sizeof(T) == 8) & ((a + half >= 2 * half) | (b + half >= 2 * half)));
}
template <Integer T>
FACULA_FN T div_trunc_quick(T self, T other) {
  return static_cast<T>(double_to_whole(trunc(whole_to_double(self) / whole_to_double(other))));
}
template <Integer T>
FACULA_FN T floor_divide_quick(T self, T other) {
  return static_cast<T>(double_to_whole(floor(whole_to_double(self) / whole_to_double(other))));
}
template <Integer T>
FACULA_FN T fmod_quick(T self, T other) {
  const double a = whole_to_double(self), b = whole_to_double(other), q = trunc(a / b);
  return static_cast<T>(double_to_whole(a - q * b));
}
template <Integer T>
FACULA_FN T remainder_quick(T self, T other) {
  const double a = whole_to_double(self), b = whole_to_double(other), q = floor(a / b);
  return static_cast<T>(double_to_whole(a - q * b));
}

template <Integer T>
FACULA_FN T gcd(T self, T other) {
  T a = abs(self), b = abs(other);
  while (b != T(0)) {
    const T r = fmod(a, b);
    a = b;
    b = r;
  }
  return a;
}
template <Integer T>
FACULA_FN T lcm(T self, T other) {
  const UInt64 steps = static_cast<UInt64>(div_trunc(abs(self), gcd(self, other)));
  return static_cast<T>(steps * static_cast<UInt64>(abs(other)));
}

template <class T>
FACULA_FN T heaviside(T self, T values) {
  return self == T(0) ? values : static_cast<T>(self > T(0));
}

// ---- extrema and limits

/// Whether either is NaN.
template <class T>
FACULA_FN bool is_unordered(T a, T b) {
  if constexpr (on_device) return a != a || b != b;
  else return __builtin_isunordered(a, b);
}

/// The upper bound wins where the bounds cross; NaN in any place gives NaN. One instruction for each bound, and one
/// comparison for both.
template <class T>
FACULA_FN T clamp_between(T self, T min, T max) {
  const T limited = min > self ? min : self;
  const T result = max < limited ? max : limited;
  return is_unordered(min, max) ? min + max : result;
}
template <Integer T>
FACULA_FN T clamp_between(T self, T min, T max) {
  const T limited = min > self ? min : self;
  return max < limited ? max : limited;
}

/// 2^exponent, subnormal numbers and infinity among them; infinity above.
template <Real T>
FACULA_FN T power_of_two(int exponent) {
  using Bits = decltype(bits(T(0)));
  constexpr int digits = sizeof(T) == 8 ? 52 : 23, least = sizeof(T) == 8 ? -1022 : -126, most = 2 - least;
  const int e = exponent < most ? exponent : most;
  return e >= least ? from_bits(static_cast<Bits>(e - least + 1) << digits)
                    : from_bits(static_cast<Bits>(1) << (e - least + digits));
}

/// The neighbor among numbers of `digits` binary digits that are multiples of 2^lowest, of the type's own where digits
/// is 0. Their bit patterns lie evenly above the subnormal numbers, and these lie evenly themselves.
template <Real T>
FACULA_FN T nextafter_of(T self, T other, T digits, T lowest) {
  constexpr int own_digits = sizeof(T) == 8 ? 53 : 24, own_lowest = sizeof(T) == 8 ? -1074 : -149;
  const bool narrow = digits >= T(1) && digits <= T(own_digits) && lowest >= T(own_lowest) && lowest <= T(0);
  const int kept = narrow ? static_cast<int>(digits) : own_digits;
  const int low = narrow ? static_cast<int>(lowest) : own_lowest;
  const T step = power_of_two<T>(low), normal = power_of_two<T>(low + kept - 1);
  const T largest = (T(2) - power_of_two<T>(1 - kept)) * power_of_two<T>(2 - low - kept);
  const auto unit = decltype(bits(self))(1) << (own_digits - kept);
  const bool upwards = other > self, outwards = upwards == (self > T(0));
  const T a = abs(self);
  T moved = from_bits(bits(self) + (outwards ? unit : -unit));
  moved = isinf(self) ? copysign(largest, self) : moved;
  const T evenly = self + (upwards ? step : -step);
  moved = a < normal || (a == normal && !outwards) ? (evenly == T(0) ? copysign(evenly, self) : evenly) : moved;
  return self != self || other != other ? self + other : (self == other ? other : moved);
}

/// The neighbor where numbers are the type's own.
template <Real T>
FACULA_FN T nextafter_of_own(T self, T other, T, T) {
  return nextafter(self, other);
}
template <Real T>
FACULA_FN bool is_narrow(T, T, T digits, T) {
  return digits != T(0);
}

template <Real T>
FACULA_FN T nan_to_num(T self, T nan, T posinf, T neginf) {
  const T infinite = self > T(0) ? posinf : neginf, other = self != self ? nan : infinite;
  return self - self == T(0) ? self : other;  // which is what finite numbers have in common
}
template <class R>
FACULA_FN Complex<R> nan_to_num(Complex<R> self, Complex<R> nan, Complex<R> posinf, Complex<R> neginf) {
  return {nan_to_num(real(self), real(nan), real(posinf), real(neginf)),
          nan_to_num(imag(self), real(nan), real(posinf), real(neginf))};
}

// ---- classification

template <Integer T>
FACULA_FN bool isnan(T) {
  return false;
}
template <Integer T>
FACULA_FN bool isinf(T) {
  return false;
}
template <Integer T>
FACULA_FN bool isfinite(T) {
  return true;
}

template <class T>
FACULA_FN bool isposinf(T self) {
  return isinf(self) && self > T(0);
}
template <class T>
FACULA_FN bool isneginf(T self) {
  return isinf(self) && self < T(0);
}

template <Real T>
FACULA_FN bool isreal(T) {
  return true;
}
template <class R>
FACULA_FN bool isreal(Complex<R> self) {
  return imag(self) == R(0);
}

// ---- comparison and logic

template <class T>
FACULA_FN bool eq(T self, T other) {
  return self == other;
}
template <class T>
FACULA_FN bool ne(T self, T other) {
  return self != other;
}
template <class T>
FACULA_FN bool lt(T self, T other) {
  return self < other;
}
template <class T>
FACULA_FN bool le(T self, T other) {
  return self <= other;
}
template <class T>
FACULA_FN bool gt(T self, T other) {
  return self > other;
}
template <class T>
FACULA_FN bool ge(T self, T other) {
  return self >= other;
}

template <class T>
FACULA_FN bool logical_not(T self) {
  return self == T(0);
}
template <class T>
FACULA_FN bool logical_and(T self, T other) {
  return (self != T(0)) & (other != T(0));
}
template <class T>
FACULA_FN bool logical_or(T self, T other) {
  return (self != T(0)) | (other != T(0));
}
template <class T>
FACULA_FN bool logical_xor(T self, T other) {
  return (self != T(0)) != (other != T(0));
}

template <Integer T>
FACULA_FN T bitwise_not(T self) {
  return static_cast<T>(~self);
}
template <>
FACULA_FN bool bitwise_not<bool>(bool self) {
  return !self;
}
template <Integer T>
FACULA_FN T bitwise_and(T self, T other) {
  return static_cast<T>(self & other);
}
template <Integer T>
FACULA_FN T bitwise_or(T self, T other) {
  return static_cast<T>(self | other);
}
template <Integer T>
FACULA_FN T bitwise_xor(T self, T other) {
  return static_cast<T>(self ^ other);
}

/// Counts outside [0, width) move every bit out; a right shift then leaves the sign.
template <Integer T>
FACULA_FN T bitwise_left_shift(T self, T other) {
  const bool inside = other >= T(0) && other < T(bit_width<T>);
  const UInt64 shifted = static_cast<UInt64>(self) << (inside ? static_cast<int>(other) : 0);
  return inside ? static_cast<T>(shifted) : T(0);
}
template <Integer T>
FACULA_FN T bitwise_right_shift(T self, T other) {
  const bool inside = other >= T(0) && other < T(bit_width<T>);
  const T moved_out = self < T(0) ? static_cast<T>(-1) : T(0);
  return inside ? static_cast<T>(self >> static_cast<int>(other)) : moved_out;
}

// ---- selection and fused forms

/// Condition is bool, or T where the loop has converted every input.
template <class Condition, class T>
FACULA_FN T where(Condition condition, T self, T other) {
  return condition != Condition(0) ? self : other;
}

/// From the nearer end, so that weight 1 gives end exactly.
template <class T>
FACULA_FN T lerp(T self, T end, T weight) {
  const T step = end - self;
  const T from_self = self + weight * step, from_end = end - step * (T(1) - weight);
  return abs(weight) < decltype(abs(weight))(0.5) ? from_self : from_end;
}

template <class T>
FACULA_FN T addcmul(T self, T tensor1, T tensor2, T value) {
  return static_cast<T>(self + value * tensor1 * tensor2);
}
template <Integer T>
FACULA_FN T addcmul(T self, T tensor1, T tensor2, T value) {
  return add(self, mul(tensor1, tensor2), value);
}
template <class T>
FACULA_FN T addcdiv(T self, T tensor1, T tensor2, T value) {
  return self + value * tensor1 / tensor2;
}

}  // namespace facula::kernels
