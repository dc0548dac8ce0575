#include "cpu/isa/half.h"

#include <cstring>

#include "cpu/isa/float_lanes.h"
#include "op_ids_activation.h"
#include "op_ids_elementwise.h"

#if defined(__AVX2__) && defined(__F16C__)
#define FACULA_HALF_LOOPS 1
#endif

namespace facula::cpu::FACULA_ISA {

#ifdef FACULA_HALF_LOOPS
namespace {

using Vector = VectorOf<float>::type;
using Bits = VectorOf<uint32_t>::type;
using Pair = PairOf<Vector>;
constexpr int kLanes = VectorOf<float>::lanes;

/// An input as the loop goes through it: elements, or a number that stays.
template <class H>
struct Reader {
  explicit Reader(const LoopInput& in) : elements(static_cast<const H*>(in.data)), moves(in.step != 0) {
    if (!moves) std::memcpy(&number, in.data, sizeof number);
  }
  [[gnu::always_inline]] Pair at(int64_t i) const { return moves ? load_pair(elements + i) : again(); }
  [[gnu::always_inline]] Pair rest(int64_t i, int64_t count) const {
    return moves ? load_first_pair(elements + i, count) : again();
  }
  /// The number, as if it were another one each time. Compilers make a product of numbers once, before they go through
  /// elements, and round it then; beside elements it is rounded together with the sum that it is part of.
  [[gnu::always_inline]] Pair again() const {
    Vector n = number;
#if defined(__x86_64__)
    asm volatile("" : "+v"(n));
#elif defined(__aarch64__)
    asm volatile("" : "+w"(n));
#endif
    return {n, n};
  }
  const H* elements;
  Vector number{};
  bool moves;
};

/// f from vectors to vectors, which takes whole pairs of them.
template <class H, class F, class... Readers>
[[gnu::always_inline]] inline void loop_of(int64_t n, void* out, F f, Readers... in) {
  constexpr int64_t step = 2 * kLanes;
  H* o = static_cast<H*>(out);
  const auto both = [&](auto... pair)
                        __attribute__((always_inline)) { return Pair{f(pair.first...), f(pair.second...)}; };
  int64_t i = 0;
  for (; i + step <= n; i += step) store_pair(o + i, both(in.at(i)...));
  if (i < n) store_first_pair(o + i, n - i, both(in.rest(i, n - i)...));
}

template <class H, class F>
void unary(int64_t n, void* out, const LoopInput* in, F f) {
  loop_of<H>(n, out, f, Reader<H>(in[0]));
}
template <class H, class F>
void binary(int64_t n, void* out, const LoopInput* in, F f) {
  loop_of<H>(n, out, f, Reader<H>(in[0]), Reader<H>(in[1]));
}
template <class H, class F>
void ternary(int64_t n, void* out, const LoopInput* in, F f) {
  loop_of<H>(n, out, f, Reader<H>(in[0]), Reader<H>(in[1]), Reader<H>(in[2]));
}
[[gnu::always_inline]] inline Vector distance(Vector x) {
  return reinterpret_cast<Vector>(reinterpret_cast<Bits>(x) & 0x7fffffff);
}

/// a + factor b. A factor of 1 multiplies nothing, so that infinity and NaN stay what they are.
template <class H, int sign>
void add(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float alpha = sign * *static_cast<const float*>(params);
  if (alpha == 1) return binary<H>(n, out, in, [](Vector a, Vector b) { return a + b; });
  if (alpha == -1) return binary<H>(n, out, in, [](Vector a, Vector b) { return a - b; });
  binary<H>(n, out, in, [=](Vector a, Vector b) { return a + alpha * b; });
}
template <class H>
void mul(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector a, Vector b) { return a * b; });
}
template <class H>
void div(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector a, Vector b) { return a / b; });
}
template <class H>
void relu(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return a <= 0.0f ? Vector{} : a; });
}

// As in kernels/elementwise.h and kernels/activation.h.

/// To an integer: `how` as the instruction has it.
template <int how>
[[gnu::always_inline]] inline Vector whole(Vector a) {
#if defined(__AVX512F__)
  return _mm512_maskz_roundscale_ps(0xffff, a, how | _MM_FROUND_NO_EXC);
#else
  return _mm256_round_ps(a, how | _MM_FROUND_NO_EXC);
#endif
}
/// The smaller one; `a` where that is NaN.
[[gnu::always_inline]] inline Vector at_most(float bound, Vector a) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, _mm512_set1_ps(bound), a);
#else
  return _mm256_min_ps(_mm256_set1_ps(bound), a);
