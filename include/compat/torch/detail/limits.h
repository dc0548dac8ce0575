// What the narrow floating-point types have besides, as libtorch's do: std::numeric_limits, assignments that compute.
#pragma once

#include <bit>
#include <limits>
#include <type_traits>

#include "core/half.h"

namespace torch::detail {

/// Of a format with an implicit leading digit: `digits` of precision, exponents from `least` to `most`.
template <class T, int digits_, int decimals, int decimals_exact, int least, int least10, int most, int most10>
struct NarrowLimits {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr auto has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false, is_iec559 = true, is_bounded = true, is_modulo = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr auto round_style = std::round_to_nearest;
  static constexpr int digits = digits_, digits10 = decimals, max_digits10 = decimals_exact, radix = 2;
  static constexpr int min_exponent = least, min_exponent10 = least10, max_exponent = most, max_exponent10 = most10;

  static constexpr T min() { return of(uint16_t{1} << (digits - 1)); }
  static constexpr T max() { return of(infinite - 1); }
  static constexpr T lowest() { return of((infinite - 1) | 0x8000); }
  static constexpr T epsilon() { return of((most - digits) << (digits - 1)); }
  static constexpr T round_error() { return of((most - 2) << (digits - 1)); }
  static constexpr T infinity() { return of(infinite); }
  static constexpr T quiet_NaN() { return of(infinite | 1 << (digits - 2)); }
  static constexpr T signaling_NaN() { return of(infinite | 1); }
  static constexpr T denorm_min() { return of(1); }

 private:
  static constexpr int infinite = 0x8000 - (1 << (digits - 1));
  static constexpr T of(int bits) { return std::bit_cast<T>(static_cast<uint16_t>(bits)); }
};

template <class T>
constexpr bool is_narrow = std::is_same_v<T, facula::Half> || std::is_same_v<T, facula::BFloat16>;

}  // namespace torch::detail

namespace facula {  // where an operator is found by its operands

#define FACULA_ASSIGNMENT(op)                  \
  template <class T>                           \
    requires(torch::detail::is_narrow<T>)      \
  T& operator op##=(T & number, float other) { \
    return number = T(float(number) op other); \
  }
FACULA_ASSIGNMENT(+)
FACULA_ASSIGNMENT(-)
FACULA_ASSIGNMENT(*)
FACULA_ASSIGNMENT(/)
#undef FACULA_ASSIGNMENT

}  // namespace facula

template <>
struct std::numeric_limits<facula::Half> : torch::detail::NarrowLimits<facula::Half, 11, 3, 5, -13, -4, 16, 4> {};
template <>
struct std::numeric_limits<facula::BFloat16>
    : torch::detail::NarrowLimits<facula::BFloat16, 8, 2, 4, -125, -37, 128, 38> {};
