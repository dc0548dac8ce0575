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

// The largest of a line, vectorised; NaN wins.
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
    auto pair = merge_lanes<2>(p, better);
    return better(T(pair[0]), T(pair[1]));
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

#ifdef FACULA_AVX512
/// By the exponential with tables in registers. `n` is a multiple of the lanes.
template <bool keep>
float sum_of_exp_block(int64_t n, const float* x, float shift, float* out) {
  const Exp exponential(powers());
  Vector sums{};
  for (int64_t i = 0; i < n; i += 16) {
    const Vector e = exponential(_mm512_sub_ps(_mm512_loadu_ps(x + i), all(shift)));
    if constexpr (keep) _mm512_storeu_ps(out + i, e);
    sums += e;
  }
  return sum_of_lanes<float>(sums);
}
#endif

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
    T rest[lanes], e[lanes];
    std::fill_n(rest, lanes, -std::numeric_limits<T>::infinity());
    std::copy_n(x + whole, n - whole, rest);
    sum += sum_of_exp_block<true>(lanes, rest, shift, e);
    if (out) std::copy_n(e, n - whole, out + whole);
  }
  return sum;
}

}  // namespace facula::cpu::FACULA_ISA
