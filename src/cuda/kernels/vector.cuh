// Neighboring elements by one access: vectors, and conversions of all their elements, two by one instruction where the
// device has it.
#pragma once

#include "fast_division.h"
#include "types.cuh"

namespace facula::cuda {

/// A power of two of elements. Accesses are of 16 bytes at most, to multiples of that or of the vector's size.
template <class T, int n>
struct alignas(sizeof(T) * n <= 16 ? sizeof(T) * n : 16) Vector {
  T at[n];
};

template <int n, class T>
FACULA_FN Vector<T, n> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, n>*>(from);
}
template <class T, int n>
FACULA_FN void store_vector(T* to, const Vector<T, n>& elements) {
  *reinterpret_cast<Vector<T, n>*>(to) = elements;
}

/// Neighbors at a multiple of kBytes, by accesses of as many.
template <int kWide, int kBytes, class M>
FACULA_FN Vector<M, kWide> load_neighbors(const M* from) {
  constexpr int kFit = kBytes / int(sizeof(M)), kPart = kFit < kWide ? kFit : kWide;
  Vector<M, kWide> all;
  if constexpr (kPart < 2) {
#pragma unroll
    for (int k = 0; k < kWide; ++k) all.at[k] = from[k];
  } else {
#pragma unroll
    for (int k = 0; k < kWide; k += kPart) {
      const Vector<M, kPart> part = load_vector<kPart>(from + k);
#pragma unroll
      for (int j = 0; j < kPart; ++j) all.at[k + j] = part.at[j];
    }
  }
  return all;
}

/// Two neighbors of 8 or 16 bits as one number; `low` comes first in memory.
template <class T>
using BitsOfPair = typename BitsOfSize<2 * sizeof(T)>::type;
template <class T>
FACULA_FN BitsOfPair<T> narrow_pair(float low, float high) {
#if FACULA_ARCH >= 800
  if constexpr (is_same_type<T, Float16> || is_same_type<T, BFloat16>) {
    UInt32 pair;
    if constexpr (is_same_type<T, BFloat16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
#endif
  if constexpr (has_float8_instructions<T>) return narrow_float8<T>(low, high);
  return BitsOfPair<T>(T(low).bits | UInt32(T(high).bits) << 8 * sizeof(T));
}

template <class T>
constexpr bool is_narrow_type = sizeof(T) <= 2 && !is_same_type<T, Compute<T>>;

/// All elements as what is computed with.
template <class T, int n>
FACULA_FN Vector<Compute<T>, n> widen_all(const Vector<T, n>& from) {
  Vector<Compute<T>, n> wide;
  if constexpr (is_same_type<T, BFloat16> &&
                n % 2 == 0) {  // one instruction each, where taking a half apart is one more
    const auto pairs = __builtin_bit_cast(Vector<UInt32, n / 2>, from);
#pragma unroll
    for (int j = 0; j < n / 2; ++j) {
      wide.at[2 * j] = kernels::from_bits(pairs.at[j] << 16);
      wide.at[2 * j + 1] = kernels::from_bits(pairs.at[j] & 0xffff0000u);
    }
#if FACULA_ARCH >= 890
  } else if constexpr (is_same_type<T, Float8E4M3FN> && n % 2 == 0) {
    const auto pairs = __builtin_bit_cast(Vector<UInt16, n / 2>, from);
#pragma unroll
    for (int j = 0; j < n / 2; ++j) {
      const auto halves = __builtin_bit_cast(Vector<Float16, 2>, widen_float8(pairs.at[j]));
      wide.at[2 * j] = halves.at[0];
      wide.at[2 * j + 1] = halves.at[1];
    }
#endif
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) wide.at[j] = Compute<T>(from.at[j]);
  }
  return wide;
}

/// The other way. A narrow type is written like T and cannot be deduced.
template <class T, int n>
FACULA_FN Vector<T, n> narrow_all(const Vector<Compute<T>, n>& from) {
  Vector<T, n> narrow;
  if constexpr (is_narrow_type<T> && n % 2 == 0) {
    Vector<BitsOfPair<T>, n / 2> pairs;
#pragma unroll
    for (int j = 0; j < n / 2; ++j) pairs.at[j] = narrow_pair<T>(from.at[2 * j], from.at[2 * j + 1]);
    narrow = __builtin_bit_cast(Vector<T, n>, pairs);
  } else if constexpr (is_same_type<T, Complex32>) {
    Vector<UInt32, n> pairs;
#pragma unroll
    for (int j = 0; j < n; ++j) pairs.at[j] = narrow_pair<Float16>(from.at[j].re, from.at[j].im);
    narrow = __builtin_bit_cast(Vector<T, n>, pairs);
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) narrow.at[j] = T(from.at[j]);
  }
  return narrow;
}

}  // namespace facula::cuda
