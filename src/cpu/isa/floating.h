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
inline float load(Half value) { return static_cast<float>(value); }
inline float load(BFloat16 value) { return static_cast<float>(value); }

/// A value in its storage type. bfloat16 without branches, so that loops become vector code.
template <class T, class A>
T rounded(A value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value)), high = bits >> 16;
    const uint32_t nearest = (bits + 0x7fff + (high & 1)) >> 16, nan = 0x7fc0 | (high & 0x8000);
    BFloat16 result;
    result.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest);
    return result;
  } else {
    return T(value);
  }
}

}  // namespace facula::cpu::FACULA_ISA
