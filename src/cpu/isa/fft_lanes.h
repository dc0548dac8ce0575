// Points in buffers and in tensors: complex numbers taken apart and put together, squares of numbers transposed, all
// in registers.
//
// In a buffer a point is a pair of vectors: the real parts of all lanes, then the imaginary parts. In tensors complex
// numbers lie one by one; neighbors are taken apart by shuffles inside of 16 bytes, which change their order in the
// lanes (kOrder) in the same way as the shuffles that put them together again.
#pragma once

#include <array>
#include <utility>

#include "cpu/isa/fft_butterflies.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
constexpr int kLanes = VectorOf<T>::lanes;
template <class T>
constexpr int kPair = 2 * kLanes<T>;  // numbers of a point in a buffer

// ---- neighboring complex numbers and lanes

template <class T>
constexpr int kUnit = 16 / static_cast<int>(sizeof(T));  // numbers that shuffles keep together

/// Which of the complex numbers of two vectors lies in each lane.
template <class T>
constexpr std::array<int, kLanes<T>> kOrder = [] {
  std::array<int, kLanes<T>> order{};
  constexpr int unit = kUnit<T>;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    const int block = lane / unit, i = lane % unit;
    order[lane] = block * (unit / 2) + i % (unit / 2) + (i < unit / 2 ? 0 : kLanes<T> / 2);
  }
  return order;
}();

template <class T>
constexpr std::array<int, kLanes<T>> kLaneOf = [] {
  std::array<int, kLanes<T>> lane_of{};
  for (int lane = 0; lane < kLanes<T>; ++lane) lane_of[kOrder<T>[lane]] = lane;
  return lane_of;
}();

template <class T, int... lane>
FACULA_INLINE Points<T> apart(Lanes<T> a, Lanes<T> b, std::integer_sequence<int, lane...>) {
  return {__builtin_shufflevector(a, b, (2 * kOrder<T>[lane])...),
          __builtin_shufflevector(a, b, (2 * kOrder<T>[lane] + 1)...)};
}
/// As many complex numbers as there are lanes, lane i holding number kOrder[i].
template <class T>
FACULA_INLINE Points<T> load_complex(const T* from) {
  return apart<T>(load_vector(from), load_vector(from + kLanes<T>), std::make_integer_sequence<int, kLanes<T>>());
}

template <class T>
FACULA_INLINE void store_vector(T* to, Lanes<T> v) {
  std::memcpy(to, &v, sizeof v);
}

constexpr int index_of_part(int i, int lanes, int lane) { return lane + (i % 2) * lanes; }
template <class T, int... i>
FACULA_INLINE void store_together(T* to, Points<T> p, std::integer_sequence<int, i...>) {
  constexpr int n = kLanes<T>;
  store_vector(to, __builtin_shufflevector(p.re, p.im, index_of_part(i, n, kLaneOf<T>[i / 2])...));
  store_vector(to + n, __builtin_shufflevector(p.re, p.im, index_of_part(i, n, kLaneOf<T>[(n + i) / 2])...));
}
template <class T>
FACULA_INLINE void store_complex(T* to, Points<T> p) {
  store_together(to, p, std::make_integer_sequence<int, kLanes<T>>());
}

template <class T, int... i>
FACULA_INLINE void store_in_order(T* to, Points<T> p, std::integer_sequence<int, i...>) {
  constexpr int n = kLanes<T>;
  store_vector(to, __builtin_shufflevector(p.re, p.im, index_of_part(i, n, i / 2)...));
  store_vector(to + n, __builtin_shufflevector(p.re, p.im, index_of_part(i, n, (n + i) / 2)...));
}
/// Lane i holding number i.
template <class T>
FACULA_INLINE void store_natural(T* to, Points<T> p) {
  store_in_order(to, p, std::make_integer_sequence<int, kLanes<T>>());
}
template <class T, int... lane>
FACULA_INLINE Points<T> apart_in_order(Lanes<T> a, Lanes<T> b, std::integer_sequence<int, lane...>) {
  return {__builtin_shufflevector(a, b, (2 * lane)...), __builtin_shufflevector(a, b, (2 * lane + 1)...)};
}
template <class T>
FACULA_INLINE Points<T> load_natural(const T* from) {
  return apart_in_order<T>(load_vector(from), load_vector(from + kLanes<T>),
                           std::make_integer_sequence<int, kLanes<T>>());
}

