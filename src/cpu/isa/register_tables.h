// Elementary functions with AVX-512: short tables that are read in registers (a permutation is one instruction), and
// instructions that scale by powers of two and know overflow, subnormal numbers, infinity and NaN.
#pragma once

#include <cmath>

#include "cpu/loops.h"
#include "kernels/math.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define FACULA_AVX512 1

namespace facula::cpu::FACULA_ISA {

using Vector = __m512;

inline Vector all(float x) { return _mm512_set1_ps(x); }

/// 32 floats in two registers; an index is the low five bits of an element.
struct Table {
  Table() = default;
  explicit Table(const float* values) : low(_mm512_loadu_ps(values)), high(_mm512_loadu_ps(values + 16)) {}
  Vector operator[](__m512i index) const { return _mm512_permutex2var_ps(low, index, high); }
  Vector low, high;
};

/// 16 floats in one register.
struct ShortTable {
  explicit ShortTable(const float* values) : values(_mm512_loadu_ps(values)) {}
  Vector operator[](__m512i index) const { return _mm512_permutexvar_ps(index, values); }
  Vector values;
};

inline Vector load(const float* from, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, from); }
inline __m512d load(const double* from, __mmask8 lanes) { return _mm512_maskz_loadu_pd(lanes, from); }
inline void store(float* to, __mmask16 lanes, Vector v) { _mm512_mask_storeu_ps(to, lanes, v); }
inline void store(double* to, __mmask8 lanes, __m512d v) { _mm512_mask_storeu_pd(to, lanes, v); }

/// Calls body(i, lanes) for vectors of the elements from `i` on; lanes says which of the last one are there.
template <int width, class F>
[[gnu::always_inline]] inline void by_vectors(int64_t from, int64_t count, F body) {
  const int64_t last = from + (count & -width), rest = count & (width - 1);
  for (int64_t i = from; i != last; i += width) body(i, static_cast<__mmask16>(0xffff));
  if (rest) body(last, static_cast<__mmask16>((1u << rest) - 1));
}

/// A loop of a function object from vectors to vectors. It is copied into the loop, where its tables stay in registers.
template <class T, class F>
void vector_loop(int64_t n, void* out, const LoopInput* in, F f) {
  T* o = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0].data);
  in_blocks(
      n, o,
      [=](int64_t from, int64_t count) {
        by_vectors<64 / sizeof(T)>(from, count,
                                   [&](int64_t i, __mmask16 lanes) { store(o + i, lanes, f(load(a + i, lanes))); });
      },
      a);
}

/// x = (n + k / 16) ln 2 + r: e^x = 2^n * 2^(k/16) * e^r. What the powers lose when they are rounded to floats is added
/// to e^r - 1.
struct Exp {
  struct Values {
    float power[16], lost[16];
    Values() {
      for (int k = 0; k < 16; ++k) {
        const double exact = std::exp2(k / 16.0);
        power[k] = static_cast<float>(exact);
        lost[k] = static_cast<float>((exact - power[k]) / power[k]);
      }
    }
  };
  explicit Exp(const Values& values) : power(values.power), lost(values.lost) {}
  Vector operator()(Vector x) const {
    const Vector to_16ths = all(kernels::float_to_integer / 16);
    const Vector shifted = _mm512_fmadd_ps(x, all(1.44269504f), to_16ths), n = _mm512_sub_ps(shifted, to_16ths);
    Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), x);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
    r = _mm512_range_ps(r, all(1.0f),
                        2);  // at most 1 in magnitude, also where x is infinite or NaN: scaling does the rest
    const __m512i k = _mm512_castps_si512(shifted);
    const Vector tail = _mm512_fmadd_ps(r, all(0.166666667f), all(0.5f));
    const Vector p = _mm512_fmadd_ps(_mm512_fmadd_ps(r, tail, all(1.0f)), r, lost[k]);  // e^r - 1, to ln(2) / 32
    const Vector t = power[k];
    return _mm512_scalef_ps(_mm512_fmadd_ps(t, p, t), n);
  }
  ShortTable power, lost;
};

