// Computes elementary functions in float64. exp, log, tanh, erf, sin, cos and their near relatives are branch-free, the
// rest are the C library's. Coefficients are minimax fits (Remez) of relative error on the intervals named beside them.
#pragma once

#include "math.h"

namespace facula::kernels {

// ---- exponentials

inline constexpr double double_to_integer = 0x1.8p52;  // adding it rounds to an integer in the low bits
inline constexpr double ln_2_high_double = 0x1.62e42ffp-1, ln_2_low_double = -0x1.718432a1b0e26p-35;

/// e^r for |r| <= ln 2.
FACULA_FN double exp_polynomial(double r) {
  return horner(r, 1.5935605082211019e-10, 2.1062338738812023e-09, 2.5055032894579658e-08, 2.7556157967575783e-07,
                2.755730065520106e-06, 2.4801590830174558e-05, 0.00019841269892764265, 0.001388888888357696,
                0.008333333333269936, 0.04166666666670208, 0.16666666666666938, 0.49999999999999928, 1.0, 1.0);
}

/// e^x: x = 2 n ln 2 + r with |r| <= ln 2, and the power of two is applied as 2^n twice, so that subnormal
/// results round once, too large ones overflow and NaN stays NaN.
FACULA_FN double exp(double x) {
  constexpr double to_biased_integer = double_to_integer + 1023.0;
  x = clamp(x, -746.0, 710.0);
  const double shifted = mul_add(x, 0.5 * log2_e, to_biased_integer);
  const double n = shifted - to_biased_integer;
  double r = mul_add(n, -2.0 * ln_2_high_double, x);  // n times the high part is exact
  r = mul_add(n, -2.0 * ln_2_low_double, r);
  const double power = from_bits(bits(shifted) << 52);
  return exp_polynomial(r) * power * power;
}

FACULA_FN double exp2(double x) {
  constexpr double to_biased_integer = double_to_integer + 1023.0;
  x = clamp(x, -1076.0, 1025.0);
  const double shifted = mul_add(x, 0.5, to_biased_integer);
  const double r = mul_add(shifted - to_biased_integer, -2.0, x) * ln_2;
  const double power = from_bits(bits(shifted) << 52);
  return exp_polynomial(r) * power * power;
}

/// e^x for x in [-708, 709], where neither overflow nor underflow can happen. Not for NaN.
FACULA_FN double exp_normal(double x) {
  const double shifted = mul_add(x, log2_e, double_to_integer);
  const double n = shifted - double_to_integer;
  double r = mul_add(n, -ln_2_high_double, x);
  r = mul_add(n, -ln_2_low_double, r);
  const double r2 = r * r;
  const double q =
      horner_apart(r, r2, 2.0826610400313841e-09, 2.5112037290469702e-08, 2.7557581906249061e-07,
                   2.7557234860519807e-06, 2.4801586926559774e-05, 0.00019841269896385351, 0.0013888888889115668,
                   0.0083333333333170338, 0.041666666666666095, 0.16666666666666682, 0.5);
  const double p = 1.0 + mul_add(r2, q, r);
  return from_bits(bits(p) + (bits(shifted) << 52));
}

FACULA_FN double expm1(double x) {
  const double y = clamp(x, -38.0, 710.0);
  const double shifted = mul_add(y, log2_e, double_to_integer);
  const double n = shifted - double_to_integer;
  double r = mul_add(n, -ln_2_high_double, y);
  r = mul_add(n, -ln_2_low_double, r);
  const double q = horner(r, 2.0875325394977151e-09, 2.5108979033673004e-08, 2.7557402660061107e-07,
                          2.7557244373810235e-06, 2.4801587172515879e-05, 0.00019841269885966236, 0.0013888888888962383,
                          0.0083333333333216915, 0.041666666666666512, 0.16666666666666677, 0.5);
  const double p = mul_add(r * r, q, r);
  const double half_power = from_bits((bits(shifted) << 52) + 0x3fe0000000000000ull);  // 2^(n-1): 2^1024 overflows
  const double half_result = mul_add(half_power, p, half_power - 0.5);
  return abs(x) < 0x1p-54 ? x : half_result + half_result;
}

FACULA_FN double sigmoid(double x) {
  const double e = exp(-abs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

FACULA_FN double tanh(double x) {
  const double e = expm1(2.0 * clamp(abs(x), 0.0, 20.0));
  return copysign(e / (e + 2.0), x);
}

FACULA_FN double sinh(double x) { return FACULA_LIBM(sinh)(x); }
FACULA_FN double cosh(double x) { return FACULA_LIBM(cosh)(x); }

// ---- logarithms

/// x = (1 + f) * 2^exponent with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x, subnormal ones
/// included.
struct SplitLogDouble {
  double f;
  double exponent;
};

/// The signed integer in the top bits of `u` above bit 52, as a double, without a 64-bit integer conversion.
FACULA_FN double exponent_to_double(UInt64 u) { return from_bits((u >> 52) + 0x4330000000000000ull) - 0x1p52; }

FACULA_FN SplitLogDouble split_log(double x) {
  const bool subnormal = x < Float<double>::smallest_normal;
  const double scale = subnormal ? 0x1p52 : 1.0, bias = subnormal ? 1075.0 : 1023.0;
  const UInt64 u = bits(x * scale) + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  const double m = from_bits((u & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull);
  return {m - 1.0, exponent_to_double(u) - bias};
}

/// log(1 + f) - f on the interval of split_log, through s = f / (2 + f): log(1 + f) = 2 atanh(s).
FACULA_FN double log1p_tail(double f) {
  const double s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
  const double r = z * horner(z, 0.14799034458830579, 0.15313759514791342, 0.18183574995083124, 0.22222198382184463,
                              0.28571428744101857, 0.39999999999407676, 0.66666666666667351);
  return mul_add(s, half_square + r, -half_square);
}

FACULA_FN double at_log_edges(double x, double result) {
  result = x >= 0.0 ? result : Float<double>::nan;
  result = x == 0.0 ? -Float<double>::infinity : result;
  return x == Float<double>::infinity ? x : result;
}

FACULA_FN double log(double x) {
  const SplitLogDouble s = split_log(x);
  const double tail = mul_add(s.exponent, ln_2_low_double, log1p_tail(s.f));
  return at_log_edges(x, mul_add(s.exponent, ln_2_high_double, s.f + tail));
}

FACULA_FN double log1p(double x) {
  // 1 + x = (1 + f) * 2^e, with f taken from x itself so that nothing of a small x is lost.
  const double u = 1.0 + x;
  const UInt64 biased = bits(u) + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  const UInt64 e_bits = (biased & 0xfff0000000000000ull) - 0x3ff0000000000000ull;
  const double e = exponent_to_double(biased) - 1023.0;
  const double quarter_scale = from_bits(0x4010000000000000ull - e_bits);  // 4 * 2^-e, normal up to e = 1024
  const double f = mul_add(0.25 * x, quarter_scale, mul_add(0.25, quarter_scale, -1.0));
  const double tail = mul_add(e, ln_2_low_double, log1p_tail(f));
  const double result = mul_add(e, ln_2_high_double, f + tail);
  return abs(x) < 0x1p-54 ? x : at_log_edges(u, result);
}

FACULA_FN double log2(double x) {
  const SplitLogDouble s = split_log(x);
  return at_log_edges(x, s.exponent + mul_add(s.f, log2_e, log1p_tail(s.f) * log2_e));
}

FACULA_FN double log10(double x) {
  constexpr double log10_e = 0.43429448190325182765, log10_2_high = 0x1.3441350ap-2,
                   log10_2_low = -0x1.0c0219dc1da99p-39;
  const SplitLogDouble s = split_log(x);
  const double fraction = mul_add(s.f, log10_e, mul_add(s.exponent, log10_2_low, log1p_tail(s.f) * log10_e));
  return at_log_edges(x, mul_add(s.exponent, log10_2_high, fraction));
}

FACULA_FN double asinh(double x) { return FACULA_LIBM(asinh)(x); }
FACULA_FN double acosh(double x) { return FACULA_LIBM(acosh)(x); }
FACULA_FN double atanh(double x) { return FACULA_LIBM(atanh)(x); }
FACULA_FN double pow(double x, double y) { return FACULA_LIBM(pow)(x, y); }

// ---- trigonometry

/// x = quarter * pi/2 + high + low with |high| <= pi/4 (a little more by rounding).
struct QuarterTurnsDouble {
  double high, low;
  UInt64 quarter;
};

/// Column b: 2^(32 b) * 2/pi modulo 4, as a sum of four doubles.
FACULA_TABLE double two_over_pi[4][32] = {
    {0x1.45f306dc9c883p-1,  -0x1.b1bbead603d8bp+0, 0x1.fc2757d1f534ep+0,  0x1.f534ddc0db629p+0,  0x1.b6c52b3278872p-1,
     0x1.3c439041fe516p+0,  0x1.fe5163abdebbcp+0,  -0x1.0a21d4f246dc9p-3, 0x1.b7246e3a424ddp+0,  -0x1.bdb22d1ff9b6dp+0,
     0x1.924bba8274648p-6,  -0x1.f62e6de301e21p+0, 0x1.fc3bd63962535p-1,  0x1.62534e7dd1047p-1,  -0x1.177dca0ad144cp+0,
     0x1.2ebb4484e99c7p+0,  0x1.d338e04d68bf0p-1,  -0x1.4ba081bec66e3p+0, 0x1.3991d63983534p+0,  0x1.835339f49c846p+0,
     0x1.3908bf177bf25p-1,  -0x1.081b5f13801dap-2, -0x1.c00ed00043f4dp-1, -0x1.0fd33f8086877p-3, -0x1.0d0ee74a5f593p-4,
     -0x1.4beb25c125930p-1, -0x1.25930261b069fp-1, -0x1.b069ec9161738p-1, -0x1.61738132c3403p-1, -0x1.61a015d28ad84p+0,
     0x1.7527bac7ebe5fp+0,  -0x1.41a0e84c2f8c6p-4},
    {-0x1.6b01ec5417056p-55, 0x1.f47d4d377036ep-54,  -0x1.1f924eb53361ep-55, 0x1.664f10e4107f9p-54,
     0x1.07f9458eaf7afp-58,  0x1.d5ef5de2b0db9p-55,  0x1.586dc91b8e909p-54,  0x1.d2126e9700325p-59,
     0x1.700324977504fp-55,  -0x1.15f62e6de301ep-56, 0x1.cfe1deb1cb12ap-60,  -0x1.38d3b5963045ep-54,
     -0x1.822efb9415a29p-57, -0x1.0568a25dbd8b3p-55, 0x1.213a671c09ad1p-54,  0x1.35a2fbf209cc9p-59,
     -0x1.bec66e29c67cbp-56, 0x1.8e60d4ce7d272p-54,  -0x1.82d8dee81d108p-54, -0x1.d1081b5f13802p-58,
     0x1.d8ffc4bffef03p-59,  -0x1.0fd33f8086877p-67, 0x1.fde5e2316b415p-61,  -0x1.d297d64b824b2p-58,
     0x1.f6d367ecf27cbp-60,  -0x1.30d834f648b0cp-56, 0x1.b74f463f669e6p-56,  -0x1.32c3402ba515bp-57,
     0x1.16ba93dd63f5fp-55,  -0x1.4e050683a130cp-54, 0x1.7b3d0739f78a5p-56,  -0x1.0eb5ada2b2809p-61},
    {-0x1.6447e493ad4cep-109, -0x1.d6a66c3bc6fbep-108, 0x1.c820ff28b1d5fp-111,  0x1.163abdebbc562p-108,
     -0x1.d4f246dc8e2dfp-115, 0x1.1b8e909374b80p-110,  0x1.ba5c00c925dd4p-109,  -0x1.a22bec5cdbc60p-113,
     -0x1.cdbc603c429c7p-109, -0x1.0a71a76b2c609p-111, -0x1.63045df7282b4p-114, 0x1.1afa975da2427p-111,
     0x1.a24274ce38136p-111,  -0x1.c7eca5d040df6p-111, 0x1.f7e413991d63ap-108,  -0x1.4e33e566305b2p-115,
     0x1.9cfa4e422fc5ep-111,  0x1.17e2ef7e4a0ecp-110,  -0x1.b5f13801da001p-110, 0x1.2fffbc0b301fep-113,
     -0x1.9fc04343b9d29p-114, -0x1.d297d64b824b2p-122, -0x1.2e092c98130d8p-116, -0x1.8130d834f648bp-112,
     0x1.36e9e8c7ecd3dp-117,  0x1.8fd9a797fa8b6p-110,  -0x1.5d28ad8453814p-116, -0x1.14e050683a131p-114,
     0x1.7c5ecf41ce7dep-110,  0x1.ce7de294a4baap-110,  0x1.497535fdafd89p-111,  -0x1.0277039517bd5p-115},
    {0x1.e21c820ff28b2p-163,  -0x1.ae9c5421443aap-168, -0x1.443a9e48db91cp-168, -0x1.236e4716f6c8bp-162,
     0x1.374b801924bbbp-170,  0x1.924bba8274648p-166,  0x1.3a32439fc3bd6p-165,  -0x1.e214e34ed658cp-168,
     0x1.894d39f74411bp-163,  0x1.1046bea5d7689p-165,  -0x1.44bb7b16638fep-168, 0x1.338e04d68befdp-165,
     -0x1.741037d8cdc54p-165, -0x1.9b8a719f2b318p-166, -0x1.f2b3182d8dee8p-162, 0x1.08bf177bf2507p-169,
     -0x1.036be27003b40p-167, 0x1.ff897ffde0598p-164,  0x1.e05980fef2f12p-164,  -0x1.a1dce94beb25cp-169,
     -0x1.f592e092c9813p-168, -0x1.8130d834f648bp-176, -0x1.a7b24585ce04dp-171, -0x1.738132c3402bap-169,
     -0x1.00ae9456c229cp-171, -0x1.5b08a7028341dp-165, -0x1.a0e84c2f8c608p-172, 0x1.0739f78a5292fp-168,
     0x1.4a525d4d7f6bfp-165,  -0x1.404a04ee072a3p-164, -0x1.ca8bdea7f33eep-170, 0x1.98237e3db5d60p-175},
};

/// x - 4 * (the whole number nearest to x / 4), exactly.
FACULA_FN double modulo_4(double x) { return x - 4.0 * round_half_even(0.25 * x); }

/// Right for every finite double: x = y * 2^(32 b) with |y| < 2^84, y whole where b > 0, so that the quarter
/// turns are y * column b modulo 4. The sums are exact: some doubles come within 2^-61 of a whole number of
/// quarter turns.
FACULA_FN QuarterTurnsDouble quarter_turns(double x) {
  const Int64 exponent = static_cast<Int64>((bits(x) >> 52) & 0x7ff) - (1023 + 52);
  const Int64 band = (exponent > 0 ? exponent : 0) >> 5;
  const double y = x * from_bits(static_cast<UInt64>(1023 - 32 * band) << 52);
  const double c0 = two_over_pi[0][band], c1 = two_over_pi[1][band], c2 = two_over_pi[2][band],
               c3 = two_over_pi[3][band];
  const double p0 = y * c0, p1 = y * c1, p2 = y * c2;
  const SumAndError first = exact_sum(modulo_4(p0), modulo_4(product_error(y, c0, p0)));
  const SumAndError second = exact_sum(first.sum, modulo_4(p1));
  const double shifted = second.sum + double_to_integer;
  const double fraction = second.sum - (shifted - double_to_integer);
  const SumAndError low1 = exact_sum(first.error, second.error);
  const SumAndError low2 = exact_sum(low1.sum, product_error(y, c1, p1));
  const SumAndError low3 = exact_sum(low2.sum, p2);
  const SumAndError total = exact_sum(fraction, low3.sum);
  const double lowest = mul_add(y, c3, product_error(y, c2, p2)) + low1.error + low2.error + low3.error;
  const double rest = total.error + lowest;
  const double turns = total.sum + rest, turns_low = (total.sum - turns) + rest;
  constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  const double r = turns * half_pi;
  const double low = product_error(turns, half_pi, r) + mul_add(turns, half_pi_low, turns_low * half_pi);
  return {r, low, bits(shifted)};
}

/// sin and cos of r + low, r in [-pi/4, pi/4].
FACULA_FN double sin_kernel(double r, double low) {
  const double s = r * r;
  const double p = horner(s, 1.5896815165881973e-10, -2.5050758461056328e-08, 2.755731369420387e-06,
                          -0.00019841269829814663, 0.0083333333333224218, -0.16666666666666632);
  return r + mul_add(p * s, r, mul_add(-0.5 * s, low, low));
}
FACULA_FN double cos_kernel(double r, double low) {
  const double s = r * r, half_square = 0.5 * s, top = 1.0 - half_square;
  const double p = horner(s, -1.1359658960080114e-11, 2.0875723481389027e-09, -2.7557314353806936e-07,
                          2.4801587289487073e-05, -0.0013888888888874131, 0.041666666666666602);
  return top + (((1.0 - top) - half_square) + mul_add(s * s, p, -(r * low)));
}

FACULA_FN double sin(double x) {
  if constexpr (on_device) return FACULA_LIBM(sin)(x);
  const QuarterTurnsDouble t = quarter_turns(x);
  const double value = t.quarter & 1 ? cos_kernel(t.high, t.low) : sin_kernel(t.high, t.low);
  return abs(x) < 0x1p-27 ? x : from_bits(bits(value) ^ ((t.quarter & 2) << 62));
}

FACULA_FN double cos(double x) {
  if constexpr (on_device) return FACULA_LIBM(cos)(x);
  const QuarterTurnsDouble t = quarter_turns(x);
  const double value = t.quarter & 1 ? sin_kernel(t.high, t.low) : cos_kernel(t.high, t.low);
  return from_bits(bits(value) ^ (((t.quarter + 1) & 2) << 62));
}

FACULA_FN double tan(double x) { return FACULA_LIBM(tan)(x); }
FACULA_FN double asin(double x) { return FACULA_LIBM(asin)(x); }
FACULA_FN double acos(double x) { return FACULA_LIBM(acos)(x); }
FACULA_FN double atan(double x) { return FACULA_LIBM(atan)(x); }
FACULA_FN double atan2(double y, double x) { return FACULA_LIBM(atan2)(y, x); }

// ---- error function

/// erf where |x| < 1.
FACULA_FN double erf_near_zero(double x) {
  const double s = x * x;
  const double p = horner_apart(s, s * s, -7.7724002452225595e-10, 1.3707243141214788e-08, -1.6205461863232195e-07,
                                1.6447022029839567e-06, -1.4924703572726404e-05, 0.00012055293130975034,
                                -0.00085483259147184332, 0.0052239776058213578, -0.026866170643076278,
                                0.11283791670943971, -0.37612638903183515, 0.12837916709551256);
  return mul_add(p, x, x);
}

FACULA_FN double erf(double x) {
  const double a = abs(x), small = erf_near_zero(x);
  // Beyond, erf(a) = 1 - exp(-q(a - 1)); from 5.95 on it rounds to 1.
  const double u = clamp(a, 0.0, 5.95) - 1.0;
  const double q =
      horner_apart(u, u * u, -1.0555482346395705e-12, 2.9210091882574232e-11, -3.7252426008849889e-10,
                   2.8917837944212963e-09, -1.5031769530272659e-08, 5.240678219959144e-08, -9.8372258343150966e-08,
                   -1.4150746682819548e-07, 2.0580775375896658e-06, -9.6073329095530669e-06, 2.7158037350299075e-05,
                   -2.6277336431584061e-05, -0.00023732267430237681, 0.001977902615603354, -0.010033825382162033,
                   0.041561098042577092, 0.8431072563586357, 2.638967514234789, 1.8496055099332482);
  const double large = copysign(1.0 - exp_normal(-q), x);
  return a < 1.0 ? small : (a >= 1.0 ? large : x);
}

FACULA_FN double erfc(double x) {
  const double a = clamp(abs(x), 0.0, 27.3);
  // e^(a^2) (1 + 2 a) erfc(a) is smooth in (a - 2) / (a + 2); a^2 is taken with its rounding error.
  const double v = (a - 2.0) / (a + 2.0);
  const double p =
      horner(v, -9.844387783469698e-08, 1.7483255095513319e-07, 3.4467168631981958e-07, -3.6749008223528563e-07,
             -9.8710786524641129e-07, -5.7793411292060695e-07, 1.5628990732577642e-06, 5.1579706109160368e-06,
             3.6994375808031431e-06, -1.3470719047840262e-05, -3.6423049279979864e-05, -1.5145992020442034e-06,
             0.00015103950067737028, 0.00020636786957744377, -0.00045434090001778899, -0.0014568140045286009,
             0.0012713389723317385, 0.0087226538786902598, -0.0080340150827119469, -0.054220000992117622,
             0.16405128003344763, -0.16603039761528851, -0.092763826585746043, 1.2769783815525286);
  const double s = a * a;
  const double scaled = p / mul_add(2.0, a, 1.0);
  const double tail = exp(-s) * mul_add(scaled, -product_error(a, a, s), scaled);
  const double near = 1.0 - erf_near_zero(x);
  return abs(x) < 0.5 ? near : (x < 0.0 ? 2.0 - tail : (x >= 0.0 ? tail : x));
}

}  // namespace facula::kernels
