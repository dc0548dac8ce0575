// Represents a Python number on its way into an op: bool, integer, float or complex, remembered as such because each
// promotes differently.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace facula {

class Scalar {
 public:
  Scalar() : kind_(DTypeClass::Integral), int_(0) {}
  Scalar(bool v) : kind_(DTypeClass::Bool), int_(v) {}
  Scalar(double v) : kind_(DTypeClass::Floating), float_(v) {}
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(std::complex<double> v) : kind_(DTypeClass::Complex), float_(v.real()), imag_(v.imag()) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Scalar(T v)
      : kind_(DTypeClass::Integral),
        unsigned_(std::is_unsigned_v<T> && sizeof(T) == 8),
        int_(static_cast<int64_t>(v)) {}

  DTypeClass kind() const { return kind_; }
  bool is_bool() const { return kind_ == DTypeClass::Bool; }
  bool is_integral() const { return kind_ == DTypeClass::Integral; }
  bool is_floating() const { return kind_ == DTypeClass::Floating; }
  bool is_complex() const { return kind_ == DTypeClass::Complex; }

  /// The dtype a tensor made of this number gets.
  DType dtype() const {
    switch (kind_) {
      case DTypeClass::Bool: return DType::Bool;
      case DTypeClass::Integral: return unsigned_ ? DType::UInt64 : DType::Int64;
      case DTypeClass::Floating: return default_dtype();
      default: return complex_dtype(default_dtype());
    }
  }

  double to_double() const {
    if (kind_ >= DTypeClass::Floating) return float_;
    return unsigned_ ? static_cast<double>(static_cast<uint64_t>(int_)) : static_cast<double>(int_);
  }
  int64_t to_int() const { return kind_ >= DTypeClass::Floating ? static_cast<int64_t>(float_) : int_; }
  bool to_bool() const {
    return kind_ >= DTypeClass::Floating ? float_ != 0 || (kind_ == DTypeClass::Complex && imag_ != 0) : int_ != 0;
  }
  std::complex<double> to_complex() const { return {to_double(), kind_ == DTypeClass::Complex ? imag_ : 0.0}; }

  /// The value in the C++ type of a dtype; narrowing follows C++ conversions.
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return to_bool();
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return static_cast<T>(to_complex());
    } else if constexpr (std::is_same_v<T, ComplexHalf>) {
      auto c = to_complex();
      return {static_cast<float>(c.real()), static_cast<float>(c.imag())};
    } else if constexpr (std::is_integral_v<T>) {
      return kind_ >= DTypeClass::Floating ? static_cast<T>(static_cast<int64_t>(float_)) : static_cast<T>(int_);
    } else {
      return static_cast<T>(to_double());
    }
  }

  Scalar operator-() const {
    if (is_complex()) return Scalar(-to_complex());
    return is_floating() ? Scalar(-float_) : Scalar(-int_);
  }
  Scalar conj() const { return is_complex() ? Scalar(std::conj(to_complex())) : *this; }
  bool equals(double value) const {
    return kind_ == DTypeClass::Complex ? to_complex() == value : to_double() == value;
  }

 private:
  DTypeClass kind_;
  bool unsigned_ = false;
  union {
    int64_t int_;
    double float_;
  };
  double imag_ = 0;
};

// Arithmetic on numbers stays on numbers, in full precision.
namespace detail {
template <class F>
Scalar combine(const Scalar& a, const Scalar& b, F f) {
  if (a.is_complex() || b.is_complex()) return Scalar(std::complex<double>(f(a.to_complex(), b.to_complex())));
  if (a.is_floating() || b.is_floating()) return Scalar(f(a.to_double(), b.to_double()));
  return Scalar(f(a.to_int(), b.to_int()));
}
}  // namespace detail
inline Scalar operator+(const Scalar& a, const Scalar& b) {
  return detail::combine(a, b, [](auto x, auto y) { return x + y; });
}
inline Scalar operator-(const Scalar& a, const Scalar& b) {
  return detail::combine(a, b, [](auto x, auto y) { return x - y; });
}
inline Scalar operator*(const Scalar& a, const Scalar& b) {
  return detail::combine(a, b, [](auto x, auto y) { return x * y; });
}
inline Scalar operator/(const Scalar& a, const Scalar& b) {
  if (a.is_complex() || b.is_complex()) return Scalar(a.to_complex() / b.to_complex());
  return Scalar(a.to_double() / b.to_double());
}

std::ostream& operator<<(std::ostream& out, const Scalar& scalar);

}  // namespace facula
