// Two elements of memory combined into one: what accumulating scatters do at each place.
#pragma once

#include <bit>

#include "core/checked.h"
#include "core/dtype.h"
#include "cpu/isa.h"
#include "ops/index.h"

namespace facula::cpu::FACULA_ISA {

// One of two elements, by their bits and without a branch: which one is better changes as often as not.
template <class T>
T pick(bool second, T a, T b) {
  using Bits = std::conditional_t<
      sizeof(T) == 8, uint64_t,
      std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
  return std::bit_cast<T>(static_cast<Bits>(x ^ ((x ^ y) & (Bits{0} - static_cast<Bits>(second)))));
}
template <class T>
T minimum_or_nan(T a, T b) {
  return pick((b < a) | (b != b), a, b);
}
template <class T>
T maximum_or_nan(T a, T b) {
  return pick((b > a) | (b != b), a, b);
}

template <Combine C, class T>
T combine(T old, T value) {
  if constexpr (C == Combine::Assign) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return C == Combine::Add || C == Combine::Max ? (old || value) : (old && value);
  } else if constexpr (std::is_same_v<T, ComplexHalf>) {
    using Wide = std::complex<float>;
    Wide wide = combine<C>(Wide(static_cast<float>(old.re), static_cast<float>(old.im)),
                           Wide(static_cast<float>(value.re), static_cast<float>(value.im)));
    return {wide.real(), wide.imag()};
  } else if constexpr (requires { value.real(); }) {
    // complex numbers have no order: the op has refused Max and Min
    if constexpr (C == Combine::Multiply) {
      return T(old.real() * value.real() - old.imag() * value.imag(),
               old.real() * value.imag() + old.imag() * value.real());
    } else {
      return old + value;
    }
  } else if constexpr (!std::is_arithmetic_v<T>) {
    return T(combine<C>(static_cast<float>(old), static_cast<float>(value)));
  } else if constexpr (C == Combine::Add) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapping_add(old, value));
    else return old + value;
  } else if constexpr (C == Combine::Multiply) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapping_mul(old, value));
    else return old * value;
  } else if constexpr (C == Combine::Max) {
    return maximum_or_nan(old, value);
  } else {
    return minimum_or_nan(old, value);
  }
}

}  // namespace facula::cpu::FACULA_ISA
