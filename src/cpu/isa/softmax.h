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

template <bool keep, class T>
T sum_of_exp_block(int64_t n, const T* x, T shift, T* out) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    T e = exp_of_shifted(x[i] - shift);
    if constexpr (keep) out[i] = e;
    sum += e;
  }
  return sum;
}

/// The sum of e^(x - shift), for a shift not less than any x; the exponentials go to `out` where that is not null.
template <class T>
T sum_of_exp(int64_t n, const T* x, T shift, T* out) {
  constexpr int lanes = VectorOf<T>::lanes;
  constexpr int64_t kBlock = 1024;
  const int64_t whole = n / lanes * lanes;
  T sum = 0;
  for (int64_t i = 0; i < whole; i += kBlock) {
    int64_t count = std::min(kBlock, whole - i);
    sum += out ? sum_of_exp_block<true>(count, x + i, shift, out + i)
               : sum_of_exp_block<false>(count, x + i, shift, static_cast<T*>(nullptr));
  }
  if (whole < n) {  // filled up with what adds nothing
    const auto last = load_first(x + whole, n - whole, -std::numeric_limits<T>::infinity());
    T rest[lanes], e[lanes];
    std::memcpy(rest, &last, sizeof rest);
    sum += sum_of_exp_block<true>(lanes, rest, shift, e);
    if (out) store_first(out + whole, n - whole, load_vector(e));
  }
  return sum;
}

}  // namespace facula::cpu::FACULA_ISA
