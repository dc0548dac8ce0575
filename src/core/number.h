// Checks that a number that is written as an element has a value in the dtype.
#pragma once

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/scalar.h"

namespace facula {

/// Whether `s` can be an element of type T: no overflow, no imaginary part where there is no room for it.
template <class T>
bool has_value(const Scalar& s) {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>> ||
                       std::is_same_v<T, ComplexHalf>) {
    return true;
  } else {
    if (s.is_complex() && s.to_complex().imag() != 0) return false;
    double v = s.to_double();
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      constexpr double end = 2.0 * static_cast<double>(T(1) << (Limits::digits - 1));  // the first number beyond
      if (s.dtype() == DType::UInt64) return static_cast<uint64_t>(s.to_int()) <= static_cast<uint64_t>(Limits::max());
      if (s.kind() <= DTypeClass::Integral && !Limits::is_signed) {  // negative integers wrap around
        return sizeof(T) == 8 || std::abs(v) < end;
      }
      if (s.kind() <= DTypeClass::Integral && sizeof(T) == 8)
        return true;  // exact, where a double may round up to `end`
      return v >= static_cast<double>(Limits::lowest()) && v < end;
    } else {
      constexpr double most = std::is_same_v<T, double> ? std::numeric_limits<double>::infinity()
                              : std::is_same_v<T, Half> ? 65504.0
                                                        : 0x1.fffffep127;
      return !std::isfinite(v) || std::abs(v) <= most;
    }
  }
}

/// The element of type T that stands for `s`, which has a value there.
template <class T>
T element_of(const Scalar& s) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
    if (s.kind() >= DTypeClass::Floating && s.to_double() >= 0x1p63) return static_cast<T>(s.to_double());
  }
  return s.to<T>();
}

/// Throws a RuntimeError unless `number` has a value in `dtype`: no overflow, no imaginary part for a real dtype.
inline void require_value(const Scalar& number, DType dtype, const char* op) {
  bool fits = visit_dtype(dtype, [&]<class T>(TypeTag<T>) { return has_value<T>(number); });
  FACULA_CHECK(fits, ErrorKind::Runtime, op, ": the number must have a value in ", dtype, ", got ", number);
}

/// The same for a number that does not change the dtype of the tensor it meets: an integer among integers, any among
/// floats.
inline void require_value_if_kept(const Scalar& number, DType dtype, const char* op) {
  if (number.kind() <= dtype_class(dtype)) require_value(number, dtype, op);
}

}  // namespace facula
