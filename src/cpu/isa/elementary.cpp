// Loops of elementary functions that do better than the compiler can with the scalar function. sin and cos take the
// cheap argument reduction in blocks without large arguments. With AVX-512, functions read tables in registers.
//
// Errors in units in the last place over all floats, bounded by tests/test_elementary.py: below 2.
#include <algorithm>
#include <cmath>

#include "cpu/isa/register_tables.h"
#include "cpu/loops.h"
#include "kernels/moderate_angles.h"
#include "op_ids_activation.h"
#include "op_ids_elementwise.h"
#include "op_ids_special.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T, class F>
void apply(int64_t n, T* o, const T* a, F f) {
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = f(a[i]);
}

#ifdef FACULA_AVX512

/// Exp in double.
struct ExpDouble {
  struct Values {
    double power[16];
    Values() {
      for (int k = 0; k < 16; ++k) power[k] = std::exp2(k / 16.0);
    }
  };
  explicit ExpDouble(const Values& values)
      : low(_mm512_loadu_pd(values.power)), high(_mm512_loadu_pd(values.power + 8)) {}
  static __m512d all(double x) { return _mm512_set1_pd(x); }
  __m512d operator()(__m512d x) const {
    const __m512d to_16ths = all(kernels::double_to_integer / 16);
    const __m512d shifted = _mm512_fmadd_pd(x, all(1.4426950408889634), to_16ths), n = _mm512_sub_pd(shifted, to_16ths);
    __m512d r = _mm512_fnmadd_pd(n, all(0x1.62e42fefa3800p-1), x);
    r = _mm512_fnmadd_pd(n, all(0x1.ef35793c76730p-45), r);
    r = _mm512_range_pd(r, all(1.0), 2);  // as in Exp
    __m512d p =
        _mm512_fmadd_pd(r, all(1.0 / 720), all(0.008333496279944296));  // Taylor's; these two make up for r^7 / 5040
    p = _mm512_fmadd_pd(p, r, all(1.0 / 24));
    p = _mm512_fmadd_pd(p, r, all(0.16666666662843235));
    p = _mm512_fmadd_pd(p, r, all(0.5));
    p = _mm512_fmadd_pd(_mm512_mul_pd(r, r), p, r);
    const __m512d t = _mm512_permutex2var_pd(low, _mm512_castpd_si512(shifted), high);
    return _mm512_scalef_pd(_mm512_fmadd_pd(t, p, t), n);
  }
  __m512d low, high;
};

/// x = n + k / 16 + r: 2^x = 2^n * 2^(k/16) * e^(r ln 2), as Exp.
struct Exp2 {
  explicit Exp2(const Exp::Values& values) : power(values.power), lost(values.lost) {}
  Vector operator()(Vector x) const {
    const Vector to_16ths = all(kernels::float_to_integer / 16);
    const Vector shifted = _mm512_add_ps(x, to_16ths), n = _mm512_sub_ps(shifted, to_16ths);
    const Vector r = _mm512_range_ps(_mm512_mul_ps(_mm512_sub_ps(x, n), all(0.693147181f)), all(1.0f), 2);
    const __m512i k = _mm512_castps_si512(shifted);
    const Vector tail = _mm512_fmadd_ps(r, all(0.166666667f), all(0.5f));
    const Vector p = _mm512_fmadd_ps(_mm512_fmadd_ps(r, tail, all(1.0f)), r, lost[k]);
    const Vector t = power[k];
    return _mm512_scalef_ps(_mm512_fmadd_ps(t, p, t), n);
  }
  ShortTable power, lost;
};

