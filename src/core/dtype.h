// Defines element types: the enum, their properties, PyTorch's promotion rule, and the type switch `visit_dtype`.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/error.h"
#include "core/half.h"

namespace facula {

// X(enum name, C++ type, public name, legacy tensor name)
#define FACULA_DTYPES(X)                                                            \
  X(Bool, bool, "bool", "Bool")                                                     \
  X(UInt8, uint8_t, "uint8", "Byte")                                                \
  X(Int8, int8_t, "int8", "Char")                                                   \
  X(Int16, int16_t, "int16", "Short")                                               \
  X(Int32, int32_t, "int32", "Int")                                                 \
  X(Int64, int64_t, "int64", "Long")                                                \
  X(UInt16, uint16_t, "uint16", "UInt16")                                           \
  X(UInt32, uint32_t, "uint32", "UInt32")                                           \
  X(UInt64, uint64_t, "uint64", "UInt64")                                           \
  X(Float16, Half, "float16", "Half")                                               \
  X(BFloat16, ::facula::BFloat16, "bfloat16", "BFloat16")                           \
  X(Float32, float, "float32", "Float")                                             \
  X(Float64, double, "float64", "Double")                                           \
  X(Complex32, ComplexHalf, "complex32", "ComplexHalf")                             \
  X(Complex64, std::complex<float>, "complex64", "ComplexFloat")                    \
  X(Complex128, std::complex<double>, "complex128", "ComplexDouble")                \
  X(Float8E4M3FN, ::facula::Float8E4M3FN, "float8_e4m3fn", "Float8_e4m3fn")         \
  X(Float8E5M2, ::facula::Float8E5M2, "float8_e5m2", "Float8_e5m2")                 \
  X(Float8E4M3FNUZ, ::facula::Float8E4M3FNUZ, "float8_e4m3fnuz", "Float8_e4m3fnuz") \
  X(Float8E5M2FNUZ, ::facula::Float8E5M2FNUZ, "float8_e5m2fnuz", "Float8_e5m2fnuz")

enum class DType : uint8_t {
#define X(name, ...) name,
  FACULA_DTYPES(X)
#undef X
};

constexpr int kDTypes = 20;

enum class DTypeClass : uint8_t { Bool, Integral, Floating, Complex };

struct DTypeInfo {
  std::string_view name;    // float32
  std::string_view legacy;  // Float
  uint8_t size;
  uint8_t align;
};

constexpr std::array<DTypeInfo, kDTypes> kDTypeInfo = {{
#define X(id, type, name, legacy) {name, legacy, sizeof(type), alignof(type)},
    FACULA_DTYPES(X)
#undef X
}};

constexpr int index(DType dtype) { return static_cast<int>(dtype); }
constexpr int64_t item_size(DType dtype) { return kDTypeInfo[index(dtype)].size; }
constexpr std::string_view name(DType dtype) { return kDTypeInfo[index(dtype)].name; }
constexpr std::string_view legacy_name(DType dtype) { return kDTypeInfo[index(dtype)].legacy; }

constexpr bool is_float8(DType d) { return d >= DType::Float8E4M3FN; }
constexpr bool is_integral(DType d) { return d >= DType::UInt8 && d <= DType::UInt64; }
constexpr bool is_bits(DType d) { return d <= DType::UInt64; }  // integers and bool
constexpr bool is_floating(DType d) { return (d >= DType::Float16 && d <= DType::Float64) || is_float8(d); }
constexpr bool is_complex(DType d) { return d >= DType::Complex32 && d <= DType::Complex128; }
constexpr bool is_inexact(DType d) { return is_floating(d) || is_complex(d); }
constexpr bool is_half(DType d) { return d == DType::Float16 || d == DType::BFloat16; }
constexpr bool is_signed(DType d) {
  return !(d == DType::Bool || d == DType::UInt8 || (d >= DType::UInt16 && d <= DType::UInt64));
}
constexpr DTypeClass dtype_class(DType d) {
  return is_complex(d)      ? DTypeClass::Complex
         : is_floating(d)   ? DTypeClass::Floating
         : d == DType::Bool ? DTypeClass::Bool
                            : DTypeClass::Integral;
}

constexpr DType real_dtype(DType d) {
  switch (d) {
    case DType::Complex32: return DType::Float16;
    case DType::Complex64: return DType::Float32;
    case DType::Complex128: return DType::Float64;
    default: return d;
  }
}

constexpr DType complex_dtype(DType d) {
  switch (d) {
    case DType::Float16: return DType::Complex32;
    case DType::Float64:
    case DType::Complex128: return DType::Complex128;
    case DType::Complex32: return DType::Complex32;
    default: return DType::Complex64;
  }
}

/// The dtype in which a kernel computes on `d`: the narrow floats are widened.
constexpr DType compute_dtype(DType d) {
  return is_half(d) || is_float8(d) ? DType::Float32 : d == DType::Complex32 ? DType::Complex64 : d;
}

/// PyTorch's promotion lattice; throws a TypeError naming both where there is no common dtype.
DType promote(DType a, DType b);

/// Whether a result of dtype `from` may be written into a tensor of dtype `to` (never to a lower class).
constexpr bool can_cast(DType from, DType to) {
  return static_cast<int>(dtype_class(from)) <= static_cast<int>(dtype_class(to)) ||
         (dtype_class(from) == DTypeClass::Integral && dtype_class(to) == DTypeClass::Integral);
}

DType default_dtype();
void set_default_dtype(DType dtype);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>{})` with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define X(id, type, ...) \
  case DType::id: return f(TypeTag<type>{});
    FACULA_DTYPES(X)
#undef X
  }
  __builtin_unreachable();
}

template <class T>
constexpr DType dtype_of() {
#define X(id, type, ...) \
  if constexpr (std::is_same_v<T, type>) return DType::id;
  FACULA_DTYPES(X)
#undef X
}

}  // namespace facula
