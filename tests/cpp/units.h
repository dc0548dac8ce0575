// Errors in units in the last place (ULP).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

/// Size of one unit in the last place of T near `value`.
template <class T>
long double ulp(long double value) {
  const int digits = std::numeric_limits<T>::digits, lowest = std::numeric_limits<T>::min_exponent - 1;
  const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
  return std::ldexp(1.0L, exponent - digits + 1);
}

/// Distance of `actual` from `expected` in ULP; 0 where both are the same special value, huge where only one
/// is.
template <class T>
long double error_in_ulp(T actual, long double expected) {
  const T rounded = static_cast<T>(expected);
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : 1e30L;
  if (std::isinf(rounded) || std::isinf(actual)) {
    if (rounded == actual) return 0;
    // One side rounded to infinity: measure from the largest finite number.
    const T finite = std::copysign(std::numeric_limits<T>::max(), rounded);
    return std::isinf(rounded) && actual == finite ? 1 : (std::fabs(expected) >= std::fabs(finite) ? 1 : 1e30L);
  }
  if (actual == 0 && expected == 0 && std::signbit(actual) != std::signbit(expected)) return 1e30L;
  return std::fabs(actual - expected) / ulp<T>(expected);
}