#endif
}
[[gnu::always_inline]] inline Vector root(Vector a) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, a);
#else
  return _mm256_sqrt_ps(a);
#endif
}

/// The bits of a number but its sign, which stays, is taken away or turned around.
template <uint16_t kept, uint16_t turned>
void sign_bits(int64_t n, void* out, const LoopInput* in, const void*) {
  auto* o = static_cast<uint16_t*>(out);
  auto* a = static_cast<const uint16_t*>(in[0].data);
#pragma omp simd simdlen(16)
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<uint16_t>((a[i] & kept) ^ turned);
}
template <class H>
void reciprocal(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return 1.0f / a; });
}
template <class H>
void square(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return a * a; });
}
template <class H>
void sqrt(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return root(a); });
}
template <class H>
void rsqrt(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return 1.0f / root(a); });
}
template <class H, int how>
void rounded(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return whole<how>(a); });
}
template <class H, bool larger>
void extremum(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector a, Vector b) {
    const Vector best = larger ? (b > a ? b : a) : (b < a ? b : a);
    return (a != a) | (b != b) ? a + b : best;
  });
}
[[gnu::always_inline]] inline Vector limited(Vector x, float low, float high) {
  x = high < x ? Vector{} + high : x;
  return low > x ? Vector{} + low : x;
}
template <class H>
void hardtanh(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float *bounds = static_cast<const float*>(params), low = bounds[0], high = bounds[1];
  unary<H>(n, out, in, [=](Vector a) { return limited(a, low, high); });
}
template <class H>
void hardtanh_backward(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float *bounds = static_cast<const float*>(params), low = bounds[0], high = bounds[1];
  binary<H>(n, out, in, [=](Vector grad, Vector a) { return (a <= low) | (a >= high) ? Vector{} : grad; });
}
template <class H>
void hardswish(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return a * limited(a + 3.0f, 0, 6) / 6.0f; });
}
template <class H>
void hardswish_backward(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector grad, Vector a) {
    const Vector inside = grad * (a / 3.0f + 0.5f), below = a <= -3.0f ? Vector{} : inside;
    return a >= 3.0f ? grad : below;
  });
}
template <class H>
void leaky_relu(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float slope = *static_cast<const float*>(params);
  unary<H>(n, out, in, [=](Vector a) { return a > 0.0f ? a : a * slope; });
}
template <class H>
void leaky_relu_backward(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float slope = *static_cast<const float*>(params);
  binary<H>(n, out, in, [=](Vector grad, Vector a) { return a > 0.0f ? grad : grad * slope; });
}
template <class H>
void threshold_backward(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float threshold = *static_cast<const float*>(params);
  binary<H>(n, out, in, [=](Vector grad, Vector a) { return a <= threshold ? Vector{} : grad; });
}
template <class H>
void clamp_between(int64_t n, void* out, const LoopInput* in, const void*) {
  ternary<H>(n, out, in, [](Vector a, Vector min, Vector max) {
    const Vector above = min > a ? min : a, between = max < above ? max : above;
    return (min != min) | (max != max) ? min + max : between;
  });
}
template <class H>
void lerp(int64_t n, void* out, const LoopInput* in, const void*) {
  ternary<H>(n, out, in, [](Vector a, Vector end, Vector weight) {
    const Vector step = end - a, from_a = a + weight * step, from_end = end - step * (1.0f - weight);
    return distance(weight) < 0.5f ? from_a : from_end;
  });
}
template <class H>
void addcmul(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float value = *static_cast<const float*>(params);
  ternary<H>(n, out, in, [=](Vector a, Vector x, Vector y) { return a + value * x * y; });
}
template <class H>
void addcdiv(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float value = *static_cast<const float*>(params);
  ternary<H>(n, out, in, [=](Vector a, Vector x, Vector y) { return a + value * x / y; });
}

// gelu to a hundredth of what rounding its result costs: 1e-5, where float32 has a table (gelu.cpp).

