// Vectors as wide as the registers of the level, and merging their lanes.
#pragma once

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

template <class T, int bytes = kVectorBytes>
struct VectorOf {
  static constexpr int lanes = bytes / sizeof(T);
  typedef T type __attribute__((vector_size(bytes)));
};

/// A vector from memory of any alignment. One by one: an array of vectors filled at once goes through the stack.
template <int bytes = kVectorBytes, class T>
typename VectorOf<T, bytes>::type load_vector(const T* from) {
  typename VectorOf<T, bytes>::type v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// ---- the ends of rows: the first `n` lanes of a vector, fewer than there are

#if defined(__AVX512F__)

template <class T>
auto first_lanes(int64_t n) {
  using Mask = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;
  return static_cast<Mask>((1u << n) - 1);
}
/// The lanes that are not read are `fill`.
template <class T>
typename VectorOf<T>::type load_first(const T* from, int64_t n, T fill) {
  using V = typename VectorOf<T>::type;
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const V others = V{} + fill;
  if constexpr (sizeof(T) == 4) return (V)_mm512_mask_loadu_epi32((__m512i)others, first_lanes<T>(n), from);
  else return (V)_mm512_mask_loadu_epi64((__m512i)others, first_lanes<T>(n), from);
}
template <class T>
void store_first(T* to, int64_t n, typename VectorOf<T>::type v) {
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(to, first_lanes<T>(n), (__m512i)v);
  else _mm512_mask_storeu_epi64(to, first_lanes<T>(n), (__m512i)v);
}

#elif defined(__AVX2__)

template <class T>
__m256i first_lanes(int64_t n) {
  static constexpr int32_t kLanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const int32_t* from = kLanes + 8 - n * static_cast<int64_t>(sizeof(T) / 4);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
template <class T>
typename VectorOf<T>::type load_first(const T* from, int64_t n, T fill) {
  using V = typename VectorOf<T>::type;
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const V others = V{} + fill;
  const __m256i mask = first_lanes<T>(n);
  const __m256i read = sizeof(T) == 4 ? _mm256_maskload_epi32(reinterpret_cast<const int*>(from), mask)
                                      : _mm256_maskload_epi64(reinterpret_cast<const long long*>(from), mask);
  return (V)_mm256_blendv_epi8((__m256i)others, read, mask);
}
template <class T>
void store_first(T* to, int64_t n, typename VectorOf<T>::type v) {
  const __m256i mask = first_lanes<T>(n);
  if constexpr (sizeof(T) == 4) _mm256_maskstore_epi32(reinterpret_cast<int*>(to), mask, (__m256i)v);
  else _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), mask, (__m256i)v);
}

#else

template <class T>
typename VectorOf<T>::type load_first(const T* from, int64_t n, T fill) {
  auto v = typename VectorOf<T>::type{} + fill;
  for (int64_t i = 0; i < n; ++i) v[i] = from[i];
  return v;
}
template <class T>
void store_first(T* to, int64_t n, typename VectorOf<T>::type v) {
  for (int64_t i = 0; i < n; ++i) to[i] = v[i];
}

#endif

/// A bit for every lane of a mask, whose lanes are zero or all ones.
template <class I>
uint32_t lane_bits(I mask) {
  constexpr size_t item = sizeof(mask[0]);
#if defined(__AVX512DQ__)
  if constexpr (sizeof(I) == 64) {
    return item == 4 ? _mm512_movepi32_mask((__m512i)mask) : _mm512_movepi64_mask((__m512i)mask);
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(I) == 32) {
    return static_cast<uint32_t>(item == 4 ? _mm256_movemask_ps((__m256)mask) : _mm256_movemask_pd((__m256d)mask));
  }
#endif
  uint32_t bits = 0;
  for (size_t l = 0; l < sizeof(I) / item; ++l) bits |= static_cast<uint32_t>(mask[l] != 0) << l;
  return bits;
}

/// Half with half, until `left` lanes remain. `merge` takes vectors of any width.
template <int left, class V, class F>
auto merge_lanes(V v, F merge) {
  using T = std::remove_cvref_t<decltype(v[0])>;
  if constexpr (sizeof(V) == left * sizeof(T)) {
    return v;
  } else {
    typedef T Half __attribute__((vector_size(sizeof(V) / 2)));
    Half halves[2];
    std::memcpy(halves, &v, sizeof v);
    return merge_lanes<left>(static_cast<Half>(merge(halves[0], halves[1])), merge);
  }
}

/// All lanes in one, without a branch that the elements decide.
template <class V, class F>
auto merge_all(V v, F merge) {
  auto pair = merge_lanes<2>(v, merge);
  const decltype(pair) turned = {pair[1], pair[0]};
  return merge(pair, turned)[0];
}

}  // namespace facula::cpu::FACULA_ISA
