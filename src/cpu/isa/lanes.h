// Vectors as wide as the registers of the level, and merging their lanes.
#pragma once

#include <cstring>
#include <type_traits>

#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
struct VectorOf {
  static constexpr int lanes = kVectorBytes / sizeof(T);
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

/// A vector from memory of any alignment. One by one: an array of vectors filled at once goes through the stack.
template <class T>
typename VectorOf<T>::type load_vector(const T* from) {
  typename VectorOf<T>::type v;
  std::memcpy(&v, from, sizeof v);
  return v;
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

}  // namespace facula::cpu::FACULA_ISA
