// Computes losses of one element.
#pragma once

#include "elementwise.h"
#include "math.h"

namespace facula::kernels {

template <class T>
FACULA_FN T mse_each(T self, T target) {
  return square(sub(self, target, T(1)));
}

template <class T>
FACULA_FN T mse_backward(T grad_output, T self, T target) {
  return mul(mul(T(2), sub(self, target, T(1))), grad_output);
}

/// NaN stays.
template <class T>
FACULA_FN T limited(T x, T limit) {
  return x > limit ? limit : (x < -limit ? -limit : x);
}

template <class T>
FACULA_FN T smooth_l1_each(T self, T target, T beta) {
  const T d = abs(self - target);
  return d < beta ? T(0.5) * d * d / beta : d - T(0.5) * beta;
}

template <class T>
FACULA_FN T huber_each(T self, T target, T delta) {
  const T d = abs(self - target);
  return d < delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta);
}

template <class T>
FACULA_FN T smooth_l1_backward(T grad_output, T self, T target, T beta) {
  return limited((self - target) / beta, T(1)) * grad_output;
}

template <class T>
FACULA_FN T huber_backward(T grad_output, T self, T target, T delta) {
  return limited(self - target, delta) * grad_output;
}

/// The limit keeps 0 * log(0) at zero and the loss finite.
template <class T>
FACULA_FN T limited_log(T x) {
  const T l = log(x);
  return l < T(-100) ? T(-100) : l;
}

template <class T>
FACULA_FN T bce_each(T self, T target) {
  return (target - T(1)) * limited_log(T(1) - self) - target * limited_log(self);
}
template <class T>
FACULA_FN T bce_backward(T grad_output, T self, T target) {
  const T spread = (T(1) - self) * self;
  return grad_output * (self - target) / (spread < T(1e-12) ? T(1e-12) : spread);
}

template <class T>
FACULA_FN T bce_logits_each(T self, T target) {
  const T below = self < T(0) ? -self : T(0);
  return (T(1) - target) * self + below + log1p(exp(-abs(self)));
}

}  // namespace facula::kernels
