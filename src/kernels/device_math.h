// Computes elementary functions in float32 as CUDA devices do, by instructions that the host does not have and by
// functions of NVIDIA's compiler. Kernels of the emulated device are made of the same text.
#pragma once

#include "math.h"

namespace facula::kernels::device {

/// What the functions below are made of, with the errors that NVIDIA states: of instructions in the manual of PTX, of
/// functions in the CUDA C++ Programming Guide. tests/cpp/test_device_math.cpp puts others in their place that are as
/// wrong as that.
struct Parts {
  /// 2^x, at most 2^-22.5 of it wrong; 0 where it is too small for a normal number.
  FACULA_FN static float exp2(float x) {
#if defined(__CUDACC_RTC__)
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
#else
    float power = FACULA_LIBM(exp2f)(x);
    power = power < Float<float>::smallest_normal ? 0.0f : power;
#endif
    return power;
  }
  /// 1 / x, at most 2^-23 of it wrong; 0 where it is too small for a normal number.
  FACULA_FN static float reciprocal(float x) {
#if defined(__CUDACC_RTC__)
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
#else
    float inverse = 1.0f / x;
    inverse = abs(inverse) < Float<float>::smallest_normal ? copysign(0.0f, x) : inverse;
#endif
    return inverse;
  }
  /// At most a unit in the last place wrong.
  FACULA_FN static float exp(float x) { return FACULA_LIBM(expf)(x); }
};

template <class P = Parts>
FACULA_FN float exp(float x) {
  return P::exp(x);
}
// NVIDIA's: log is at most a unit in the last place wrong, tanh and erf two.
template <class P = Parts>
FACULA_FN float tanh(float x) {
  return FACULA_LIBM(tanhf)(x);
}
template <class P = Parts>
FACULA_FN float log(float x) {
  return FACULA_LIBM(logf)(x);
}
template <class P = Parts>
FACULA_FN float erf(float x) {
  return FACULA_LIBM(erff)(x);
}

/// 1 / (1 + e) by an approximation that is corrected once, times e = exp(-|x|) below zero; what is left of 1 is exact.
/// To three units in the last place, two where the exponential is right.
template <class P = Parts>
FACULA_FN float sigmoid(float x) {
  const float e = P::exp(-abs(x)), inverse = P::reciprocal(1.0f + e);
  const float above = fma(fma(-e, inverse, 1.0f - inverse), inverse, inverse);
  return x < 0.0f ? e * above : above;
}

/// As the host's (activation.h), with a fit of g to powers of two. From -1 on it is right to five units in the last
/// place, three where the power is right; below, what x is multiplied with is right to 1.2 * 2^-24.
template <class P = Parts>
FACULA_FN float gelu_erf(float x) {
  const float a = abs(x), t = 6.0f < a ? 6.0f : a, t2 = t * t, t3 = t2 * t;
  const float high = horner(t, 2.40747589e-10f, -1.07193898e-08f, 2.15950706e-07f, -2.59698891e-06f, 2.05708984e-05f,
                            -0.000109411318f);
  const float low =
      horner(t, 0.000350303977f, -9.24024207e-05f, -0.00687712803f, 0.0524139479f, 0.459225267f, 1.15110409f);
  const float g = fma(t3 * t3, high, low);
  const float tail = P::exp2(fma(-a, g, -1.0f));
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

/// (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), without cancellation below zero. As exact as gelu_erf.
template <class P = Parts>
FACULA_FN float gelu_tanh(float x) {
  constexpr double linear = -2 * sqrt_2 / sqrt_pi * log2_e;
  const float exponent = x * fma(x * x, float(linear * 0.044715), float(linear));
  return x * P::reciprocal(1.0f + P::exp2(exponent));
}

}  // namespace facula::kernels::device
