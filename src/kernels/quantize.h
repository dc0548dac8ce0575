// Defines the scalar functions of ops/quantize.yaml: levels that stand for values. T is float or double.
#pragma once

#include "math.h"

namespace facula::kernels {

/// The level of a value before it is clamped; the inverse of the scale is rounded, as on the reference. What a zero
/// point has beside an integer is added before rounding.
template <class T>
FACULA_FN T free_level(T self, T scale, T zero_point) {
  const T value = self * (T(1) / scale), whole = round_half_even(zero_point);
  return round_half_even(value + (zero_point - whole)) + whole;
}

/// Comparisons are this way round so that NaN has the lowest level.
template <class T>
FACULA_FN T quantize_level(T self, T scale, T zero_point, T low, T high) {
  const T level = free_level(self, scale, zero_point), above = level > low ? level : low;
  return above < high ? above : high;
}

template <class T>
FACULA_FN bool quantize_inside(T self, T scale, T zero_point, T low, T high) {
  const T level = free_level(self, scale, zero_point);
  return level >= low && level <= high;
}

template <class T>
FACULA_FN T fake_quantize(T self, T scale, T zero_point, T low, T high) {
  return (quantize_level(self, scale, zero_point, low, high) - zero_point) * scale;
}

}  // namespace facula::kernels
