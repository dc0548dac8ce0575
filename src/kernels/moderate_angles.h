// sin and cos of angles that are not large, in half the time: fused steps take the half (double: quarter) turns off.
// For other angles, and without fused hardware, sin and cos of math.h serve.
#pragma once

#include "math.h"

namespace facula::kernels {

inline constexpr float moderate_angle = 32000.0f;
inline constexpr double moderate_angle_double = 0x1p20;

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

FACULA_FN QuarterTurnsDouble quarter_turns_moderate(double x) {
  const double shifted = mul_add(x, 2 / pi, double_to_integer), n = shifted - double_to_integer;
  constexpr double part0 = 0x1.921fb54442d18p+0, part1 = 0x1.1a62633145c06p-54, part2 = 0x1.c1cd129024e08p-107;
  const double first = mul_add(n, -part0, x);  // exact
  const double product = n * part1, r = first - product;
  const double low = mul_add(n, -part2, ((first - r) - product) - product_error(n, part1, product));
  return {r, low, bits(shifted)};
}

FACULA_FN double sin_moderate(double x) {
  const QuarterTurnsDouble t = quarter_turns_moderate(x);
  const double value = t.quarter & 1 ? cos_kernel(t.high, t.low) : sin_kernel(t.high, t.low);
  return abs(x) < 0x1p-27 ? x : from_bits(bits(value) ^ ((t.quarter & 2) << 62));
}

FACULA_FN double cos_moderate(double x) {
  const QuarterTurnsDouble t = quarter_turns_moderate(x);
  const double value = t.quarter & 1 ? sin_kernel(t.high, t.low) : cos_kernel(t.high, t.low);
  return from_bits(bits(value) ^ (((t.quarter + 1) & 2) << 62));
}

}  // namespace facula::kernels
