// Kernels over floating-point elements that compute in another type than they store: float16 and bfloat16 in float32.
#pragma once

#include <bit>
#include <type_traits>

#include "core/dtype.h"
#include "core/error.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

/// Calls f with the storage type T and the compute type A of `dtype`; `op` names the caller in the error.
template <class F>
void visit_floating(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32: return f(float{}, float{});
    case DType::Float64: return f(double{}, double{});
    case DType::Float16: return f(Half{}, float{});
    case DType::BFloat16: return f(BFloat16{}, float{});
    default: throw_error(ErrorKind::NotImplemented, op, ": not implemented for dtype ", dtype);
  }
}

/// An element in its compute type.
template <class A>
A load(A value) {
  return value;
}
/// float16 by its bits, so that loops become vector code. A product gives subnormal numbers their exponent.
inline float load(Half value) {
  const uint32_t magnitude = value.bits & 0x7fffu, sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t infinite = magnitude >= 0x7c00 ? 0x7f800000 : 0, quiet = magnitude > 0x7c00 ? 0x400000 : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | infinite | quiet | sign);
}
inline float load(BFloat16 value) { return static_cast<float>(value); }

/// To nearest: what is below normal numbers of float16 is rounded by a sum whose last place is their step.
inline Half rounded_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t finite = magnitude < 0x38800000 ? small : normal;
  const uint32_t limited = magnitude >= 0x477ff000 ? 0x7c00 : finite;  // 65520 and more
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  Half result;
  result.bits = static_cast<uint16_t>((magnitude > 0x7f800000 ? nan : limited) | (bits >> 16 & 0x8000));
  return result;
}

/// A value in its storage type. float16 and bfloat16 without branches, so that loops become vector code.
template <class T, class A>
T rounded(A value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value)), high = bits >> 16;
    const uint32_t nearest = (bits + 0x7fff + (high & 1)) >> 16, nan = 0x7fc0 | (high & 0x8000);
    BFloat16 result;
    result.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest);
    return result;
  } else if constexpr (std::is_same_v<T, Half>) {
    return rounded_to_half(static_cast<float>(value));
  } else {
    return T(value);
  }
}

}  // namespace facula::cpu::FACULA_ISA
