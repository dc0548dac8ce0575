// The scalar functions of ops/activation.yaml: activation functions, and as *_backward the product of the
// incoming gradient and their derivative. T is float, double or, for sigmoid and silu, complex; piecewise
// linear ones also take integers.
#pragma once

#include "complex.h"
#include "math.h"

namespace facula::kernels {

// ---- sigmoid family

template <class T>
FACULA_FN T sigmoid(T self) {
  return T(1) / (T(1) + exp(-self));
}
template <class T>
FACULA_FN T sigmoid_backward(T grad_output, T output) {
  return grad_output * (T(1) - output) * output;
}

template <class T>
FACULA_FN T gated(T self, T gate) {
  return self * sigmoid(gate);
}

template <class T>
FACULA_FN T logit(T self) {
  return log(self / (T(1) - self));
}

template <class T>
FACULA_FN T logit_backward(T grad_output, T self) {
  const T slope = abs(self * (T(1) - self));
  return self < T(0) || self > T(1) ? Float<T>::nan : grad_output / slope;
}

/// log(1 + exp(self)), without overflow.
template <class T>
FACULA_FN T log1p_exp(T self) {
  return maximum(self, T(0)) + log1p(exp(-abs(self)));
}

template <class T>
FACULA_FN T logsigmoid(T self) {
  return -log1p_exp(-self);
}

template <class T>
FACULA_FN T softplus(T self, T beta, T threshold) {
  const T scaled = self * beta;
  return scaled > threshold ? self : log1p_exp(scaled) / beta;
}
template <class T>
FACULA_FN T softplus_backward(T grad_output, T self, T beta, T threshold) {
  const T scaled = self * beta;
  return scaled > threshold ? grad_output : grad_output * sigmoid(scaled);
}

template <class T>
FACULA_FN T silu(T self) {
  if constexpr (is_device_float<T>) return self * sigmoid(self);
  return self / (T(1) + exp(-self));
}
template <class T>
FACULA_FN T silu_backward(T grad_output, T self) {
  const T s = sigmoid(self);
  return grad_output * s * (T(1) + self * (T(1) - s));
}

/// tanh(log(1 + e^x)) is n / (n + 2) for n = e^x (e^x + 2); above zero both are multiplied by e^-2x.
template <class T>
struct MishGate {
  FACULA_FN explicit MishGate(T self) : e(exp(-abs(self))) {
    const T above = e + e + T(1), square = e * e;
    numerator = self < T(0) ? mul_add(e, e, e + e) : above;
    denominator = numerator + (self < T(0) ? T(2) : square + square);
    slope = (self < T(0) ? e : square) * (T(4) + T(4) * e) / (denominator * denominator);
  }
  FACULA_FN T value() const { return numerator / denominator; }
  T e, numerator, denominator;
  T slope;  // the derivative of the value
};
template <class T>
FACULA_FN T mish(T self) {
  return self * MishGate<T>(self).value();
}
template <class T>
FACULA_FN T mish_backward(T grad_output, T self) {
  const MishGate<T> gate(self);
  return grad_output * mul_add(self, gate.slope, gate.value());
}

// ---- exponential and Gaussian units

template <class T>
FACULA_FN T elu(T self, T alpha, T scale, T input_scale) {
  const T below = expm1(self * input_scale) * (scale * alpha);
  return self > T(0) ? self * scale : below;
}
template <class T>
FACULA_FN T elu_backward(T grad_output, T self, T alpha, T scale, T input_scale) {
  const T below = grad_output * exp(self * input_scale) * (input_scale * scale * alpha);
  return self > T(0) ? grad_output * scale : below;
}

template <class T>
FACULA_FN T gelu_erf(T self) {
  return self * T(0.5) * (T(1) + erf(self * T(1 / sqrt_2)));
}
/// x times the distribution function of the normal distribution: exp(-a g(a)) / 2 is its value at -a. g is fitted up to
/// 6, where the value is 1e-9, and constant from there on.
FACULA_FN float gelu_erf(float self) {
  if constexpr (for_device) return device::gelu_erf(self);
  const float a = abs(self), t = 6.0f < a ? 6.0f : a, t2 = t * t;
  const float high = horner(t, 1.27212236e-08f, -4.07667801e-07f, 5.57753388e-06f, -4.11553513e-05f, 0.000153080008f);
  const float low = horner(t, 8.40474743e-05f, -0.00491634975f, 0.0364157222f, 0.318287215f, 0.797886725f);
  const float g = mul_add(t2 * t2 * t, high, low);
  const float tail = exp_nonpositive(-a * g, 0.5f);
  return self * (self < 0.0f ? tail : 1.0f - tail);
}
template <class T>
FACULA_FN T gelu_erf_backward(T grad_output, T self) {
  constexpr T inverse_sqrt_two_pi = T(1 / (sqrt_2 * sqrt_pi));
  const T cdf = T(0.5) * (T(1) + erf(self * T(1 / sqrt_2)));
  const T density = inverse_sqrt_two_pi * exp(T(-0.5) * self * self);
  return grad_output * (cdf + self * density);
}

/// The argument of the tanh in the approximation of gelu, and its derivative.
template <class T>
FACULA_FN T gelu_tanh_argument(T self) {
  return T(sqrt_2 / sqrt_pi) * (self + T(0.044715) * self * self * self);
}
template <class T>
FACULA_FN T gelu_tanh_slope(T self) {
  return T(sqrt_2 / sqrt_pi) * (T(1) + T(3 * 0.044715) * self * self);
}
template <class T>
FACULA_FN T gelu_tanh(T self) {
  if constexpr (is_device_float<T>) return device::gelu_tanh(self);
  return T(0.5) * self * (T(1) + tanh(gelu_tanh_argument(self)));
}
template <class T>
FACULA_FN T gelu_tanh_backward(T grad_output, T self) {
  const T t = tanh(gelu_tanh_argument(self));
  return grad_output * T(0.5) * (T(1) + t + self * (T(1) - t * t) * gelu_tanh_slope(self));
}

// ---- piecewise linear units

/// Comparisons are written so that NaN passes through.
template <class T>
FACULA_FN T relu(T self) {
  return self <= T(0) ? T(0) : self;
}

template <class T>
FACULA_FN T threshold(T self, T threshold, T value) {
  return self <= threshold ? value : self;
}
template <class T>
FACULA_FN T threshold_backward(T grad_output, T self, T threshold) {
  return self <= threshold ? T(0) : grad_output;
}

template <class T>
FACULA_FN T hardtanh(T self, T min_val, T max_val) {
  return clamp(self, min_val, max_val);
}
template <class T>
FACULA_FN T hardtanh_backward(T grad_output, T self, T min_val, T max_val) {
  return (self <= min_val) | (self >= max_val) ? T(0) : grad_output;  // NaN lets it pass
}

template <class T>
FACULA_FN T hardsigmoid(T self) {
  return hardtanh(self + T(3), T(0), T(6)) / T(6);
}

template <class T>
FACULA_FN T hardswish(T self) {
  return self * hardtanh(self + T(3), T(0), T(6)) / T(6);
}
template <class T>
FACULA_FN T hardsigmoid_backward(T grad_output, T self) {
  return (self > T(-3)) & (self < T(3)) ? grad_output / T(6) : T(0);
}
template <class T>
FACULA_FN T hardswish_backward(T grad_output, T self) {
  const T inside = grad_output * (self / T(3) + T(0.5));
  const T below_three = self <= T(-3) ? T(0) : inside;
  return self >= T(3) ? grad_output : below_three;
}

template <class T>
FACULA_FN T leaky_relu(T self, T negative_slope) {
  return self > T(0) ? self : self * negative_slope;
}
template <class T>
FACULA_FN T leaky_relu_backward(T grad_output, T self, T negative_slope) {
  return self > T(0) ? grad_output : grad_output * negative_slope;
}

template <class T>
FACULA_FN T prelu(T self, T weight) {
  return self > T(0) ? self : self * weight;
}

template <class T>
FACULA_FN T hardshrink(T self, T lambd) {
  return (self >= -lambd) & (self <= lambd) ? T(0) : self;
}
/// NaN is neither above nor below; multiplying by 0 keeps it.
template <class T>
FACULA_FN T softshrink(T self, T lambd) {
  const T below = self < -lambd ? self + lambd : self * T(0);
  return self > lambd ? self - lambd : below;
}
template <class T>
FACULA_FN T shrink_backward(T grad_output, T self, T lambd) {
  return (self < -lambd) | (self > lambd) ? grad_output : T(0);
}

}  // namespace facula::kernels
