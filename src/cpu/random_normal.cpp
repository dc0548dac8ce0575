// The vectorized part of the random fills: where one rounding more or less changes bits. PyTorch's results on
// x86 come from fused multiply-adds, so the fused operations are written out, and nothing else here is a
// product that the compiler could fuse with a sum. Built twice: with the processor's FMA instruction, and for
// machines without it with the C library's exact one, which gives the same bits.
#include <bit>
#include <cmath>
#include <cstdint>

#include "cpu/random.h"

namespace facula::cpu::detail {
namespace {

#define FACULA_INLINE [[gnu::always_inline]] inline

// Natural logarithm of a normal number in (0, 1], by the polynomial of the Cephes library (logf), good to 1
// ULP.
FACULA_INLINE float log_positive(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  float exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x807fffffu) | 0x3f000000u);  // in [0.5, 1)
  const bool low = mantissa < 0.707106781186547524f;
  exponent -= low ? 1.0f : 0.0f;
  x = (mantissa - 1.0f) + (low ? mantissa : 0.0f);

  const float square = x * x;
  float y = 7.0376836292e-2f;
  y = __builtin_fmaf(y, x, -1.1514610310e-1f);
  y = __builtin_fmaf(y, x, 1.1676998740e-1f);
  y = __builtin_fmaf(y, x, -1.2420140846e-1f);
  y = __builtin_fmaf(y, x, 1.4249322787e-1f);
  y = __builtin_fmaf(y, x, -1.6668057665e-1f);
  y = __builtin_fmaf(y, x, 2.0000714765e-1f);
  y = __builtin_fmaf(y, x, -2.4999993993e-1f);
  y = __builtin_fmaf(y, x, 3.3333331174e-1f);
  y = y * x;
  y = __builtin_fmaf(y, square, exponent * -2.12194440e-4f);  // ln 2 in two parts
  y = __builtin_fmaf(-square, 0.5f, y);
  return __builtin_fmaf(exponent, 0.693359375f, x + y);
}

struct SinCos {
  float sin, cos;
};

// Sine and cosine of an angle in [0, 2 pi], by the Cephes polynomials on the octants.
FACULA_INLINE SinCos sin_cos(float x) {
  const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float turns = static_cast<float>(octant);
  x = __builtin_fmaf(turns, -0.78515625f, x);  // pi / 4 in three parts
  x = __builtin_fmaf(turns, -2.4187564849853515625e-4f, x);
  x = __builtin_fmaf(turns, -3.77489497744594108e-8f, x);
  const float z = x * x;

  float c = 2.443315711809948e-5f;
  c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
  c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
  c = c * z;
  c = __builtin_fmaf(c, z, -(z * 0.5f));
  c = c + 1.0f;

  float s = -1.9515295891e-4f;
  s = __builtin_fmaf(s, z, 8.3321608736e-3f);
  s = __builtin_fmaf(s, z, -1.6666654611e-1f);
  s = s * z;
  s = __builtin_fmaf(s, x, x);

  const bool exchange = (octant & 2) != 0;
  const uint32_t sin_sign = static_cast<uint32_t>(octant & 4) << 29;
  const uint32_t cos_sign = (~static_cast<uint32_t>(octant - 2) & 4u) << 29;
  return {std::bit_cast<float>(std::bit_cast<uint32_t>(exchange ? c : s) ^ sin_sign),
          std::bit_cast<float>(std::bit_cast<uint32_t>(exchange ? s : c) ^ cos_sign)};
}

FACULA_INLINE void normal_blocks_body(float* values, int64_t blocks, float mean, float std) {
  for (; blocks > 0; --blocks, values += 16) {
    for (int j = 0; j < 8; ++j) {
      const float radius = __builtin_sqrtf(-2.0f * log_positive(1.0f - values[j]));
      const SinCos at = sin_cos(6.283185307179586f * values[j + 8]);
      values[j] = __builtin_fmaf(radius * at.cos, std, mean);
      values[j + 8] = __builtin_fmaf(radius * at.sin, std, mean);
    }
  }
}

template <class T>
FACULA_INLINE void scale_offset_body(T* values, int64_t count, T scale, T offset) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 4) {
      values[i] = __builtin_fmaf(values[i], scale, offset);
    } else {
      values[i] = __builtin_fma(values[i], scale, offset);
    }
  }
}

#if defined(__x86_64__) && !defined(__FMA__)
#define FACULA_TWO_BUILDS 1
[[gnu::target("avx2,fma")]] void normal_blocks_fma(float* values, int64_t blocks, float mean, float std) {
  normal_blocks_body(values, blocks, mean, std);
}
[[gnu::target("avx2,fma")]] void scale_offset_fma(float* values, int64_t count, float scale, float offset) {
  scale_offset_body(values, count, scale, offset);
}
[[gnu::target("avx2,fma")]] void scale_offset_fma(double* values, int64_t count, double scale, double offset) {
  scale_offset_body(values, count, scale, offset);
}
const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
#define FACULA_TWO_BUILDS 0
#endif

}  // namespace

void normal_blocks(float* values, int64_t blocks, float mean, float std) {
#if FACULA_TWO_BUILDS
  if (has_fma) return normal_blocks_fma(values, blocks, mean, std);
#endif
  normal_blocks_body(values, blocks, mean, std);
}

void scale_offset(float* values, int64_t count, float scale, float offset) {
#if FACULA_TWO_BUILDS
  if (has_fma) return scale_offset_fma(values, count, scale, offset);
#endif
  scale_offset_body(values, count, scale, offset);
}

void scale_offset(double* values, int64_t count, double scale, double offset) {
#if FACULA_TWO_BUILDS
  if (has_fma) return scale_offset_fma(values, count, scale, offset);
#endif
  scale_offset_body(values, count, scale, offset);
}

}  // namespace facula::cpu::detail
