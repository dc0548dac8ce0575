// Vectors of elements in their compute type: float16 and bfloat16 are converted to float32 while they are read, and
// rounded while they are written, in registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/dtype.h"
#include "cpu/isa/floating.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
constexpr bool is_narrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// What elements of T are computed in.
template <class T>
using Computed = std::conditional_t<is_narrow<T>, float, T>;
template <class T, int bytes = kVectorBytes>
using WideVector = typename VectorOf<Computed<T>, bytes>::type;
template <class T, int bytes = kVectorBytes>
constexpr int kWideLanes = VectorOf<Computed<T>, bytes>::lanes;

/// 16 bits as words. Compilers take the longer vectors apart, unless the code says how.
template <int bytes>
[[gnu::always_inline]] inline typename VectorOf<uint32_t, bytes>::type widened_bits(
    typename VectorOf<uint16_t, bytes / 2>::type narrow) {
  using Bits = typename VectorOf<uint32_t, bytes>::type;
#if defined(__AVX512F__)
  if constexpr (bytes == 64)
    return reinterpret_cast<Bits>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(narrow)));
#endif
#if defined(__AVX2__)
  if constexpr (bytes == 32) return reinterpret_cast<Bits>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(narrow)));
#endif
  return __builtin_convertvector(narrow, Bits);
}

/// Narrow elements in the compute type.
template <class T, int bytes>
[[gnu::always_inline]] inline WideVector<T, bytes> widened(typename VectorOf<uint16_t, bytes / 2>::type narrow) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return reinterpret_cast<WideVector<T, bytes>>(widened_bits<bytes>(narrow) << 16);
  } else {
#if defined(__AVX512F__)
    if constexpr (bytes == 64) return _mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(narrow));
#endif
#if defined(__F16C__)
    if constexpr (bytes == 32) return _mm256_cvtph_ps(reinterpret_cast<__m128i>(narrow));
#endif
    WideVector<T, bytes> wide{};
    for (int i = 0; i < kWideLanes<T, bytes>; ++i) wide[i] = load(std::bit_cast<T>(static_cast<uint16_t>(narrow[i])));
    return wide;
  }
}

/// A vector of elements from memory of any alignment, in the compute type.
template <int bytes = kVectorBytes, class T>
[[gnu::always_inline]] inline WideVector<T, bytes> load_wide(const T* from) {
  if constexpr (!is_narrow<T>) {
    return load_vector<bytes>(from);
  } else {
    typename VectorOf<uint16_t, bytes / 2>::type narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    return widened<T, bytes>(narrow);
  }
}

/// bfloat16 in the high halves of words, to nearest, NaN quiet; below them is anything.
template <class V>
[[gnu::always_inline]] inline auto bfloat_words(V v) {
  using Bits = typename VectorOf<uint32_t, sizeof(V)>::type;
  const Bits x = reinterpret_cast<Bits>(v), nan = (x & 0x80000000u) | 0x7fc00000u;
  return v != v ? nan : x + (x >> 16 & 1) + 0x7fff;
}

/// Writes a vector of the compute type as elements of T.
template <class T, class V>
[[gnu::always_inline]] inline void store_rounded(T* to, V v) {
  constexpr int bytes = sizeof(V);
  if constexpr (!is_narrow<T>) {
    std::memcpy(to, &v, sizeof v);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
#if defined(__AVX2__) && !defined(__AVX512VL__)
    if constexpr (bytes == 32) {  // a compiler takes the words apart
      const __m256i words = reinterpret_cast<__m256i>((bfloat_words(v) >> 16));
      const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      std::memcpy(to, &packed, sizeof packed);
      return;
    }
#endif
    const auto narrow = __builtin_convertvector((bfloat_words(v) >> 16), typename VectorOf<uint16_t, bytes / 2>::type);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
#if defined(__AVX512F__)
    if constexpr (bytes == 64) {
      const __m256i narrow = _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT);
      std::memcpy(to, &narrow, sizeof narrow);
      return;
    }
#endif
#if defined(__F16C__)
    if constexpr (bytes == 32) {
      const __m128i narrow = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
      std::memcpy(to, &narrow, sizeof narrow);
      return;
    }
#endif
    for (int i = 0; i < kWideLanes<T, bytes>; ++i) to[i] = rounded<T>(v[i]);
  }
}

