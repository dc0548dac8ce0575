// Norms of rows that are a vector or less.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/isa.h"
#include "cpu/isa/sums.h"

namespace facula::cpu::FACULA_ISA {

#ifdef __AVX512F__

/// Rows of float32 of at most a vector, one parameter for each element: sixteen rows at a time, which do not wait for
/// one another, and whose deviations are found together.
struct VectorRows {
  const float *x, *weight, *bias;
  float *out, *mean, *rstd;
  int64_t n;
  double eps;
  bool center;

  void run(int64_t from, int64_t to) const {
    constexpr int64_t kTogether = 16;
    const auto there = static_cast<__mmask16>((1u << n) - 1);
    const __m512 w = weight ? _mm512_maskz_loadu_ps(there, weight) : _mm512_set1_ps(1),
                 b = bias ? _mm512_maskz_loadu_ps(there, bias) : _mm512_setzero_ps();
    const double share = 1.0 / static_cast<double>(n);
    for (; from < to; from += kTogether) {
      const int64_t count = std::min(kTogether, to - from);
      float middle[kTogether] = {}, squares[kTogether] = {}, inverse[kTogether];
      for (int64_t r = 0; r < count; ++r) {
        const __m512 v = _mm512_maskz_loadu_ps(there, x + (from + r) * n);
        if (center) middle[r] = static_cast<float>(static_cast<double>(sum_of_lanes<float>(v)) * share);
        const __m512 d = _mm512_maskz_sub_ps(there, v, _mm512_set1_ps(middle[r]));
        squares[r] = sum_of_lanes<float>(_mm512_mul_ps(d, d));
      }
      FACULA_SIMD
      for (int64_t r = 0; r < kTogether; ++r)
        inverse[r] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares[r]) * share + eps));
      for (int64_t r = 0; r < count; ++r) {
        const int64_t row = from + r;
        const __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, x + row * n), _mm512_set1_ps(middle[r]));
        const __m512 scaled = _mm512_mul_ps(d, _mm512_set1_ps(inverse[r]));
        _mm512_mask_storeu_ps(out + row * n, there, _mm512_fmadd_ps(scaled, w, b));
        mean[row] = middle[r];
        rstd[row] = inverse[r];
      }
    }
  }
};

#endif

}  // namespace facula::cpu::FACULA_ISA
