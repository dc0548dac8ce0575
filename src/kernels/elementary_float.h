// Computes elementary functions in float32, branch-free, so that one call becomes one lane of a vector. What CUDA
// devices do in another way is in device_math.h.
//
// Coefficients are minimax fits (Remez) of relative error, made for the intervals named beside them.
// Errors are stated in units in the last place, as found by tests/cpp/test_math.cpp.
#pragma once

#include "math.h"

namespace facula::kernels {

// ---- exponentials

inline constexpr float float_to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits

/// e^x * scale for x in [-174, 174]: x = 2 n ln 2 + r with |r| <= ln 2, and the power of two is applied as
/// 2^n twice, so that subnormal results round once, too large ones overflow and NaN stays NaN.
FACULA_FN float exp_in_range(float x, float scale) {
  constexpr float to_biased_integer = float_to_integer + 127.0f;
  const float shifted = mul_add(x, 0.721347520f, to_biased_integer);
  const float n = shifted - to_biased_integer;
  float r = mul_add(n, -0x1.62e4p0f, x);  // 2 ln 2 in two parts; n times the first is exact
  r = mul_add(n, -0x1.7f7d1cp-19f, r);
  const float q = horner(r, 0.000196117515f, 0.00141043449f, 0.0083360998f, 0.0416612737f, 0.166666135f, 0.500000358f);
  // where products round, the large terms come last and alone
  const float p = has_fma ? mul_add(mul_add(q, r, 1.0f), r, 1.0f) : 1.0f + (r + r * r * q);
  const float power = from_bits(bits(shifted) << 23);
  return scale * p * power * power;
}

FACULA_FN float exp(float x) {
  if constexpr (for_device) return device::exp(x);
  return exp_in_range(clamp(x, -104.0f, 89.0f), 1.0f);
}

/// e^x / 2, finite a little longer than e^x.
FACULA_FN float half_exp(float x) { return exp_in_range(clamp(x, -104.0f, 90.0f), 0.5f); }

/// e^x for x in [-87, 88] where neither overflow nor underflow can happen. Not for NaN.
FACULA_FN float exp_normal(float x) {
  if constexpr (for_device) return device::exp(x);
  const float shifted = mul_add(x, 1.44269504f, float_to_integer);
  const float n = shifted - float_to_integer;
  float r = mul_add(n, -0x1.62e4p-1f, x);
  r = mul_add(n, -0x1.7f7d1cp-20f, r);
  const float p = horner(r, 0.00138146349f, 0.00836871751f, 0.041668389f, 0.166665211f, 0.49999994f, 1.0f, 1.0f);
  return from_bits(bits(p) + (bits(shifted) << 23));
}

/// e^x * scale for x <= 0 down to subnormal results, a little more exact than exp. The polynomial is summed from two
/// ends at a time: what follows waits for it.
FACULA_FN float exp_nonpositive(float x, float scale = 1.0f) {
  if constexpr (for_device) return device::exp(x) * scale;
  constexpr float to_raised_integer = float_to_integer + 191.0f;  // the biased power, normal, 2^64 too large
  x = x < -104.0f ? -104.0f : x;
  const float shifted = mul_add(x, 1.44269504f, to_raised_integer);
  const float n = shifted - to_raised_integer;
  float r = mul_add(n, -0x1.62e4p-1f, x);
  r = mul_add(n, -0x1.7f7d1cp-20f, r);
  const float r2 = r * r, high = mul_add(r2, 0.00138146349f, mul_add(r, 0.00836871751f, 0.041668389f));
  const float q = mul_add(r2, high, mul_add(r, 0.166665211f, 0.49999994f));
  const float p = 1.0f + mul_add(r2, q, r);
  return p * from_bits(bits(shifted) << 23) * (0x1p-64f * scale);  // multiplied, so that NaN stays NaN
}

FACULA_FN float exp2(float x) {
  constexpr float to_biased_integer = float_to_integer + 127.0f;
  x = clamp(x, -151.0f, 129.0f);
  const float shifted = mul_add(x, 0.5f, to_biased_integer);
  const float r = mul_add(shifted - to_biased_integer, -2.0f, x);
  const float p = horner(r, 1.30611625e-06f, 1.54736645e-05f, 0.000154083435f, 0.00133319991f, 0.00961809792f,
                         0.055504147f, 0.240226507f, 0.693147182f, 1.0f);
  const float power = from_bits(bits(shifted) << 23);
  return p * power * power;
}

FACULA_FN float expm1(float x) {
  const float y = clamp(x, -18.0f, 89.0f);
  const float shifted = mul_add(y, 1.44269504f, float_to_integer);
  const float n = shifted - float_to_integer;
  float r = mul_add(n, -0x1.62e4p-1f, y);
  r = mul_add(n, -0x1.7f7d1cp-20f, r);
  const float q = horner(r, 0.00138825621f, 0.00836652052f, 0.0416672006f, 0.166665435f, 0.49999997f);
  const float p = mul_add(r * r, q, r);
  const float half_power = from_bits((bits(shifted) << 23) + 0x3f000000u);  // 2^(n-1): 2^128 has no float
  const float half_result = mul_add(half_power, p, half_power - 0.5f);
  return abs(x) < 0x1p-25f ? x : half_result + half_result;
}

/// 1 / (1 + e^-x), as e^x / (1 + e^x) below zero. The rounding errors of e and of 1 + e go into a correction of the
/// quotient.
/// Where products round (no fused multiply-add), with the errors of the exponential and the sum carried along.
FACULA_FN float sigmoid_compensated(float x) {
  constexpr float to_raised_integer = float_to_integer + 64.0f;
  const float a = 104.0f < abs(x) ? -104.0f : -abs(x);
  const float shifted = mul_add(a, 1.44269504f, to_raised_integer);
  const float n = shifted - to_raised_integer;
  float r = mul_add(n, -0x1.62e4p-1f, a);
  r = mul_add(n, -0x1.7f7d1cp-20f, r);
  const float q = horner(r, 0.00138146349f, 0.00836871751f, 0.041668389f, 0.166665211f, 0.49999994f);
  const float p = mul_add(r * r, q, r);  // e^r - 1
  const float power = from_bits((bits(shifted) << 23) + 0x3f800000u);
  const float e_raised = (1.0f + p) * power, e_error = (p - ((1.0f + p) - 1.0f)) * power * 0x1p-64f;
  const float e = e_raised * 0x1p-64f;
  const float sum = 1.0f + e, inverse = 1.0f / sum;
  const float above = x < 0.0f ? e : 1.0f, above_error = x < 0.0f ? e_error : 0.0f;
  const float quotient = above / sum;
  const float rest = mul_add(-quotient, (e - (sum - 1.0f)) + e_error, above_error);
  const float result = mul_add(rest, inverse, quotient);
  return x == x ? result : x;
}

/// 1 / (1 + e^-x), from the exponential of -|x|; the rounding of the sum is taken back.
FACULA_FN float sigmoid(float x) {
  if constexpr (for_device) return device::sigmoid(x);
  if constexpr (!has_fma) return sigmoid_compensated(x);
  const float e = exp_nonpositive(-abs(x)), sum = 1.0f + e;
  const float quotient = (x < 0.0f ? e : 1.0f) / sum;
  return mul_add(-quotient, e - (sum - 1.0f), quotient);
}

FACULA_FN float tanh(float x) {
  if constexpr (for_device) return device::tanh(x);
  const float a = abs(x), s = x * x;
  const float p = horner(s, -0.00570498453f, 0.0206390899f, -0.0537397191f, 0.133314416f, -0.333332807f);  // to 0.625
  const float small = mul_add(p * s, a, a);
  const float e = exp_normal(10.0f < a ? 20.0f : 2.0f * a);
  const float large = 1.0f - 2.0f / (e + 1.0f);
  return copysign(a < 0.625f ? small : (a >= 0.625f ? large : a), x);
}

FACULA_FN float sinh(float x) {
  const float a = abs(x), s = x * x;
  const float p = horner(s, 2.81695111e-06f, 0.000198361595f, 0.0083333496f, 0.166666672f);  // to 1
  const float small = mul_add(p * s, x, x);
  const float h = half_exp(a);
  return a < 1.0f ? small : copysign(h - 0.25f / h, x);
}

FACULA_FN float cosh(float x) {
  const float h = half_exp(abs(x));
  return h + 0.25f / h;
}

// ---- logarithms

/// x = (1 + f) * 2^exponent with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x, subnormal ones
/// included.
struct SplitLog {
  float f;
  float exponent;
};

FACULA_FN SplitLog split_log(float x) {
  const bool subnormal = x < Float<float>::smallest_normal;
  const float scale = subnormal ? 0x1p23f : 1.0f, scale_log = subnormal ? 23.0f : 0.0f;
  const UInt32 u = bits(x * scale);
  const Int32 e = static_cast<Int32>(u - 0x3f3504f3u) >> 23;
  return {from_bits(u - (static_cast<UInt32>(e) << 23)) - 1.0f, static_cast<float>(e) - scale_log};
}

/// log(1 + f) - f on the interval of split_log.
FACULA_FN float log1p_tail(float f) {
  return f * f *
         horner(f, -0.0763444379f, 0.127615362f, -0.131601825f, 0.142017633f, -0.166233584f, 0.200012267f,
                -0.250008196f, 0.333333313f, -0.5f);
}

/// Puts in what a logarithm is at 0, below it, at infinity and NaN.
FACULA_FN float at_log_edges(float x, float result) {
  result = x >= 0.0f ? result : Float<float>::nan;
  result = x == 0.0f ? -Float<float>::infinity : result;
  return x == Float<float>::infinity ? x : result;
}

inline constexpr float ln_2_high = 0x1.62e4p-1f, ln_2_low = 0x1.7f7d1cp-20f;

FACULA_FN float log(float x) {
  if constexpr (for_device) return device::log(x);
  const SplitLog s = split_log(x);
  const float tail = mul_add(s.exponent, ln_2_low, log1p_tail(s.f));
  return at_log_edges(x, mul_add(s.exponent, ln_2_high, s.f + tail));
}

FACULA_FN float log2(float x) {
  const SplitLog s = split_log(x);
  const float tail = log1p_tail(s.f);
  const float scaled_tail = mul_add(tail, 1.44269502f, s.f * 1.92596299e-8f);
  return at_log_edges(x, s.exponent + mul_add(s.f, 1.44269502f, scaled_tail));
}

FACULA_FN float log10(float x) {
  const SplitLog s = split_log(x);
  const float tail = mul_add(log1p_tail(s.f), 0.434294492f, s.f * -1.01030501e-8f);
  const float fraction = mul_add(s.f, 0.434294492f, mul_add(s.exponent, 4.60503898e-06f, tail));
  return at_log_edges(x, mul_add(s.exponent, 0x1.344p-2f, fraction));
}

FACULA_FN float log1p(float x) {
  // 1 + x = (1 + f) * 2^e, with f taken from x itself so that nothing of a small x is lost.
  const UInt32 e_bits = static_cast<UInt32>(static_cast<Int32>(bits(1.0f + x) - 0x3f3504f3u) >> 23) << 23;
  const float e = static_cast<float>(static_cast<Int32>(e_bits) >> 23);
  const float quarter_scale = from_bits(0x40800000u - e_bits);  // 4 * 2^-e, a normal number up to e = 128
  const float f = mul_add(0.25f * x, quarter_scale, mul_add(0.25f, quarter_scale, -1.0f));
  const float tail = mul_add(e, ln_2_low, log1p_tail(f));
  const float result = mul_add(e, ln_2_high, f + tail);
  return abs(x) < 0x1p-25f ? x : at_log_edges(1.0f + x, result);
}

FACULA_FN float asinh(float x) {
  const float a = abs(x), s = a * a;
  const bool big = a > 1e4f;  // there asinh(a) is log(2 a)
  const float u = big ? a - 1.0f : a + s / (1.0f + sqrt(s + 1.0f));
  return copysign(log1p(u) + (big ? 0.693147181f : 0.0f), x);
}

FACULA_FN float acosh(float x) {
  const float t = x - 1.0f;
  const bool big = x > 1e4f;
  const float result = log1p(big ? t : t + sqrt(t * (x + 1.0f))) + (big ? 0.693147181f : 0.0f);
  return x < 1.0f ? Float<float>::nan : result;
}

FACULA_FN float atanh(float x) {
  const float a = abs(x);
  return copysign(0.5f * log1p(2.0f * a / (1.0f - a)), x);
}

// ---- power

/// a^y for positive finite a, through double, so that the result is rounded once.
FACULA_FN float positive_power(float a, float y) {
  const SplitLog s = split_log(a);
  const double f = s.f;
  const double p = horner(f, 0.063181536040406952, -0.12352034129930399, 0.12612342857435016, -0.11962563907681435,
                          0.1291441400431754, -0.14412618668643673, 0.16042523005793324, -0.180350402811778,
                          0.2060952667152553, -0.24044872733701483, 0.28853907067569567, -0.36067376589872779,
                          0.48089834658554464, -0.72134752042497541, 1.4426950408893544);
  const double z = clamp(static_cast<double>(y) * mul_add(p, f, static_cast<double>(s.exponent)), -200.0, 200.0);
  const double shifted = z + 0x1.8p52;
  const double r = z - (shifted - 0x1.8p52);
  const double q =
      horner(r, 1.5201924248838622e-05, 0.0001546929140753477, 0.0013333922554917489, 0.0096180272526906196,
             0.05550410353456927, 0.24022651198167252, 0.69314718072843839, 0.99999999996167932);
  return static_cast<float>(from_bits(bits(q) + (bits(shifted) << 52)));
}

FACULA_FN float pow(float x, float y) {
  const float a = abs(x), inf = Float<float>::infinity;
  const bool y_negative = y < 0.0f;
  const float at_zero_or_infinity = (a == 0.0f) == y_negative ? inf : 0.0f;
  float r = positive_power(a, y);
  r = a == 0.0f || a == inf ? at_zero_or_infinity : r;
  r = abs(y) == inf ? ((a < 1.0f) == y_negative ? inf : 0.0f) : r;
  r = a == 1.0f ? 1.0f : r;
  const bool whole = trunc(y) == y, odd = whole && trunc(0.5f * y) != 0.5f * y;
  r = x < 0.0f && !whole && a != inf ? Float<float>::nan : r;
  r = odd ? copysign(r, x) : r;
  return x == 1.0f || y == 0.0f ? 1.0f : (x != x || y != y ? x + y : r);
}

// ---- trigonometry

/// x = quarter * pi/2 + r with |r| <= pi/4 (a little more by rounding); only the low two bits of quarter
/// count.
struct QuarterTurns {
  float r;
  UInt32 quarter;
};

/// Right for every finite float. 2/pi is only needed modulo 4 / 2^s where x is a multiple of 2^s: a constant
/// for each range of 27 exponents keeps the product below 2^51, small enough for double.
FACULA_FN QuarterTurns quarter_turns(float x) {
  const double d = x, a = abs(d);
  double high = 0x1.45f306dc9c883p-1, low = -0x1.6b01ec5417056p-55;
  high = a >= 0x1p50 ? -0x1.1b1bbead603d9p-28 : high;
  low = a >= 0x1p50 ? 0x1.5f47d4d377037p-82 : low;
  high = a >= 0x1p77 ? 0x1.4a7f09d5f47d5p-54 : high;
  low = a >= 0x1p77 ? -0x1.6447e493ad4cep-109 : low;
  high = a >= 0x1p104 ? -0x1.505c1596447e5p-81 : high;
  low = a >= 0x1p104 ? 0x1.b14acc9e21c82p-135 : low;
  const double shifted = mul_add(d, high, 0x1.8p52);
  double turns = mul_add(d, low, exact_mul_add(d, high, -(shifted - 0x1.8p52)));
  UInt32 quarter = static_cast<UInt32>(bits(shifted));
  if constexpr (!has_fma) {  // the product was rounded before it became a whole number: up to 1/8 turn is
                             // left over
    const double again = turns + 0x1.8p52;
    turns -= again - 0x1.8p52;
    quarter += static_cast<UInt32>(bits(again));
  }
  return {static_cast<float>(turns * (pi / 2)), quarter};
}

/// sin and cos of r in [-pi/4, pi/4].
FACULA_FN float sin_kernel(float r, float s) {
  return mul_add(horner(s, -0.000195152505f, 0.0083321603f, -0.166666552f) * s, r, r);
}
FACULA_FN float cos_kernel(float s) { return horner(s, 2.44384155e-05f, -0.00138873677f, 0.0416666456f, -0.5f, 1.0f); }

/// sin and cos of angles up to this are quicker with fused hardware: fused steps take the half turns off.
inline constexpr float moderate_angle = 32000.0f;

/// x - h * pi with three parts of pi, of one sign so that -0 stays; the first difference is exact.
FACULA_FN float without_half_turns(float x, float h) {
  float r = mul_add(h, -0x1.921fb4p1f, x);
  r = mul_add(h, -0x1.4442d0p-23f, r);
  return mul_add(h, -0x1.846988p-47f, r);
}

/// sin of r in [-pi/2, pi/2] (a little more by rounding), negated where the lowest bit of `turns` is set.
FACULA_FN float sin_half_turn(float r, UInt32 turns) {
  const float s = r * r;
  const float p = horner(s, 0x1.5dae86p-19f, -0x1.9f6ef6p-13f, 0x1.110ecep-7f, -0x1.55554cp-3f);
  const float value = clamp(mul_add(p, s * r, r), -1.0f, 1.0f);
  return from_bits(bits(value) ^ (turns << 31));
}

FACULA_FN float sin_moderate(float x) {
  const float shifted = mul_add(x, 0.318309886f, float_to_integer);
  const float value = sin_half_turn(without_half_turns(x, shifted - float_to_integer), bits(shifted));
  return x == 0 ? x : value;  // zeros keep their signs
}

FACULA_FN float cos_moderate(float x) {  // cos x = sin(x + pi/2)
  const float shifted = mul_add(x, 0.318309886f, 0.5f) + float_to_integer;
  return sin_half_turn(without_half_turns(x, (shifted - float_to_integer) - 0.5f), bits(shifted));
}

FACULA_FN float sin(float x) {
  if constexpr (for_device)
    if (abs(x) <= moderate_angle) return sin_moderate(x);
  const QuarterTurns t = quarter_turns(x);
  const float s = t.r * t.r;
  const float value = t.quarter & 1 ? cos_kernel(s) : sin_kernel(t.r, s);
  return abs(x) < 0x1p-12f ? x : from_bits(bits(value) ^ ((t.quarter & 2) << 30));
}

FACULA_FN float cos(float x) {
  if constexpr (for_device)
    if (abs(x) <= moderate_angle) return cos_moderate(x);
  const QuarterTurns t = quarter_turns(x);
  const float s = t.r * t.r;
  const float value = t.quarter & 1 ? sin_kernel(t.r, s) : cos_kernel(s);
  return from_bits(bits(value) ^ (((t.quarter + 1) & 2) << 30));
}

FACULA_FN float tan(float x) {
  const QuarterTurns t = quarter_turns(x);
  const float s = t.r * t.r;
  const float p = horner(s, 0.00489499047f, -0.000980144949f, 0.0116931731f, 0.0209465716f, 0.0541257598f, 0.133320764f,
                         0.333333671f);  // to 0.82, since the quarter of a large x may be off by 2^-5
  const float value = mul_add(p * s, t.r, t.r);
  return abs(x) < 0x1p-12f ? x : (t.quarter & 1 ? -1.0f / value : value);
}

/// atan of a in [0, 1].
FACULA_FN float atan_kernel(float a) {
  const float s = a * a;
  const float p = horner(s, 0.00292092934f, -0.0163690131f, 0.0432138667f, -0.0755240545f, 0.106661037f, -0.142110825f,
                         0.199937761f, -0.333331525f);
  return mul_add(p * s, a, a);
}

inline constexpr float half_pi_high = 1.57079637f, half_pi_low = -4.37113883e-8f;

FACULA_FN float atan(float x) {
  const float a = abs(x);
  const float p = atan_kernel(a > 1.0f ? 1.0f / a : a);
  return copysign(a > 1.0f ? half_pi_high - (p - half_pi_low) : p, x);
}

FACULA_FN float atan2(float y, float x) {
  const float ay = abs(y), ax = abs(x);
  const bool steep = ay > ax;
  const float small = steep ? ax : ay, large = steep ? ay : ax;
  float ratio = small / large;
  ratio = small == large ? 1.0f : ratio;  // both infinite
  ratio = large == 0.0f ? 0.0f : ratio;   // both zero
  float angle = atan_kernel(ratio);
  angle = steep ? half_pi_high - (angle - half_pi_low) : angle;
  angle = bits(x) >> 31 ? 2.0f * half_pi_high - (angle - 2.0f * half_pi_low) : angle;
  return x != x || y != y ? x + y : copysign(angle, y);
}

/// asin(a) - a for a in [0, 1/2].
FACULA_FN float asin_tail(float a) {
  const float s = a * a;
  return horner(s, 0.0422258191f, 0.0241467636f, 0.0454765148f, 0.0749525279f, 0.166667536f) * s * a;
}

FACULA_FN float asin(float x) {
  const float a = abs(x);
  const bool large = a > 0.5f;
  const float z = large ? sqrt(0.5f - 0.5f * a) : a;
  const float p = z + asin_tail(z);
  return copysign(large ? half_pi_high - (2.0f * p - half_pi_low) : p, x);
}

FACULA_FN float acos(float x) {
  const float a = abs(x);
  const bool large = a > 0.5f;
  const float z = large ? sqrt(0.5f - 0.5f * a) : x;
  const float tail = asin_tail(z);
  const float near_one = 2.0f * (z + tail);
  const float outer = x < 0.0f ? 2.0f * half_pi_high - (near_one - 2.0f * half_pi_low) : near_one;
  return large ? outer : half_pi_high - (z + (tail - half_pi_low));
}

// ---- error function

/// erf where |x| < 0.93.
FACULA_FN float erf_near_zero(float x) {
  const float p =
      horner(x * x, -0.000595373509f, 0.0049859439f, -0.0267617274f, 0.112816833f, -0.376124799f, 0.128379151f);
  return mul_add(p, x, x);
}

FACULA_FN float erf(float x) {
  if constexpr (for_device) return device::erf(x);
  const float a = abs(x), small = erf_near_zero(x);
  // Beyond, erf(a) = 1 - exp(-a (1 + q(a))); from 3.95 on it rounds to 1.
  const float t = 3.95f < a ? 3.95f : a;
  const float q = horner(t, 1.04333758e-05f, -0.000314860546f, 0.00361035112f, -0.0236945841f, 0.106159069f,
                         0.635197997f, 0.128637075f);
  const float large = copysign(1.0f - exp_normal(-mul_add(q, t, t)), x);
  return a < 0.93f ? small : (a >= 0.93f ? large : x);
}

/// e^(a^2) erfc(a) for a from 0 on; times 1 + 2 a it is smooth in (a - 2) / (a + 2).
FACULA_FN float erfc_scaled(float a) {
  const float v = (a - 2.0f) / (a + 2.0f);
  const float p = horner(v, -0.000400571618f, -0.00122992147f, 0.00131351687f, 0.00863167457f, -0.00805987231f,
                         -0.0542042963f, 0.164055347f, -0.16603142f, -0.0927639827f, 1.27697837f);
  return p / mul_add(2.0f, a, 1.0f);
}

/// Beyond 1/2 as e^(-a^2), where a^2 is taken with its rounding error, times the scaled function.
FACULA_FN float erfc(float x) {
  const float a = clamp(abs(x), 0.0f, 10.1f), s = a * a;
  const float e = exp_nonpositive(-s), low = -product_error(a, a, s), scaled = erfc_scaled(a);
  const float tail = e * mul_add(scaled, low, scaled);
  const float near = 1.0f - erf_near_zero(x);
  return abs(x) < 0.5f ? near : (x < 0.0f ? 2.0f - tail : (x >= 0.0f ? tail : x));
}

}  // namespace facula::kernels