/// e^x / (1 + e^x) for x below zero, 1 / (1 + e^-x) above. The rounding errors of e and of 1 + e go into a correction
/// of the quotient.
struct Sigmoid {
  explicit Sigmoid(const Exp::Values& values) : power(values.power) {}
  Vector operator()(Vector x) const {
    const Vector a = _mm512_or_ps(x, all(-0.0f)), to_16ths = all(kernels::float_to_integer / 16);
    const Vector shifted = _mm512_fmadd_ps(a, all(1.44269504f), to_16ths), n = _mm512_sub_ps(shifted, to_16ths);
    Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), a);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
    r = _mm512_range_ps(r, all(1.0f), 2);  // as in Exp
    const Vector cubic = _mm512_fmadd_ps(r, all(0.166666667f), all(0.5f));
    const Vector p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), cubic, r);
    const Vector t = power[_mm512_castps_si512(shifted)], unscaled = _mm512_fmadd_ps(t, p, t);
    const Vector e = _mm512_scalef_ps(unscaled, n);
    const Vector e_error = _mm512_scalef_ps(_mm512_fmadd_ps(t, p, _mm512_sub_ps(t, unscaled)), n);
    const Vector sum = _mm512_add_ps(all(1.0f), e);
    const Vector sum_error = _mm512_add_ps(_mm512_sub_ps(e, _mm512_sub_ps(sum, all(1.0f))), e_error);
    Vector inverse = _mm512_rcp14_ps(sum);
    inverse = _mm512_fmadd_ps(_mm512_fnmadd_ps(sum, inverse, all(1.0f)), inverse, inverse);
    const __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    const Vector above = _mm512_mask_mov_ps(all(1.0f), below, e), above_error = _mm512_maskz_mov_ps(below, e_error);
    const Vector quotient = _mm512_mul_ps(above, inverse);
    const Vector rest =
        _mm512_add_ps(_mm512_fnmadd_ps(quotient, sum, above), _mm512_fnmadd_ps(quotient, sum_error, above_error));
    return _mm512_fmadd_ps(rest, inverse, quotient);
  }
  ShortTable power;
};

/// x = 2^e m, with c near 1 / m from a table by the leading bits of m: log x = e ln 2 - log c + log(m c). Around 1,
/// where the result is small, c is exactly 1 or 1/2.
struct Log {
  static constexpr double kLn2 = 0x1.62e43p-1;  // the float
  struct Values {
    float c[32], log_c[32];
    Values() {
      for (int k = 0; k < 32; ++k) pick(k);
    }
    // Of many numbers near the middle, the one whose logarithm is nearly a float; above m = sqrt(2), its distance from
    // ln 2, which the product with e = -1 takes away.
    void pick(int k) {
      const bool upper = 1 + k / 32.0 > 1.4;
      const double offset = upper ? kLn2 : 0.0;
      float candidate = k == 0 ? 1.0f : k == 31 ? 0.5f : static_cast<float>(1 / (1 + k / 32.0 + 1 / 64.0));
      double best = 1;
      for (int tries = k == 0 || k == 31 ? 1 : 100; tries > 0; --tries, candidate = std::nextafter(candidate, 2.0f)) {
        const double exact = -std::log(static_cast<double>(candidate)) - (upper ? kernels::ln_2 : 0.0);
        const float rounded = static_cast<float>(exact + offset);
        const double error = exact == 0 ? 0 : std::fabs(rounded - offset - exact) / std::fabs(exact);
        if (error >= best) continue;
        best = error;
        c[k] = candidate;
        log_c[k] = rounded;
      }
    }
  };
  explicit Log(const Values& values) : c(values.c), log_c(values.log_c) {}
  Vector operator()(Vector x) const {
    const Vector e = _mm512_getexp_ps(x), m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
    const __m512i k = _mm512_srli_epi32(_mm512_castps_si512(m), 18);
    const Vector r = _mm512_fmadd_ps(m, c[k], all(-1.0f));
    Vector p = _mm512_fmadd_ps(r, all(-0.24410301f), all(0.33336982f));  // to [-1/64, 1/32]
    p = _mm512_fmadd_ps(p, r, all(-0.50000122f));
    const Vector tail = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
    return _mm512_add_ps(_mm512_fmadd_ps(e, all(static_cast<float>(kLn2)), log_c[k]), tail);
  }
  Table c, log_c;
};

/// An odd function that is flat beyond the bound. In the first piece the table is of f(x) - x.
struct OddPieces : Pieces {
  using Pieces::Pieces;
  Vector operator()(Vector x) const {
    const Vector a = distance(x), at = place(a);
    const __m512i k = piece(at);
    const Vector r = _mm512_sub_ps(a, middle[k]);
    const __mmask16 first = _mm512_cmp_ps_mask(at, all(1.125f), _CMP_LT_OQ);
    const Vector y = _mm512_fmadd_ps(slope(k, r), r, _mm512_mask_mov_ps(coefficient[0][k], first, a));
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);  // the sign of x, the rest of y
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(magnitude, _mm512_castps_si512(y), _mm512_castps_si512(x), 0xca));
  }
};

