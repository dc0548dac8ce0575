// Computes special functions of one or two real numbers: the names of the `special` module that are not elementary.
//
// float32 arguments are computed in double, except where a function is built of vectorizable float32 ones.
#pragma once

#include "math.h"
#include "special_bessel.h"
#include "special_error.h"
#include "special_gamma.h"
#include "special_implicit.h"
#include "special_orthogonal.h"

namespace facula::kernels {

/// -x log(x); 0 at 0, -infinity below.
template <class T>
FACULA_FN T entr(T x) {
  return x > T(0) ? -x * log(x) : (x == T(0) ? T(0) : (x < T(0) ? -Float<T>::infinity : x));
}

/// sin(pi x) / (pi x).
template <class T>
FACULA_FN T sinc(T x) {
  const T y = static_cast<T>(pi) * x;
  return x == T(0) ? T(1) : sin(y) / y;
}

/// log(x / (1 - x)), with x first clamped to [eps, 1 - eps] where eps is not negative (negative: none given).
template <class T>
FACULA_FN T logit(T x, T eps) {
  const T low = eps < T(0) ? -Float<T>::infinity : eps, high = eps < T(0) ? Float<T>::infinity : T(1) - eps;
  const T z = x < low ? low : (x > high ? high : x);
  return log(z / (T(1) - z));
}

/// x log(y), 0 where x is 0 and y is a number.
template <class T>
FACULA_FN T xlogy(T x, T y) {
  return y != y ? y : (x == T(0) ? T(0) : x * log(y));
}

/// x log(1 + y), 0 where x is 0 and y is a number.
template <class T>
FACULA_FN T xlog1py(T x, T y) {
  return y != y ? y : (x == T(0) ? T(0) : x * log1p(y));
}

}  // namespace facula::kernels