/// The polynomial of the coefficients, that of the highest power first, in pairs and pairs of pairs: a chain of all of
/// them would be longer than what a processor looks ahead.
template <int n>
[[gnu::always_inline]] inline Vector polynomial(const float (&c)[n], Vector x) {
  static_assert(n <= 8);
  const auto pair = [&](int power) {  // c x^power + c x^(power + 1), without x^power
    const Vector low = Vector{} + c[n - 1 - power];
    return power + 1 < n ? x * c[n - 2 - power] + low : low;
  };
  const Vector square = x * x;
  Vector low = pair(0), high = n > 4 ? pair(4) : Vector{};
  if constexpr (n > 2) low = square * pair(2) + low;
  if constexpr (n > 6) high = square * pair(6) + high;
  if constexpr (n > 4) low = square * square * high + low;
  return low;
}

/// 2^y for y <= 0, also below normal numbers.
[[gnu::always_inline]] inline Vector power_of_two(Vector y) {
  constexpr float kPowers[] = {9.570086123e-03f, 5.591785097e-02f, 2.402474506e-01f, 6.931218159e-01f,
                               9.999992614e-01f};
#if defined(__AVX512F__)
  const Vector nearest = whole<_MM_FROUND_TO_NEAREST_INT>(y);
  return _mm512_maskz_scalef_ps(0xffff, polynomial(kPowers, y - nearest), nearest);
#else
  constexpr float kMagic = 0x1.8p23f;  // its sum with y has the nearest integer in its last places
  constexpr float kNormal = -126, kRaise = 64, kZero = kNormal - kRaise;
  const Vector bounded = y < kZero ? Vector{} + kZero : y;
  const auto is_low = bounded < kNormal;  // the exponent of a number would not hold it
  const Vector raised = is_low ? bounded + kRaise : bounded, shifted = raised + kMagic;
  const Vector power = polynomial(kPowers, raised - (shifted - kMagic));
  const Vector scaled =
      reinterpret_cast<Vector>(reinterpret_cast<Bits>(power) + (reinterpret_cast<Bits>(shifted) << 23));
  return is_low ? scaled * 0x1p-64f : scaled;
#endif
}

/// The normal distribution function at -a. The polynomial was fitted up to 9, where its value is 1e-19.
[[gnu::always_inline]] inline Vector normal_tail(Vector a) {
  constexpr float kLast = 9, kExponents[] = {-7.375729413e-08f, 3.624387451e-06f, -7.897829360e-05f, 1.016522832e-03f,
                                             -8.735674098e-03f, 5.426821756e-02f, 4.582866654e-01f,  1.151270926e+00f};
  return power_of_two(-1.0f - a * polynomial(kExponents, at_most(kLast, a)));
}

template <class H>
void gelu(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector x) {
    const Vector bounded = at_most(100, distance(x));
    return (x < 0.0f ? x * 0.0f : x) - bounded * normal_tail(bounded);
  });
}
template <class H>
void gelu_backward(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector grad, Vector x) {
    constexpr float kHalfLog2E = 0.72134752044f, kLog2RootTwoPi = 1.32574806474f;
    const Vector density = power_of_two(-kLog2RootTwoPi - kHalfLog2E * x * x), tail = normal_tail(distance(x));
    return grad * ((x < 0.0f ? tail : 1.0f - tail) + x * density);
  });
}

/// 1 / (1 + e^-x), with all digits on both sides.
[[gnu::always_inline]] inline Vector logistic(Vector x) {
  constexpr float kLog2E = 1.44269504089f;
  const Vector power = power_of_two(-kLog2E * distance(x)), above = 1.0f / (1.0f + power);
  return x < 0.0f ? power * above : above;
}
template <class H>
void sigmoid(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector x) { return logistic(x); });
}
template <class H>
void sigmoid_backward(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector grad, Vector result) { return grad * (1.0f - result) * result; });
}
template <class H>
void tanh_backward(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector grad, Vector result) { return grad * (1.0f - result * result); });
}
template <class H>
void silu(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector x) { return x * logistic(x); });
}
template <class H>
void silu_backward(int64_t n, void* out, const LoopInput* in, const void*) {
  binary<H>(n, out, in, [](Vector grad, Vector x) {
    const Vector s = logistic(x);
    return grad * s * (1.0f + x * (1.0f - s));
  });
}