/// sin, or cos, of angles that are not large nor NaN, as kernels::sin_moderate and kernels::cos_moderate.
template <bool Cosine>
struct HalfTurns {
  Vector operator()(Vector x) const {
    const Vector magic = all(kernels::float_to_integer), turns = _mm512_set1_ps(0.318309886f), half = all(0.5f);
    const Vector shifted =
        Cosine ? _mm512_add_ps(_mm512_fmadd_ps(x, turns, half), magic) : _mm512_fmadd_ps(x, turns, magic);
    Vector h = _mm512_sub_ps(shifted, magic);
    if (Cosine) h = _mm512_sub_ps(h, half);
    Vector r = _mm512_fnmadd_ps(h, all(0x1.921fb4p1f), x);
    r = _mm512_fnmadd_ps(h, all(0x1.4442d0p-23f), r);
    r = _mm512_fnmadd_ps(h, all(0x1.846988p-47f), r);
    const Vector s = _mm512_mul_ps(r, r);
    Vector p = _mm512_fmadd_ps(s, all(0x1.5dae86p-19f), all(-0x1.9f6ef6p-13f));
    p = _mm512_fmadd_ps(p, s, all(0x1.110ecep-7f));
    p = _mm512_fmadd_ps(p, s, all(-0x1.55554cp-3f));
    const Vector value = _mm512_range_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(s, r), r), all(1.0f), 2);  // no more than 1
    const __m512i sign = _mm512_slli_epi32(_mm512_castps_si512(shifted), 31);
    const Vector turned = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(value), sign));
    if (Cosine) return turned;
    return _mm512_mask_mov_ps(turned, _mm512_cmp_ps_mask(x, all(0.0f), _CMP_EQ_OQ), x);  // zeros keep their signs
  }
};

/// The same in double, as one polynomial.
template <bool Cosine>
struct HalfTurnsDouble {
  static __m512d all(double x) { return _mm512_set1_pd(x); }
  __m512d operator()(__m512d x) const {
    const __m512d magic = all(kernels::double_to_integer), turns = all(1 / kernels::pi), half = all(0.5);
    const __m512d shifted =
        Cosine ? _mm512_add_pd(_mm512_fmadd_pd(x, turns, half), magic) : _mm512_fmadd_pd(x, turns, magic);
    __m512d h = _mm512_sub_pd(shifted, magic);
    if (Cosine) h = _mm512_sub_pd(h, half);
    __m512d r = _mm512_fnmadd_pd(h, all(0x1.921fb54442d18p+1), x);
    r = _mm512_fnmadd_pd(h, all(0x1.1a62633145c06p-53), r);
    r = _mm512_fnmadd_pd(h, all(0x1.c1cd129024e09p-106), r);
    const __m512d s = _mm512_mul_pd(r, r);
    __m512d p = all(0x1.89a3f16388edcp-49);  // (sin(r) / r - 1) / r^2 at Chebyshev points of r^2
    for (double c : {-0x1.ae513415aadccp-41, 0x1.6124014cbe2fcp-33, -0x1.ae6455a1a9e7ep-26, 0x1.71de3a54562a8p-19,
                     -0x1.a01a01a018aa6p-13, 0x1.1111111111107p-7, -0x1.5555555555555p-3}) {
      p = _mm512_fmadd_pd(p, s, all(c));
    }
    const __m512d value = _mm512_range_pd(_mm512_fmadd_pd(p, _mm512_mul_pd(s, r), r), all(1.0), 2);
    const __m512i sign = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 63);
    const __m512d turned = _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(value), sign));
    if (Cosine) return turned;
    return _mm512_mask_mov_pd(turned, _mm512_cmp_pd_mask(x, all(0.0), _CMP_EQ_OQ), x);
  }
};

bool all_below(Vector v, float bound) { return _mm512_cmp_ps_mask(v, all(bound), _CMP_LT_OQ) == 0xffff; }
bool all_below(__m512d v, double bound) { return _mm512_cmp_pd_mask(v, _mm512_set1_pd(bound), _CMP_LT_OQ) == 0xff; }

