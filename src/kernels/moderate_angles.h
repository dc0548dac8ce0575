// Computes sin and cos in double precision of angles that are not large, in half the time: fused steps take quarter
// turns off. For other angles, and without fused hardware, sin and cos of math.h serve. (Single precision:
// elementary_float.h.)
#pragma once

#include "math.h"

namespace facula::kernels {

inline constexpr double moderate_angle_double = 0x1p20;

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
