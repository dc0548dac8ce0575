#include "cpu/isa/half.h"

#include <cstring>
#include <utility>

#include "op_ids_activation.h"
#include "op_ids_elementwise.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define FACULA_HALF_LOOPS 1
#endif

namespace facula::cpu::FACULA_ISA {

#ifdef FACULA_HALF_LOOPS
namespace {

// 32 bytes at every level: see kLight in cpu/loops.h.
typedef float Vector __attribute__((vector_size(32)));
typedef uint32_t Bits __attribute__((vector_size(32)));
constexpr int kLanes = 8;

/// Two vectors of numbers, which are one of halves in memory.
struct Pair {
  Vector low, high;
};

/// bfloat16 in the low halves, to nearest, NaN quiet.
[[gnu::always_inline]] inline Bits rounded_to_bfloat16(Vector v) {
  const Bits x = reinterpret_cast<Bits>(v), high = x >> 16;
  const Bits nan = (high & 0x8000) | 0x7fc0, rounded = (x + 0x7fff + (high & 1)) >> 16;
  return v != v ? nan : rounded;
}

[[gnu::always_inline]] inline Vector load(const Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
[[gnu::always_inline]] inline Vector load(const BFloat16* from) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
[[gnu::always_inline]] inline void store(Half* to, Pair v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + kLanes), _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}
[[gnu::always_inline]] inline void store(BFloat16* to, Pair v) {
  const Bits low = rounded_to_bfloat16(v.low), high = rounded_to_bfloat16(v.high);
  const __m256i packed = _mm256_packus_epi32(reinterpret_cast<__m256i>(low), reinterpret_cast<__m256i>(high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
}

/// An input as the loop goes through it: elements, or a number that stays.
template <class H>
struct Reader {
  explicit Reader(const LoopInput& in) : elements(static_cast<const H*>(in.data)), moves(in.step != 0) {
    if (!moves) std::memcpy(&number, in.data, sizeof number);
  }
  [[gnu::always_inline]] Pair next() {
    if (!moves) return {number, number};
    const Pair pair{load(elements), load(elements + kLanes)};
    elements += 2 * kLanes;
    return pair;
  }
  /// Puts the last `count` elements where whole vectors can be read.
  void pad(H* buffer, int64_t count) {
    if (!moves) return;
    std::memcpy(buffer, elements, static_cast<size_t>(count) * sizeof(H));
    elements = buffer;
  }
  const H* elements;
  Vector number{};
  bool moves;
};

/// f from pairs of vectors to vectors. The rest that does not fill vectors goes through buffers.
template <class H, class F, class... Readers>
[[gnu::always_inline]] inline void loop_of(int64_t n, void* out, F f, Readers... in) {
  constexpr int64_t step = 2 * kLanes;
  H* o = static_cast<H*>(out);
  const auto at = [&](auto&... pair) { return Pair{f(pair.low...), f(pair.high...)}; };
  const auto one = [&](H* to) { [&](auto... pair) { store(to, at(pair...)); }(in.next()...); };
  for (; n >= step; n -= step, o += step) one(o);
  if (n == 0) return;
  H buffers[sizeof...(in)][step] = {}, result[step];
  int k = 0;
  (in.pad(buffers[k++], n), ...);
  one(result);
  std::memcpy(o, result, static_cast<size_t>(n) * sizeof(H));
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
  unary<H>(n, out, in, [](Vector a) -> Vector { return _mm256_sqrt_ps(a); });
}
template <class H>
void rsqrt(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) { return 1.0f / static_cast<Vector>(_mm256_sqrt_ps(a)); });
}
template <class H, int how>
void rounded(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector a) -> Vector { return _mm256_round_ps(a, how | _MM_FROUND_NO_EXC); });
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

/// The polynomial of the coefficients, that of the highest power first.
template <int n>
[[gnu::always_inline]] inline Vector polynomial(const float (&c)[n], Vector x) {
  Vector sum = Vector{} + c[0];
  _Pragma("GCC unroll 16") for (int i = 1; i < n; ++i) sum = sum * x + c[i];
  return sum;
}

/// 2^y for y <= 0, and 0 below normal numbers.
[[gnu::always_inline]] inline Vector power_of_two(Vector y) {
  constexpr float kMagic = 0x1.8p23f;  // its sum with y has the nearest integer in its last places
  constexpr float kPowers[] = {1.326697992e-03f, 9.675469395e-03f, 5.550742675e-02f,
                               2.402212158e-01f, 6.931469491e-01f, 1.000000071e+00f};
  const Vector bounded = y < -126.0f ? Vector{} - 126.0f : y, shifted = bounded + kMagic;
  const Vector power = polynomial(kPowers, bounded - (shifted - kMagic));
  const Vector scaled =
      reinterpret_cast<Vector>(reinterpret_cast<Bits>(power) + (reinterpret_cast<Bits>(shifted) << 23));
  return y < -126.0f ? Vector{} : scaled;
}

/// The normal distribution function at -a. The polynomial was fitted up to 9, where its value is 1e-19.
[[gnu::always_inline]] inline Vector normal_tail(Vector a) {
  constexpr float kLast = 9, kExponents[] = {-7.375729413e-08f, 3.624387451e-06f, -7.897829360e-05f, 1.016522832e-03f,
                                             -8.735674098e-03f, 5.426821756e-02f, 4.582866654e-01f,  1.151270926e+00f};
  return power_of_two(-1.0f - a * polynomial(kExponents, a > kLast ? Vector{} + kLast : a));
}

template <class H>
void gelu(int64_t n, void* out, const LoopInput* in, const void*) {
  unary<H>(n, out, in, [](Vector x) {
    const Vector a = distance(x), bounded = a > 100.0f ? Vector{} + 100.0f : a;
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