#if defined(__AVX512F__)
/// The first n elements, fewer than a vector has; the other lanes are zero.
template <class T>
[[gnu::always_inline]] inline WideVector<T> load_wide_first(const T* from, int64_t n) {
  if constexpr (!is_narrow<T>) {
    return load_first(from, n, T(0));
  } else {
    const auto narrow = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), from);
    return widened<T, 64>(reinterpret_cast<typename VectorOf<uint16_t, 32>::type>(narrow));
  }
}
#endif

/// Two vectors, one behind the other: bfloat16 is the high half of each word.
template <class T, class V, size_t... i>
[[gnu::always_inline]] inline void store_halves(T* to, V low, V high, std::index_sequence<i...>) {
  using Narrow = typename VectorOf<uint16_t, sizeof(V)>::type;
  const auto a = reinterpret_cast<Narrow>(bfloat_words(low)), b = reinterpret_cast<Narrow>(bfloat_words(high));
  const auto narrow = __builtin_shufflevector(a, b, static_cast<int>(2 * i + 1)...);
  std::memcpy(to, &narrow, sizeof narrow);
}
template <class T, class V>
[[gnu::always_inline]] inline void store_neighbors(T* to, V low, V high) {
  if constexpr (std::is_same_v<T, BFloat16> && sizeof(V) == 64) {
    store_halves(to, low, high, std::make_index_sequence<32>());
  } else {
    store_rounded(to, low);
    store_rounded(to + kWideLanes<T, sizeof(V)>, high);
  }
}

/// Two vectors of neighbors, in the order of load_pair().
template <class V>
struct PairOf {
  V first, second;
};

/// Even and odd elements of bfloat16, whose words are taken apart by one instruction each; the lower and the upper ones
/// of other types.
template <class T>
[[gnu::always_inline]] inline PairOf<WideVector<T>> load_pair(const T* from) {
  using V = WideVector<T>;
  if constexpr (std::is_same_v<T, BFloat16>) {
    typename VectorOf<uint32_t>::type words;
    std::memcpy(&words, from, sizeof words);
    return {reinterpret_cast<V>(words << 16), reinterpret_cast<V>(words & 0xffff0000u)};
  } else {
    return {load_wide(from), load_wide(from + kWideLanes<T>)};
  }
}
/// The first n of a pair's elements; the others are zero.
template <class T>
[[gnu::always_inline]] inline PairOf<WideVector<T>> load_first_pair(const T* from, int64_t n) {
  T buffer[2 * kWideLanes<T>] = {};
  std::memcpy(buffer, from, static_cast<size_t>(n) * sizeof(T));
  return load_pair(buffer);
}

template <class T, class V>
[[gnu::always_inline]] inline void store_pair(T* to, PairOf<V> v) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const auto words = (bfloat_words(v.first) >> 16) | (bfloat_words(v.second) & 0xffff0000u);
    std::memcpy(to, &words, sizeof words);
  } else {
    store_rounded(to, v.first);
    store_rounded(to + kWideLanes<T>, v.second);
  }
}
template <class T, class V>
[[gnu::always_inline]] inline void store_first_pair(T* to, int64_t n, PairOf<V> v) {
  T buffer[2 * kWideLanes<T>];
  store_pair(buffer, v);
  std::memcpy(to, buffer, static_cast<size_t>(n) * sizeof(T));
}

/// Lanes of two vectors by turns.
template <class V, size_t... i>
[[gnu::always_inline]] inline PairOf<V> interleaved(V even, V odd, std::index_sequence<i...>) {
  constexpr int lanes = static_cast<int>(sizeof...(i));
  return {__builtin_shufflevector(even, odd, static_cast<int>(i / 2 + i % 2 * lanes)...),
          __builtin_shufflevector(even, odd, static_cast<int>(lanes / 2 + i / 2 + i % 2 * lanes)...)};
}
/// What load_pair() has read, in the order of memory.
template <class T, class V>
[[gnu::always_inline]] inline PairOf<V> in_order(PairOf<V> v) {
  if constexpr (!std::is_same_v<T, BFloat16>) return v;
  else return interleaved(v.first, v.second, std::make_index_sequence<kWideLanes<T>>());
}

}  // namespace facula::cpu::FACULA_ISA
