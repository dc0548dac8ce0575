// Element types of the device, under the names of the dtypes, and conversions between them; the first include of
// every kernel file. The same text is read by NVRTC and, for the emulated device, by the host's compiler.
#pragma once

#include "complex.h"
#include "math.h"

#if defined(FACULA_EMULATED_KERNEL)
/// `T name[count]` in shared memory.
#define FACULA_SHARED(T, name, count) \
  static char name##_key;             \
  T* name = static_cast<T*>(facula_emulated_shared(&name##_key, sizeof(T) * (count)))
/// The dynamic shared memory of the launch.
#define FACULA_DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(facula_emulated_state()->block->dynamic_shared)
#else
#define FACULA_SHARED(T, name, count)                                     \
  __shared__ alignas(16) unsigned char name##_bytes[sizeof(T) * (count)]; \
  T* name = reinterpret_cast<T*>(name##_bytes)
#define FACULA_DYNAMIC_SHARED(T, name)                            \
  extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared)
#endif

/// The architecture whose instructions kernels may use, as __CUDA_ARCH__; 0 where there are none but those of C++.
#if defined(FACULA_EMULATED_KERNEL)
#define FACULA_ARCH 0
#else
#define FACULA_ARCH __CUDA_ARCH__
#endif

namespace facula::cuda {

using Bool = bool;
using UInt8 = unsigned char;
using Int8 = signed char;
using Int16 = short;
using Int32 = int;
using Int64 = long long;
using UInt16 = unsigned short;
using UInt32 = unsigned;
using UInt64 = unsigned long long;
using Float32 = float;
using Float64 = double;
using Complex64 = kernels::Complex<float>;
using Complex128 = kernels::Complex<double>;

constexpr unsigned kAllLanes = 0xffffffffu;

template <class A, class B>
constexpr bool is_same_type = false;
template <class A>
constexpr bool is_same_type<A, A> = true;

/// A floating-point format of 16 bits or fewer: exponent and mantissa bits, the exponent's bias. Stored only;
/// computing is done in float. Where the device has instructions for it, they convert (see below), to the same bits but
/// for those of NaN.
template <class Bits, int kMantissa, int kBias, UInt32 kLargest, Bits kOverflow, Bits kNan, bool kUnsignedZero>
struct Narrow {
  Bits bits;

  Narrow() = default;
  FACULA_FN Narrow(float value) : bits(narrow(value)) {}
  FACULA_FN operator float() const { return widen(bits); }

  static constexpr int kWidth = 8 * sizeof(Bits), kExponent = kWidth - 1 - kMantissa;
  static constexpr Bits kSign = Bits(1) << (kWidth - 1);
  static constexpr bool kHasInfinity = kOverflow != kNan;
  static constexpr Bits kLargestNumber = kLargest, kTooLarge = kOverflow;

  /// The smallest number that is rounded to one beyond the largest; halves go to the even one.
  FACULA_FN static float overflow_begins() {
    constexpr UInt32 largest = (kLargest << (23 - kMantissa)) + (UInt32(127 - kBias) << 23);
    return kernels::from_bits(largest + (1u << (22 - kMantissa)) + (kLargest % 2 == 0));
  }
  FACULA_FN static Bits narrow(float value) {
    const UInt32 all = kernels::bits(value), magnitude = all & 0x7fffffffu;
    const Bits sign = all >> 31 ? kSign : Bits(0);
    if (magnitude > 0x7f800000u) return kUnsignedZero ? kNan : Bits(kNan | sign);
    // in units of the last place of the result: subnormal results all have the smallest exponent
    const int exponent = int(magnitude >> 23) - 127;
    const int lowest = 1 - kBias, shift = 23 - kMantissa + (exponent < lowest ? lowest - exponent : 0);
    const UInt64 whole = (magnitude & 0x7fffffu) | (magnitude >= 0x800000u ? 0x800000u : 0u);
    if (shift > 40) return kUnsignedZero ? Bits(0) : sign;
    const UInt64 half = UInt64(1) << (shift - 1), rest = whole & ((UInt64(1) << shift) - 1);
    UInt64 kept = whole >> shift;
    kept += rest > half || (rest == half && (kept & 1));
    const UInt64 made = exponent < lowest ? kept : kept + (UInt64(exponent + kBias - 1) << kMantissa);
    if (magnitude >= 0x7f800000u || made > kLargest) return kUnsignedZero ? kOverflow : Bits(kOverflow | sign);
    return kUnsignedZero && made == 0 ? Bits(0) : Bits(Bits(made) | sign);
  }
  FACULA_FN static float widen(Bits b) {
    const UInt32 magnitude = b & Bits(~kSign), sign = UInt32(b & kSign) << (32 - kWidth);
    if (kUnsignedZero ? b == kNan : magnitude > (kHasInfinity ? kOverflow : kLargest))
      return kernels::Float<float>::nan;
    if (kHasInfinity && magnitude == kOverflow) return kernels::from_bits(sign | 0x7f800000u);
    const int exponent = int(magnitude >> kMantissa);
    const UInt32 fraction = magnitude & ((1u << kMantissa) - 1);
    if (exponent) return kernels::from_bits(sign | UInt32(exponent - kBias + 127) << 23 | fraction << (23 - kMantissa));
    const float scale = kernels::from_bits(UInt32(127 + 1 - kBias - kMantissa) << 23);
    const float value = float(fraction) * scale;
    return sign ? -value : value;
  }
};

using Float16 = Narrow<UInt16, 10, 15, 0x7bff, 0x7c00, 0x7e00, false>;
using Float8E4M3FN = Narrow<UInt8, 3, 7, 0x7e, 0x7f, 0x7f, false>;
using Float8E5M2 = Narrow<UInt8, 2, 15, 0x7b, 0x7c, 0x7e, false>;
using Float8E4M3FNUZ = Narrow<UInt8, 3, 8, 0x7f, 0x80, 0x80, true>;
using Float8E5M2FNUZ = Narrow<UInt8, 2, 16, 0x7f, 0x80, 0x80, true>;

struct BFloat16 {
  UInt16 bits;
  BFloat16() = default;
  FACULA_FN BFloat16(float value) {
#if FACULA_ARCH >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const UInt32 u = kernels::bits(value);
    bits = value != value ? UInt16(0x7fc0 | (u >> 16 & 0x8000)) : UInt16((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
  }
  FACULA_FN operator float() const { return kernels::from_bits(UInt32(bits) << 16); }
};

#if FACULA_ARCH
template <>
FACULA_FN Float16::Narrow(float value) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
}
template <>
FACULA_FN Float16::operator float() const {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
#endif

/// Every number of this format is one of Float16, which has the same exponent.
template <>
FACULA_FN Float8E5M2::operator float() const {
  return __builtin_bit_cast(Float16, UInt16(bits << 8));
}

template <class T>
constexpr bool has_float8_instructions = false;
#if FACULA_ARCH == 0 || FACULA_ARCH >= 890
template <>
constexpr bool has_float8_instructions<Float8E4M3FN> = true;
template <>
constexpr bool has_float8_instructions<Float8E5M2> = true;

/// One instruction for two neighbors, of which `low` comes first in memory. What is beyond the largest number becomes
/// that.
template <class T>
FACULA_FN UInt16 saturated_pair(float low, float high) {
#if FACULA_ARCH
  UInt16 pair;
  if constexpr (is_same_type<T, Float8E5M2>)
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  const auto saturated = [](float x) {
    const bool beyond = kernels::abs(x) >= T::overflow_begins();
    return beyond ? UInt8(T::kLargestNumber | (x < 0 ? T::kSign : 0)) : T::narrow(x);
  };
  return UInt16(saturated(low) | saturated(high) << 8);
#endif
}

/// Numbers too large become infinite, or NaN where there is no infinity.
template <class T>
FACULA_FN UInt16 narrow_float8(float low, float high) {
  const auto beyond = [](float x) { return kernels::abs(x) >= T::overflow_begins(); };
  UInt32 pair = saturated_pair<T>(low, high);
  if (beyond(low)) pair = (pair & 0xff80) | T::kTooLarge;
  if (beyond(high)) pair = (pair & 0x80ff) | T::kTooLarge << 8;
  return UInt16(pair);
}

template <>
FACULA_FN Float8E4M3FN::Narrow(float value) : bits(UInt8(narrow_float8<Float8E4M3FN>(value, 0))) {}
template <>
FACULA_FN Float8E5M2::Narrow(float value) : bits(UInt8(narrow_float8<Float8E5M2>(value, 0))) {}
#endif

#if FACULA_ARCH >= 890
/// Two neighbors as two of Float16.
FACULA_FN UInt32 widen_float8(UInt16 pair) {
  UInt32 wide;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(pair));
  return wide;
}
template <>
FACULA_FN Float8E4M3FN::operator float() const {
  return __builtin_bit_cast(Float16, UInt16(widen_float8(bits)));
}
#endif

struct Complex32 {
  Float16 re, im;
  Complex32() = default;
  FACULA_FN Complex32(Complex64 z) : re(z.re), im(z.im) {}
  FACULA_FN operator Complex64() const { return {float(re), float(im)}; }
};

// ---- conversions

/// What is computed with in the place of a type.
template <class T>
struct ComputeOf {
  using type = T;
};
#define FACULA_COMPUTE(narrow, wide) \
  template <>                        \
  struct ComputeOf<narrow> {         \
    using type = wide;               \
  };
FACULA_COMPUTE(Float16, float)
FACULA_COMPUTE(BFloat16, float)
FACULA_COMPUTE(Float8E4M3FN, float)
FACULA_COMPUTE(Float8E5M2, float)
FACULA_COMPUTE(Float8E4M3FNUZ, float)
FACULA_COMPUTE(Float8E5M2FNUZ, float)
FACULA_COMPUTE(Complex32, Complex64)
#undef FACULA_COMPUTE
template <class T>
using Compute = typename ComputeOf<T>::type;

template <class T>
constexpr bool is_complex_type = false;
template <class T>
constexpr bool is_complex_type<kernels::Complex<T>> = true;
template <class T>
constexpr bool is_floating_type = false;
template <>
constexpr bool is_floating_type<float> = true;
template <>
constexpr bool is_floating_type<double> = true;

template <class To, class From>
FACULA_FN To convert(const From& value) {
  if constexpr (is_same_type<To, From>) {
    return value;
  } else if constexpr (!is_same_type<From, Compute<From>>) {
    return convert<To>(Compute<From>(value));
  } else if constexpr (!is_same_type<To, Compute<To>>) {
    return To(convert<Compute<To>>(value));
  } else if constexpr (is_complex_type<From>) {
    if constexpr (is_complex_type<To>) return To{decltype(To::re)(value.re), decltype(To::re)(value.im)};
    else if constexpr (is_same_type<To, bool>) return value.re != 0 || value.im != 0;
    else return convert<To>(value.re);
  } else if constexpr (is_complex_type<To>) {
    return To{convert<decltype(To::re)>(value), 0};
  } else if constexpr (is_same_type<To, bool>) {
    return value != 0;
  } else if constexpr (is_floating_type<To> || !is_floating_type<From>) {
    return static_cast<To>(value);
  } else if constexpr (is_same_type<To, UInt64>) {
    return value >= From(9223372036854775808.0) ? static_cast<UInt64>(value)
                                                : static_cast<UInt64>(static_cast<Int64>(value));
  } else {
    return static_cast<To>(static_cast<Int64>(value));  // wraps, as on the CPU
  }
}

// clang-format off
#define FACULA_DEVICE_DTYPES(X)                                                                                    \
  X(Bool) X(UInt8) X(Int8) X(Int16) X(Int32) X(Int64) X(UInt16) X(UInt32) X(UInt64) X(Float16) X(BFloat16)         \
  X(Float32) X(Float64) X(Complex32) X(Complex64) X(Complex128) X(Float8E4M3FN) X(Float8E5M2) X(Float8E4M3FNUZ)    \
  X(Float8E5M2FNUZ)
// clang-format on

/// The number of a dtype, as on the host.
enum DType : int {
#define NUMBER(T) k##T,
  FACULA_DEVICE_DTYPES(NUMBER)
#undef NUMBER
};

/// An element of any dtype as a C, and the other way.
template <class C>
FACULA_RARE C load_any(const void* from, int dtype) {
  switch (dtype) {
#define CASE(T) \
  case k##T: return convert<C>(*static_cast<const T*>(from));
    FACULA_DEVICE_DTYPES(CASE)
#undef CASE
  }
  return C();
}
template <class C>
FACULA_RARE void store_any(void* to, int dtype, const C& value) {
  switch (dtype) {
#define CASE(T) \
  case k##T: *static_cast<T*>(to) = convert<T>(value); break;
    FACULA_DEVICE_DTYPES(CASE)
#undef CASE
  }
}

/// The unsigned whole number of so many bytes.
template <int kBytes>
struct BitsOfSize {
  using type = UInt32;
};
template <>
struct BitsOfSize<8> {
  using type = UInt64;
};
template <>
struct BitsOfSize<2> {
  using type = UInt16;
};
template <>
struct BitsOfSize<1> {
  using type = UInt8;
};
template <class T>
using Bits = typename BitsOfSize<sizeof(T)>::type;

/// The number of this thread among all of the grid, and how many there are.
FACULA_FN Int64 thread_number() { return Int64(blockIdx.x) * blockDim.x + threadIdx.x; }
FACULA_FN Int64 thread_count() { return Int64(gridDim.x) * blockDim.x; }

}  // namespace facula::cuda
