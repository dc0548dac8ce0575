// Transforms of a few points: a point is a pair of vectors, each lane a transform of its own.
#pragma once

#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

#define FACULA_INLINE [[gnu::always_inline]] inline
#define FACULA_UNROLL _Pragma("GCC unroll 32")

template <class T>
using Lanes = typename VectorOf<T>::type;

template <class T>
struct Points {
  Lanes<T> re, im;
};

template <class T>
FACULA_INLINE Points<T> operator+(Points<T> a, Points<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
FACULA_INLINE Points<T> operator-(Points<T> a, Points<T> b) {
  return {a.re - b.re, a.im - b.im};
}
/// Times a number, the same in all lanes.
template <class T>
FACULA_INLINE Points<T> operator*(Points<T> a, T b) {
  return {a.re * b, a.im * b};
}
/// Times the complex number (re, im), of numbers or of vectors.
template <class T, class F>
FACULA_INLINE Points<T> times(Points<T> a, F re, F im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}
template <class T>
FACULA_INLINE Points<T> times_minus_i(Points<T> a) {
  return {a.im, -a.re};
}
template <class T>
FACULA_INLINE Points<T> add_minus_i(Points<T> a, Points<T> b) {  // a - i b
  return {a.re + b.im, a.im - b.re};
}
template <class T>
FACULA_INLINE Points<T> add_i(Points<T> a, Points<T> b) {  // a + i b
  return {a.re - b.im, a.im + b.re};
}

template <int radix>
struct Butterfly;

template <>
struct Butterfly<2> {
  template <class T>
  FACULA_INLINE static void run(Points<T>* a) {
    Points<T> b = a[0] - a[1];
    a[0] = a[0] + a[1];
    a[1] = b;
  }
};

template <class T>
FACULA_INLINE void four(Points<T>& a, Points<T>& b, Points<T>& c, Points<T>& d) {
  Points<T> s = a + c, t = a - c, u = b + d, v = b - d;
  a = s + u;
  b = add_minus_i(t, v);
  c = s - u;
  d = add_i(t, v);
}

template <>
struct Butterfly<4> {
  template <class T>
  FACULA_INLINE static void run(Points<T>* a) {
    four(a[0], a[1], a[2], a[3]);
  }
};

template <>
struct Butterfly<8> {
  template <class T>
  FACULA_INLINE static void run(Points<T>* a) {
    constexpr T h = static_cast<T>(0.70710678118654752440L);
    Points<T> e[4], o[4];
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k) {
      e[k] = a[k] + a[k + 4];
      o[k] = a[k] - a[k + 4];
    }
    o[1] = Points<T>{o[1].re + o[1].im, o[1].im - o[1].re} * h;
    o[2] = times_minus_i(o[2]);
    o[3] = Points<T>{o[3].im - o[3].re, o[3].re + o[3].im} * h;
    o[3].im = -o[3].im;
    four(e[0], e[1], e[2], e[3]);
    four(o[0], o[1], o[2], o[3]);
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k) {
      a[2 * k] = e[k];
      a[2 * k + 1] = o[k];
    }
  }
};

// cos and sin of 2 pi k / radix, k = 1 ... radix / 2.
template <int radix>
struct Roots;
template <>
struct Roots<3> {
  static constexpr long double cos[] = {-0.5L};
  static constexpr long double sin[] = {0.86602540378443864676L};
};
template <>
struct Roots<5> {
  static constexpr long double cos[] = {0.30901699437494742410L, -0.80901699437494742410L};
  static constexpr long double sin[] = {0.95105651629515357212L, 0.58778525229247312917L};
};
template <>
struct Roots<7> {
  static constexpr long double cos[] = {0.62348980185873353053L, -0.22252093395631440429L, -0.90096886790241912624L};
  static constexpr long double sin[] = {0.78183148246802980871L, 0.97492791218182360702L, 0.43388373911755812048L};
};

// An odd prime: sums and differences of the points k and radix - k times cosines and sines.
template <int radix>
struct Butterfly {
  template <class T>
  FACULA_INLINE static void run(Points<T>* a) {
    constexpr int half = radix / 2;
    Points<T> sum[half], difference[half];
    Points<T> first = a[0];
    FACULA_UNROLL
    for (int k = 0; k < half; ++k) {
      sum[k] = a[k + 1] + a[radix - 1 - k];
      difference[k] = a[k + 1] - a[radix - 1 - k];
      a[0] = a[0] + sum[k];
    }
    FACULA_UNROLL
    for (int j = 1; j <= half; ++j) {
      Points<T> even = first, odd;
      FACULA_UNROLL
      for (int k = 1; k <= half; ++k) {
        const int turn = j * k % radix, at = (turn <= half ? turn : radix - turn) - 1;
        const T c = static_cast<T>(Roots<radix>::cos[at]);
        const T s = static_cast<T>(turn <= half ? Roots<radix>::sin[at] : -Roots<radix>::sin[at]);
        even = even + sum[k - 1] * c;
        odd = k == 1 ? difference[0] * s : odd + difference[k - 1] * s;
      }
      a[j] = add_minus_i(even, odd);
      a[radix - j] = add_i(even, odd);
    }
  }
};

}  // namespace facula::cpu::FACULA_ISA
