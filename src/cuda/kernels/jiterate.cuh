// Element-wise kernels around a function that a program brings as text (cuda.jiterator): the host writes it behind
// this include, and a struct `Jit` with the numbers of `inputs` and `outputs`, and run(in, values, out).
#pragma once

#include "jiterate_args.h"
#include "types.cuh"

#if defined(FACULA_EMULATED_KERNEL)
// What NVIDIA's compiler knows at global scope.
#define FACULA_UNARY(X) X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(cbrt) X(ceil) X(cos) X(cosh)
#define FACULA_UNARY_MORE(X) X(erf) X(erfc) X(exp) X(exp2) X(expm1) X(fabs) X(floor) X(lgamma) X(log) X(log10)
#define FACULA_UNARY_LAST(X) X(log1p) X(log2) X(rint) X(round) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)
#define FACULA_BINARY(X) X(atan2) X(copysign) X(fdim) X(fmax) X(fmin) X(fmod) X(hypot) X(pow) X(remainder)
#define X(name)                                                 \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
FACULA_UNARY(X)
FACULA_UNARY_MORE(X)
FACULA_UNARY_LAST(X)
#undef X
#define X(name)                                                             \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  inline double name(double x, double y) { return __builtin_##name(x, y); }
FACULA_BINARY(X)
#undef X
#undef FACULA_UNARY
#undef FACULA_UNARY_MORE
#undef FACULA_UNARY_LAST
#undef FACULA_BINARY
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
#endif

namespace facula::cuda {

template <class Jit, class C>
__global__ __launch_bounds__(256) void jiterate(JitArgs p) {
  constexpr int kOperands = Jit::outputs + Jit::inputs;
  const C* values = reinterpret_cast<const C*>(p.values);
  for (Int64 i = thread_number(); i < p.numel; i += thread_count()) {
    Int64 offsets[kOperands] = {}, rest = i;
    for (int d = 0; d < p.dims; ++d) {
      const Int64 next = d + 1 < p.dims ? rest / p.shape[d] : 0, at = rest - next * p.shape[d];
      for (int k = 0; k < kOperands; ++k) offsets[k] += at * p.operands[k].strides[d];
      rest = next;
    }
    C in[Jit::inputs + 1], out[Jit::outputs];
    for (int k = 0; k < Jit::inputs; ++k) {
      const JitOperand& o = p.operands[Jit::outputs + k];
      in[k] = load_any<C>(static_cast<const char*>(o.data) + offsets[Jit::outputs + k], o.dtype);
    }
    Jit::run(in, values, out);
    for (int k = 0; k < Jit::outputs; ++k)
      store_any<C>(static_cast<char*>(p.operands[k].data) + offsets[k], p.operands[k].dtype, out[k]);
  }
}

}  // namespace facula::cuda