inline const Exp::Values& powers() {
  static const Exp::Values values;
  return values;
}
/// A function of [0, bound] as polynomials of degree 4 in 32 pieces: eight to an octave of 1 + 15 x / bound, so that
/// they are short where the function bends.
struct PieceValues {
  float bound, scale, middle[32] = {}, coefficient[5][32] = {};
  PieceValues(double (*f)(double), double bound, bool odd)
      : bound(static_cast<float>(bound)), scale(static_cast<float>(14.999 / bound)) {
    for (int piece = 0; piece < 32; ++piece) fit(f, piece, odd && piece == 0);
  }
  /// Returns the number near the middle, of many, at which the function is nearest to a float.
  static float near_a_float(double (*f)(double), float candidate) {
    float best = candidate;
    double least = 1;
    for (int tries = 0; tries < 100; ++tries, candidate = std::nextafter(candidate, 2 * candidate)) {
      const double value = f(static_cast<double>(candidate)), error = std::fabs(static_cast<float>(value) / value - 1);
      if (error >= least) continue;
      least = error;
      best = candidate;
    }
    return best;
  }
  /// Interpolation at the Chebyshev points; of f(x) / x - 1 in the first piece of an odd function.
  void fit(double (*f)(double), int piece, int first) {
    const double octave = std::ldexp(1.0, piece / 8), half = octave / 16 / scale;
    const double mid = (octave - 1) / scale + (2 * (piece % 8) + 1) * half;
    const int at = (piece + 24) % 32, points = 5 - first;  // 24: from the exponent of 1, which is 127
    middle[at] = first ? 0.0f : near_a_float(f, static_cast<float>(mid));
    double x[5], t[5], c[5] = {};
    for (int j = 0; j < points; ++j) {
      const double place = mid + half * std::cos(kernels::pi * (2 * j + 1) / (2 * points));
      x[j] = place - static_cast<double>(middle[at]);
      t[j] = first ? f(place) / place - 1 : f(place);
    }
    for (int level = 1; level < points; ++level) {
      for (int j = points - 1; j >= level; --j) t[j] = (t[j] - t[j - 1]) / (x[j] - x[j - level]);
    }
    for (int j = points - 1; j >= 0; --j) {  // Newton's form into powers
      for (int k = points - 1; k > 0; --k) c[k] = c[k - 1] - c[k] * x[j];
      c[0] = t[j] - c[0] * x[j];
    }
    for (int k = 0; k < points; ++k) coefficient[k + first][at] = static_cast<float>(c[k]);
  }
};

/// Such a function at `a`, which is not below 0: `piece` and `r` of it, and the rest of the polynomial.
struct Pieces {
  explicit Pieces(const PieceValues& values)
      : bound(all(values.bound)), scale(all(values.scale)), middle(values.middle) {
    for (int k = 0; k < 5; ++k) coefficient[k] = Table(values.coefficient[k]);
  }
  /// |x|, at most the bound; NaN stays.
  Vector distance(Vector x) const { return _mm512_min_ps(bound, _mm512_abs_ps(x)); }
  Vector place(Vector a) const { return _mm512_fmadd_ps(a, scale, all(1.0f)); }
  static __m512i piece(Vector place) { return _mm512_srli_epi32(_mm512_castps_si512(place), 20); }
  /// (f(a) - c0) / r.
  Vector slope(__m512i piece, Vector r) const {
    Vector y = coefficient[4][piece];
    for (int k = 3; k >= 1; --k) y = _mm512_fmadd_ps(y, r, coefficient[k][piece]);
    return y;
  }
  Vector operator()(Vector a) const {
    const __m512i at = piece(place(a));
    const Vector r = _mm512_sub_ps(a, middle[at]);
    return _mm512_fmadd_ps(slope(at, r), r, coefficient[0][at]);
  }
  Vector bound, scale;
  Table middle, coefficient[5];
};

}  // namespace facula::cpu::FACULA_ISA

#endif