__mmask16 below(Vector v, float bound) { return _mm512_cmp_ps_mask(_mm512_abs_ps(v), all(bound), _CMP_LT_OQ); }
__mmask16 below(__m512d v, double bound) {
  return _mm512_cmp_pd_mask(_mm512_abs_pd(v), _mm512_set1_pd(bound), _CMP_LT_OQ);
}

/// `moderate` for `count` vectors at once. Where their sum of squares shows an element of `bound` or more, or NaN,
/// `any` for such elements: a result does not depend on what lies beside the element. What was read is saved for that,
/// as the output may be the same memory.
template <int count, class T, class Moderate, class Any>
[[gnu::always_inline]] inline void angles(T* o, const T* a, __mmask16 lanes, T bound, Moderate moderate, Any any) {
  constexpr int width = 64 / sizeof(T);
  using V = decltype(load(a, lanes));
  V x[count], squares = {};
  for (int k = 0; k < count; ++k) {
    x[k] = load(a + width * k, lanes);
    squares += x[k] * x[k];
  }
  for (int k = 0; k < count; ++k) store(o + width * k, lanes, moderate(x[k]));
  if (all_below(squares, bound * bound)) return;
  T values[width * count];
  for (int k = 0; k < count; ++k) store(values + width * k, static_cast<__mmask16>(0xffff), x[k]);
  apply(width * count, values, values, any);
  for (int k = 0; k < count; ++k)
    store(o + width * k, static_cast<__mmask16>(lanes & ~below(x[k], bound)), load(values + width * k, lanes));
}

template <class T, class Moderate, class Any>
void angle_loop(int64_t n, void* out, const LoopInput* in, T bound, Moderate moderate, Any any) {
  constexpr int width = 64 / sizeof(T), at_once = 8;
  T* o = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0].data);
  in_blocks(
      n, o,
      [=](int64_t from, int64_t count) {
        for (; count >= width * at_once; count -= width * at_once, from += width * at_once)
          angles<at_once>(o + from, a + from, static_cast<__mmask16>(0xffff), bound, moderate, any);
        by_vectors<width>(from, count,
                          [&](int64_t i, __mmask16 lanes) { angles<1>(o + i, a + i, lanes, bound, moderate, any); });
      },
      a);
}

void sin_float(int64_t n, void* out, const LoopInput* in, const void*) {
  angle_loop<float>(n, out, in, kernels::moderate_angle, HalfTurns<false>(), [](float x) { return kernels::sin(x); });
}
void cos_float(int64_t n, void* out, const LoopInput* in, const void*) {
  angle_loop<float>(n, out, in, kernels::moderate_angle, HalfTurns<true>(), [](float x) { return kernels::cos(x); });
}
void sin_double(int64_t n, void* out, const LoopInput* in, const void*) {
  angle_loop<double>(n, out, in, kernels::moderate_angle_double, HalfTurnsDouble<false>(),
                     [](double x) { return kernels::sin(x); });
}
void cos_double(int64_t n, void* out, const LoopInput* in, const void*) {
  angle_loop<double>(n, out, in, kernels::moderate_angle_double, HalfTurnsDouble<true>(),
                     [](double x) { return kernels::cos(x); });
}

void exp_float(int64_t n, void* out, const LoopInput* in, const void*) {
  vector_loop<float>(n, out, in, Exp(powers()));
}
void exp2_float(int64_t n, void* out, const LoopInput* in, const void*) {
  vector_loop<float>(n, out, in, Exp2(powers()));
}
void exp_double(int64_t n, void* out, const LoopInput* in, const void*) {
  static const ExpDouble::Values values;
  vector_loop<double>(n, out, in, ExpDouble(values));
}
void sigmoid_float(int64_t n, void* out, const LoopInput* in, const void*) {
  vector_loop<float>(n, out, in, Sigmoid(powers()));
}
void log_float(int64_t n, void* out, const LoopInput* in, const void*) {
  static const Log::Values values;
  vector_loop<float>(n, out, in, Log(values));
}
void tanh_float(int64_t n, void* out, const LoopInput* in, const void*) {
  static const PieceValues values(std::tanh, 10.0, true);
  vector_loop<float>(n, out, in, OddPieces(values));
}
void erf_float(int64_t n, void* out, const LoopInput* in, const void*) {
  static const PieceValues values(std::erf, 4.0, true);
  vector_loop<float>(n, out, in, OddPieces(values));
}

