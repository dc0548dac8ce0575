// A matrix in every lane of vectors: element e of all of them is one vector.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "cpu/small_matrix.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
using LaneValues = typename VectorOf<T>::type;
template <class T>
using LaneIntegers = typename VectorOf<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>::type;
template <class T>
constexpr int kMatricesTogether = VectorOf<T>::lanes;
static_assert(kMatricesTogether<float> == Square<float>::N && kMatricesTogether<double> == Square<double>::N);

/// `size` elements of each of `matrices` matrices, one after the other in memory; other lanes repeat the last one.
template <class T>
void load_lanes(LaneValues<T>* to, const T* from, int size, int matrices) {
  constexpr int lanes = kMatricesTogether<T>;
  if (matrices == 1) {
    for (int e = 0; e < size; ++e) to[e] = LaneValues<T>{} + from[e];
    return;
  }
  for (int e = 0; e < size; e += lanes) {
    const int part = std::min(lanes, size - e);
    typename Square<T>::Row row[lanes];
    for (int l = 0; l < lanes; ++l) {
      const T* at = from + std::min(l, matrices - 1) * size + e;
      row[l] = part == lanes ? load_vector(at) : load_first(at, part, T(0));
    }
    Square<T>::transpose(row);
    std::copy_n(row, part, to + e);
  }
}

template <class T>
void store_lanes(T* to, const LaneValues<T>* from, int size, int matrices) {
  constexpr int lanes = kMatricesTogether<T>;
  if (matrices == 1) {
    for (int e = 0; e < size; ++e) to[e] = from[e][0];
    return;
  }
  for (int e = 0; e < size; e += lanes) {
    const int part = std::min(lanes, size - e);
    typename Square<T>::Row row[lanes] = {};
    std::copy_n(from + e, part, row);
    Square<T>::transpose(row);
    for (int l = 0; l < matrices; ++l) {
      if (part == lanes) std::memcpy(to + l * size + e, &row[l], sizeof row[l]);
      else store_first(to + l * size + e, part, row[l]);
    }
  }
}

template <class V>
V lanes_sqrt(V x) {
  using T = std::remove_cvref_t<decltype(x[0])>;
  T values[sizeof(V) / sizeof(T)];
  std::memcpy(values, &x, sizeof x);
  FACULA_SIMD
  for (size_t l = 0; l < std::size(values); ++l) values[l] = std::sqrt(values[l]);
  std::memcpy(&x, values, sizeof x);
  return x;
}

/// Integers of the lanes, as LAPACK's are.
template <class I>
void store_integers(int32_t* to, int step, I from, int matrices) {
  using Integer = std::remove_cvref_t<decltype(from[0])>;
  Integer values[sizeof(I) / sizeof(Integer)];
  std::memcpy(values, &from, sizeof from);
  for (int l = 0; l < matrices; ++l) to[l * step] = static_cast<int32_t>(values[l]);
}

template <class V>
V lanes_abs(V x) {
  return x < 0 ? -x : x;
}

template <class V, class I>
void exchange_where(I chosen, V& a, V& b) {
  const V before = a;
  a = chosen ? b : before;
  b = chosen ? before : b;
}

/// a - x * y, rounded once for float: what cancels to nothing is then a matrix without an inverse, not an accident of
/// two roundings.
template <class T>
LaneValues<T> less_product(LaneValues<T> a, LaneValues<T> x, LaneValues<T> y) {
#ifndef __FP_FAST_FMAF
  if constexpr (sizeof(T) == 4) {
    typedef double Wide __attribute__((vector_size(sizeof(double) * kMatricesTogether<float>)));
    const Wide exact =
        __builtin_convertvector(a, Wide) - __builtin_convertvector(x, Wide) * __builtin_convertvector(y, Wide);
    return __builtin_convertvector(exact, LaneValues<T>);
  }
#endif
  return a - x * y;  // one instruction
}

}  // namespace facula::cpu::FACULA_ISA
