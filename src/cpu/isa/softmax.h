// What soft-max is made of: the largest of a contiguous line, and the exponentials with their sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/isa.h"
#include "cpu/isa/extreme.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/register_tables.h"
#include "cpu/isa/sums.h"
#include "kernels/math.h"

namespace facula::cpu::FACULA_ISA {

// The largest of a line, vectorized; NaN wins.
template <class T, bool largest>
[[gnu::always_inline]] inline T extremum(int64_t n, const T* x) {
  constexpr int lanes = VectorOf<T>::lanes;
  using V = typename VectorOf<T>::type;
  auto better = [](auto a, auto b) { return extreme<largest>(a, b); };
  T best = x[0];
  int64_t i = 0;
  if (n >= lanes) {
    V p = load_vector(x);
    if (n >= 4 * lanes) {
      V q = load_vector(x + lanes), r = load_vector(x + 2 * lanes), s = load_vector(x + 3 * lanes);
      for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
        p = better(p, load_vector(x + i));
        q = better(q, load_vector(x + i + lanes));
        r = better(r, load_vector(x + i + 2 * lanes));
        s = better(s, load_vector(x + i + 3 * lanes));
      }
      p = better(better(p, q), better(r, s));
    }
    for (; i + lanes <= n; i += lanes) p = better(p, load_vector(x + i));
    p = better(p, load_vector(x + n - lanes));  // the rest, some of it again
    return merge_all(p, better);
  }
  constexpr int64_t kFewer = 4;
  if constexpr (sizeof(T) >= 4) {
    if (n > kFewer) return merge_all(load_first(x, n, best), better);
  }
  for (; i < n; ++i) best = better(best, x[i]);
  return best;
}

/// e^x for x <= 0.
template <class T>
[[gnu::always_inline]] inline T exp_of_shifted(T x) {
  if constexpr (std::is_same_v<T, float>) return kernels::exp_nonpositive(x);
  else return kernels::exp(x);
}

/// e^(x - shift) for the lanes of a vector, none of which is above the shift.
template <class T>
struct ExpOfLanes {
  using V = typename VectorOf<T>::type;
  [[gnu::always_inline]] V operator()(V v, T shift) const {
    constexpr int lanes = VectorOf<T>::lanes;
    T x[lanes], e[lanes];
    std::memcpy(x, &v, sizeof v);
    FACULA_SIMD
    for (int i = 0; i < lanes; ++i) e[i] = exp_of_shifted(x[i] - shift);
    return load_vector(e);
  }
};
#ifdef FACULA_AVX512
template <>
struct ExpOfLanes<float> {  // by tables in registers
  Exp exponential{powers()};
  [[gnu::always_inline]] VectorOf<float>::type operator()(VectorOf<float>::type v, float shift) const {
    return exponential(v - all(shift));
  }
};
#endif

/// The sum of e^(x - shift), for a shift not less than any x; the exponentials go to `out` where that is not null, or
/// those of the last elements, fewer than a vector, to `rest` where that is not null.
template <class T>
T sum_of_exp(int64_t n, const T* x, T shift, T* out, typename VectorOf<T>::type* rest = nullptr) {
  using V = typename VectorOf<T>::type;
  constexpr int lanes = VectorOf<T>::lanes;
  constexpr int64_t kBlock = 1024;
  const auto add = [](auto a, auto b) { return a + b; };
  const int64_t whole = n / lanes * lanes;
  const ExpOfLanes<T> exponential;
  T total = 0;
  V sum = {};
  for (int64_t from = 0; from < whole; from += kBlock) {
    const int64_t to = std::min(whole, from + kBlock);
    if (from > 0) total += merge_all(sum, add), sum = V{};
    for (int64_t i = from; i < to; i += lanes) {
      const V e = exponential(load_vector(x + i), shift);
      if (out) std::memcpy(out + i, &e, sizeof e);
      sum += e;
    }
  }
  if (whole < n) {  // filled up with what adds nothing
    const V e = exponential(load_first(x + whole, n - whole, -std::numeric_limits<T>::infinity()), shift);
    sum += e;
    if (rest) *rest = e;
    else if (out) store_first(out + whole, n - whole, e);
  }
  return total + merge_all(sum, add);
}

}  // namespace facula::cpu::FACULA_ISA
