// Rotations of neighboring columns, of which one sweep over a matrix makes many: they are collected and made together,
// a few rows at a time, so that a column is read and written once for two rotations.
#pragma once

#include "cpu/isa/reflectors.h"

namespace facula::cpu::FACULA_ISA {

/// (c, s) with c f + s g = length and c g = s f. What is smaller than the root of the smallest number is nothing.
struct Rotation {
  double cosine = 1, sine = 0, length = 0;

  Rotation(double f, double g) : length(f) {
    const double square = f * f + g * g;
    if (square < 1e-280) return;
    const double reciprocal = 1 / square;  // beside the root, not after it
    length = std::sqrt(square);
    const double inverse = length * reciprocal;
    cosine = f * inverse;
    sine = g * inverse;
  }
};

/// Rotation i takes columns x and y, i and i + 1, to c x + s y and c y - s x.
template <class T>
struct Sweep {
  std::vector<T> cosine, sine;

  explicit Sweep(int64_t columns) : cosine(static_cast<size_t>(std::max<int64_t>(columns, 1))), sine(cosine.size()) {}
  void set(int64_t i, double c, double s) {
    cosine[static_cast<size_t>(i)] = static_cast<T>(c);
    sine[static_cast<size_t>(i)] = static_cast<T>(s);
  }
  /// Makes the rotations first, first + 1, ... last - 1 (or the other way round).
  void apply(Columns<T>& a, int64_t first, int64_t last, bool upwards) const {
    int64_t row = 0;
    constexpr int64_t lanes = kLanes<T>;
    for (; row + 4 * lanes <= a.step; row += 4 * lanes) apply_rows<4>(a, row, first, last, upwards);
    for (; row + 2 * lanes <= a.step; row += 2 * lanes) apply_rows<2>(a, row, first, last, upwards);
    for (; row < a.step; row += lanes) apply_rows<1>(a, row, first, last, upwards);
  }

 private:
  template <int vectors>
  void apply_rows(Columns<T>& a, int64_t row, int64_t first, int64_t last, bool upwards) const {
    using V = typename VectorOf<T>::type;
    constexpr int64_t lanes = kLanes<T>;
    V carried[vectors];
    auto put = [](T* to, V v) { std::memcpy(to, &v, sizeof v); };
    const T *c = cosine.data(), *s = sine.data();
    T* column = a.column(upwards ? first : last) + row;
    for (int v = 0; v < vectors; ++v) carried[v] = load_vector(column + v * lanes);
    if (upwards) {
      for (int64_t i = first; i < last; ++i, column += a.step) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          const V y = load_vector(column + a.step + v * lanes);
          put(column + v * lanes, V(c[i] * carried[v] + s[i] * y));
          carried[v] = c[i] * y - s[i] * carried[v];
        }
      }
    } else {
      for (int64_t i = last; i-- > first; column -= a.step) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          const V x = load_vector(column - a.step + v * lanes);
          put(column + v * lanes, V(c[i] * carried[v] - s[i] * x));
          carried[v] = c[i] * x + s[i] * carried[v];
        }
      }
    }
    for (int v = 0; v < vectors; ++v) put(column + v * lanes, carried[v]);
  }
};

}  // namespace facula::cpu::FACULA_ISA