struct Row {
  uint16_t loop;
  LoopFn half, bfloat;
};
const Row rows[] = {
    {loop_id::add_binary, add<Half, 1>, add<BFloat16, 1>},
    {loop_id::sub_binary, add<Half, -1>, add<BFloat16, -1>},
    {loop_id::mul_binary, mul<Half>, mul<BFloat16>},
    {loop_id::div_binary, div<Half>, div<BFloat16>},
    {loop_id::abs_unary_real, sign_bits<0x7fff, 0>, sign_bits<0x7fff, 0>},
    {loop_id::neg_unary, sign_bits<0xffff, 0x8000>, sign_bits<0xffff, 0x8000>},
    {loop_id::reciprocal_unary, reciprocal<Half>, reciprocal<BFloat16>},
    {loop_id::square_unary, square<Half>, square<BFloat16>},
    {loop_id::sqrt_unary, sqrt<Half>, sqrt<BFloat16>},
    {loop_id::rsqrt_unary, rsqrt<Half>, rsqrt<BFloat16>},
    {loop_id::floor_unary, rounded<Half, _MM_FROUND_TO_NEG_INF>, rounded<BFloat16, _MM_FROUND_TO_NEG_INF>},
    {loop_id::ceil_unary, rounded<Half, _MM_FROUND_TO_POS_INF>, rounded<BFloat16, _MM_FROUND_TO_POS_INF>},
    {loop_id::trunc_unary, rounded<Half, _MM_FROUND_TO_ZERO>, rounded<BFloat16, _MM_FROUND_TO_ZERO>},
    {loop_id::round_half_even_unary, rounded<Half, _MM_FROUND_TO_NEAREST_INT>,
     rounded<BFloat16, _MM_FROUND_TO_NEAREST_INT>},
    {loop_id::maximum_binary, extremum<Half, true>, extremum<BFloat16, true>},
    {loop_id::minimum_binary, extremum<Half, false>, extremum<BFloat16, false>},
    {loop_id::clamp_between_ternary, clamp_between<Half>, clamp_between<BFloat16>},
    {loop_id::lerp_ternary, lerp<Half>, lerp<BFloat16>},
    {loop_id::addcmul_ternary, addcmul<Half>, addcmul<BFloat16>},
    {loop_id::addcdiv_ternary, addcdiv<Half>, addcdiv<BFloat16>},
    {loop_id::relu_unary, relu<Half>, relu<BFloat16>},
    {loop_id::threshold_backward_binary, threshold_backward<Half>, threshold_backward<BFloat16>},
    {loop_id::hardtanh_unary, hardtanh<Half>, hardtanh<BFloat16>},
    {loop_id::hardtanh_backward_binary, hardtanh_backward<Half>, hardtanh_backward<BFloat16>},
    {loop_id::hardswish_unary, hardswish<Half>, hardswish<BFloat16>},
    {loop_id::hardswish_backward_binary, hardswish_backward<Half>, hardswish_backward<BFloat16>},
    {loop_id::leaky_relu_unary, leaky_relu<Half>, leaky_relu<BFloat16>},
    {loop_id::leaky_relu_backward_binary, leaky_relu_backward<Half>, leaky_relu_backward<BFloat16>},
    {loop_id::gelu_erf_unary, gelu<Half>, gelu<BFloat16>},
    {loop_id::gelu_erf_backward_binary, gelu_backward<Half>, gelu_backward<BFloat16>},
    {loop_id::sigmoid_unary, sigmoid<Half>, sigmoid<BFloat16>},
    {loop_id::sigmoid_backward_binary, sigmoid_backward<Half>, sigmoid_backward<BFloat16>},
    {loop_id::tanh_backward_binary, tanh_backward<Half>, tanh_backward<BFloat16>},
    {loop_id::silu_unary, silu<Half>, silu<BFloat16>},
    {loop_id::silu_backward_binary, silu_backward<Half>, silu_backward<BFloat16>},
};

/// The rows by their loops.
struct RowsByLoop {
  static constexpr int most = 1024;
  const Row* row[most] = {};
  RowsByLoop() {
    for (const Row& r : rows) row[r.loop] = &r;
  }
};

}  // namespace

LoopFn half_loop(uint16_t loop, DType half) {
  static const RowsByLoop by_loop;
  const Row* row = loop < RowsByLoop::most ? by_loop.row[loop] : nullptr;
  return !row ? nullptr : half == DType::Float16 ? row->half : half == DType::BFloat16 ? row->bfloat : nullptr;
}

#else

LoopFn half_loop(uint16_t, DType) { return nullptr; }

#endif

}  // namespace facula::cpu::FACULA_ISA
