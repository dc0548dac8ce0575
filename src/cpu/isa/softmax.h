// What soft-max is made of: the largest of a contiguous line, and the exponentials with their sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/isa.h"
#include "cpu/isa/lanes.h"
#include "kernels/math.h"

namespace facula::cpu::FACULA_ISA {

template <class T>
T sum_lanes(const T* lane) {
  typename VectorOf<T>::type v;
  std::memcpy(&v, lane, sizeof v);
  auto pair = merge_lanes<2>(v, [](auto a, auto b) { return a + b; });
  return pair[0] + pair[1];
}

// The largest of a line, vectorised; NaN wins.
template <class T, bool largest>
T extremum(int64_t n, const T* x) {
  constexpr int lanes = VectorOf<T>::lanes;
  using V = typename VectorOf<T>::type;
  auto better = [](auto a, auto b) {
    if constexpr (largest) return (b > a) | (b != b) ? b : a;
    else return (b < a) | (b != b) ? b : a;
  };
  T best = x[0];
  int64_t i = 0;
  if (n >= lanes) {
    V a[4], p;
    std::memcpy(&p, x, sizeof p);
    if (n >= 4 * lanes) {
      std::memcpy(a, x, sizeof a);
      V q = a[1], r = a[2], s = a[3];
      for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
        std::memcpy(a, x + i, sizeof a);
        p = better(p, a[0]);
        q = better(q, a[1]);
        r = better(r, a[2]);
        s = better(s, a[3]);
      }
      p = better(better(p, q), better(r, s));
    }
    for (; i + lanes <= n; i += lanes) {
      std::memcpy(a, x + i, sizeof p);
      p = better(p, a[0]);
    }
    std::memcpy(a, x + n - lanes, sizeof p);  // the rest, some of it again
    p = better(p, a[0]);
    auto pair = merge_lanes<2>(p, better);
    return better(T(pair[0]), T(pair[1]));
  }
  for (; i < n; ++i) best = better(best, x[i]);
  return best;
}

template <class T>
T sum_of_exp(int64_t n, const T* x, T shift, T* out) {
  constexpr int lanes = VectorOf<T>::lanes;
  T partial[lanes] = {};
  auto add = [&](const T* from, T* to) {
    FACULA_SIMD
    for (int k = 0; k < lanes; ++k) {
      T e = kernels::exp(from[k] - shift);
      if (to) to[k] = e;
      partial[k] += e;
    }
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) add(x + i, out ? out + i : nullptr);
  if (i < n) {  // filled up with what adds nothing
    T rest[lanes], e[lanes];
    std::fill_n(rest, lanes, -std::numeric_limits<T>::infinity());
    std::copy_n(x + i, n - i, rest);
    add(rest, e);
    if (out) std::copy_n(e, n - i, out + i);
  }
  return sum_lanes(partial);
}

}  // namespace facula::cpu::FACULA_ISA