#else

/// `moderate` for elements below `bound` in magnitude, `any` for the others, which most blocks have none of: a result
/// does not depend on what lies beside the element.
template <class T, class Moderate, class Any>
void where_moderate(int64_t n, void* out, const LoopInput* in, T bound, Moderate moderate, Any any) {
  T* o = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0].data);
  in_blocks(
      n, o,
      [=](int64_t from, int64_t count) {
        T largest = kernels::has_fma ? T(0) : bound;
        _Pragma("omp simd reduction(max:largest)") for (int64_t i = from; i < from + count; ++i) {
          const T magnitude = kernels::abs(a[i]);
          largest = magnitude > largest ? magnitude : largest;
        }
        if (largest < bound) return apply(count, o + from, a + from, moderate);
        apply(count, o + from, a + from, [=](T x) {
          const T near = moderate(x), far = any(x);
          return kernels::has_fma && kernels::abs(x) < bound ? near : far;
        });
      },
      a);
}

void sin_float(int64_t n, void* out, const LoopInput* in, const void*) {
  where_moderate<float>(
      n, out, in, kernels::moderate_angle, [](float x) { return kernels::sin_moderate(x); },
      [](float x) { return kernels::sin(x); });
}
void cos_float(int64_t n, void* out, const LoopInput* in, const void*) {
  where_moderate<float>(
      n, out, in, kernels::moderate_angle, [](float x) { return kernels::cos_moderate(x); },
      [](float x) { return kernels::cos(x); });
}
void sin_double(int64_t n, void* out, const LoopInput* in, const void*) {
  where_moderate<double>(
      n, out, in, kernels::moderate_angle_double, [](double x) { return kernels::sin_moderate(x); },
      [](double x) { return kernels::sin(x); });
}
void cos_double(int64_t n, void* out, const LoopInput* in, const void*) {
  where_moderate<double>(
      n, out, in, kernels::moderate_angle_double, [](double x) { return kernels::cos_moderate(x); },
      [](double x) { return kernels::cos(x); });
}

#endif

/// Between numbers nothing is checked at every element. NaN among them, and elements that are a number as well,
/// are left to the loop for tensors.
LoopFn clamp_between_tensors;
void clamp_float(int64_t n, void* out, const LoopInput* in, const void* params) {
  const float min = *static_cast<const float*>(in[1].data), max = *static_cast<const float*>(in[2].data);
  const bool between_numbers = in[0].step && !in[1].step && !in[2].step;
  if (!between_numbers || min != min || max != max) return clamp_between_tensors(n, out, in, params);
  unary_loop<float, float, kLight>(n, out, in, [=](float x) {
    const float limited = min > x ? min : x;
    return max < limited ? max : limited;
  });
}

void set(uint16_t loop, DType dtype, LoopFn f) { loop_table[loop][index(dtype)] = f; }

}  // namespace

void register_elementary() {
  clamp_between_tensors = loop_table[loop_id::clamp_between_ternary][index(DType::Float32)];
  set(loop_id::clamp_between_ternary, DType::Float32, clamp_float);
  set(loop_id::sin_unary, DType::Float32, sin_float);
  set(loop_id::cos_unary, DType::Float32, cos_float);
  set(loop_id::sin_unary, DType::Float64, sin_double);
  set(loop_id::cos_unary, DType::Float64, cos_double);
#ifdef FACULA_AVX512
  set(loop_id::exp_unary, DType::Float32, exp_float);
  set(loop_id::exp_unary, DType::Float64, exp_double);
  set(loop_id::exp2_unary, DType::Float32, exp2_float);
  set(loop_id::log_unary, DType::Float32, log_float);
  set(loop_id::sigmoid_unary, DType::Float32, sigmoid_float);
  set(loop_id::tanh_unary, DType::Float32, tanh_float);
  set(loop_id::erf_unary, DType::Float32, erf_float);
#endif
}

}  // namespace facula::cpu::FACULA_ISA