// The lane that holds the mirror image of what `lane` holds.
template <class T>
constexpr int mirror_lane(int lane) {
  return kLaneOf<T>[kLanes<T> - 1 - kOrder<T>[lane]];
}
template <class T, int... lane>
FACULA_INLINE Lanes<T> mirrored(Lanes<T> v, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(v, v, mirror_lane<T>(lane)...);
}
template <class T>
FACULA_INLINE Points<T> mirrored(Points<T> p) {
  constexpr auto lanes = std::make_integer_sequence<int, kLanes<T>>();
  return {mirrored<T>(p.re, lanes), mirrored<T>(p.im, lanes)};
}

template <class T>
FACULA_INLINE Points<T> load_pair(const T* from) {
  return {load_vector(from), load_vector(from + kLanes<T>)};
}
template <class T>
FACULA_INLINE void store_pair(T* to, Points<T> p) {
  store_vector(to, p.re);
  store_vector(to + kLanes<T>, p.im);
}

// ---- squares of numbers, transposed in registers

/// Exchanges the blocks of side S off the diagonal of every block of side 2 S.
template <int S, class T, int... lane>
FACULA_INLINE void exchange(Lanes<T>* row, std::integer_sequence<int, lane...>) {
  constexpr int N = kLanes<T>;
  FACULA_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i & S) continue;
    Lanes<T> a = row[i], b = row[i + S];
    row[i] = __builtin_shufflevector(a, b, (lane & S ? N + lane - S : lane)...);
    row[i + S] = __builtin_shufflevector(a, b, (lane & S ? N + lane : lane + S)...);
  }
}
// The low or the high halves of every 16 bytes of a and b in turn, `size` numbers at a time.
constexpr int unpacked(int lane, int unit, int size, int lanes, int high) {
  const int block = lane / unit * unit, i = lane % unit;
  return block + (i % size) + (i / (2 * size)) * size + high * unit / 2 + (i / size % 2) * lanes;
}
template <int size, class T, int... lane>
FACULA_INLINE void unpack(Lanes<T> a, Lanes<T> b, Lanes<T>& low, Lanes<T>& high, std::integer_sequence<int, lane...>) {
  low = __builtin_shufflevector(a, b, unpacked(lane, kUnit<T>, size, kLanes<T>, 0)...);
  high = __builtin_shufflevector(a, b, unpacked(lane, kUnit<T>, size, kLanes<T>, 1)...);
}

template <class T>
FACULA_INLINE void transpose(Lanes<T>* row) {
  constexpr int N = kLanes<T>, unit = kUnit<T>;
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  FACULA_UNROLL
  for (int i = 0; i < N; i += unit) {
    if constexpr (unit == 2) {
      unpack<1, T>(row[i], row[i + 1], row[i], row[i + 1], lanes);
    } else {
      Lanes<T> a, b, c, d;
      unpack<1, T>(row[i], row[i + 1], a, b, lanes);
      unpack<1, T>(row[i + 2], row[i + 3], c, d, lanes);
      unpack<2, T>(a, c, row[i], row[i + 1], lanes);
      unpack<2, T>(b, d, row[i + 2], row[i + 3], lanes);
    }
  }
  if constexpr (N > unit) exchange<unit, T>(row, lanes);
  if constexpr (N > 2 * unit) exchange<2 * unit, T>(row, lanes);
}

}  // namespace facula::cpu::FACULA_ISA
