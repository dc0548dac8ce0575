// Defines the narrow floating-point types: storage formats with conversions to and from float; arithmetic is done in
// float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace facula {

namespace detail {

inline uint16_t float_to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7fc0 | ((bits >> 16) & 0x8000);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float half_to_float(uint16_t h) {
  // Shift the exponent field into place, then scale by 2^112; infinities and NaN are put right by a select.
  uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t bits = std::bit_cast<uint32_t>(scaled);
  bits = (h & 0x7c00) == 0x7c00 ? (magnitude | 0x7f800000u) : bits;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(h & 0x8000) << 16);
}

inline uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;
  // Values that round to 65520 or more overflow to infinity.
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;
  if (magnitude < 0x38800000u) {  // subnormal result: let the float adder round to a multiple of 2^-24
    float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) - 0x3f000000u);
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

/// Rounds to a small float format with `E` exponent and `M` mantissa bits and the given bias (round to nearest even).
/// Values beyond `largest` become `overflow`; NaN becomes `nan`; `unsigned_zero` formats have no -0.
struct SmallFormat {
  int mantissa;
  int bias;
  float largest;
  uint8_t overflow;
  uint8_t nan;
  bool unsigned_zero;
};

inline uint8_t float_to_small(float value, const SmallFormat& f) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  uint8_t signed_nan = f.unsigned_zero ? f.nan : static_cast<uint8_t>(f.nan | sign);
  if (value != value) return signed_nan;
  float a = std::fabs(value);
  int exponent = 0;
  std::frexp(a, &exponent);
  int smallest = 1 - f.bias - f.mantissa;  // exponent of the last place of a subnormal
  int last_place = a == 0 ? smallest : (exponent - 1 - f.mantissa > smallest ? exponent - 1 - f.mantissa : smallest);
  float rounded = std::ldexp(std::nearbyint(std::ldexp(a, -last_place)), last_place);
  if (rounded > f.largest || std::isinf(a)) {
    return f.unsigned_zero ? f.overflow : static_cast<uint8_t>(f.overflow | sign);
  }
  if (rounded == 0) return f.unsigned_zero ? 0 : sign;
  std::frexp(rounded, &exponent);
  int field = exponent - 1 + f.bias;
  uint32_t code;
  if (field <= 0) {
    code = static_cast<uint32_t>(std::ldexp(rounded, -smallest));
  } else {
    uint32_t whole = static_cast<uint32_t>(std::ldexp(rounded, f.mantissa - (exponent - 1)));
    code = (static_cast<uint32_t>(field) << f.mantissa) | (whole & ((1u << f.mantissa) - 1));
  }
  return static_cast<uint8_t>(code | sign);
}

inline float small_to_float(uint8_t code, int mantissa, int bias) {
  int field = (code & 0x7f) >> mantissa;
  int fraction = code & ((1 << mantissa) - 1);
  float magnitude = field == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa)
                               : std::ldexp(static_cast<float>(fraction | (1 << mantissa)), field - bias - mantissa);
  return code & 0x80 ? -magnitude : magnitude;
}

}  // namespace detail

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Half {
  uint16_t bits;
  Half() = default;
  Half(float value) : bits(detail::float_to_half(value)) {}
  operator float() const { return detail::half_to_float(bits); }
};

struct Float8E4M3FN {
  uint8_t bits;
  Float8E4M3FN() = default;
  Float8E4M3FN(float v) : bits(detail::float_to_small(v, {3, 7, 448.0f, 0x7f, 0x7f, false})) {}
  operator float() const { return (bits & 0x7f) == 0x7f ? NAN : detail::small_to_float(bits, 3, 7); }
};

struct Float8E5M2 {
  uint8_t bits;
  Float8E5M2() = default;
  Float8E5M2(float v) : bits(detail::float_to_small(v, {2, 15, 57344.0f, 0x7c, 0x7f, false})) {}
  operator float() const {
    if ((bits & 0x7c) == 0x7c) return bits & 3 ? NAN : (bits & 0x80 ? -INFINITY : INFINITY);
    return detail::small_to_float(bits, 2, 15);
  }
};

struct Float8E4M3FNUZ {
  uint8_t bits;
  Float8E4M3FNUZ() = default;
  Float8E4M3FNUZ(float v) : bits(detail::float_to_small(v, {3, 8, 240.0f, 0x80, 0x80, true})) {}
  operator float() const { return bits == 0x80 ? NAN : detail::small_to_float(bits, 3, 8); }
};

struct Float8E5M2FNUZ {
  uint8_t bits;
  Float8E5M2FNUZ() = default;
  Float8E5M2FNUZ(float v) : bits(detail::float_to_small(v, {2, 16, 57344.0f, 0x80, 0x80, true})) {}
  operator float() const { return bits == 0x80 ? NAN : detail::small_to_float(bits, 2, 16); }
};

struct ComplexHalf {
  Half re, im;
};

}  // namespace facula
