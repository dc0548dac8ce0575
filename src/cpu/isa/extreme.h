// The larger or the smaller of two numbers, or of the lanes of two vectors; NaN where one of them is NaN.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

/// Returns the better of `best` so far and what comes. Only what comes is checked for NaN, so that from one
/// result to the next there are two short instructions: the ones for extrema give the second operand where one is NaN,
/// and so keep NaN in `best`.
template <bool largest, class V>
[[gnu::always_inline]] inline V extreme(V best, V comes) {
#if defined(__AVX512F__)
  // vectors of 64 bytes: GCC 12 makes comparisons and merges of what is one instruction
  if constexpr (std::is_same_v<V, VectorOf<float>::type>) {
    const __m512 both = largest ? _mm512_max_ps(comes, best) : _mm512_min_ps(comes, best);
    return _mm512_mask_mov_ps(both, _mm512_cmp_ps_mask(comes, comes, _CMP_UNORD_Q), comes);
  } else if constexpr (std::is_same_v<V, VectorOf<double>::type>) {
    const __m512d both = largest ? _mm512_max_pd(comes, best) : _mm512_min_pd(comes, best);
    return _mm512_mask_mov_pd(both, _mm512_cmp_pd_mask(comes, comes, _CMP_UNORD_Q), comes);
  }
#endif
  const V both = largest ? (comes > best ? comes : best) : (comes < best ? comes : best);
  return comes != comes ? comes : both;
}

}  // namespace facula::cpu::FACULA_ISA
