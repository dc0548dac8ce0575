// Tensors filled with random numbers. The formulas are those that PyTorch's documentation and results show, so that the
// same seed gives the same numbers on the same kind of device.
#pragma once

#include "choices.h"
#include "philox.cuh"

namespace facula::cuda {

using kernels::Distribution;

/// What numbers of a type are drawn as.
template <class T>
struct DrawnAs {
  using type = float;
};
template <>
struct DrawnAs<double> {
  using type = double;
};

template <class F>
FACULA_FN F log_of(F x) {
  if constexpr (sizeof(F) == 8) return FACULA_LIBM(log)(x);
  else return FACULA_LIBM(logf)(x);
}

/// One of a distribution of real numbers, from a number in (0, 1] or a normal one.
template <Distribution d, class T, class F>
FACULA_FN T real_value(F x, const FillArgs& f) {
  const F a = F(f.a), b = F(f.b), epsilon = kernels::Float<F>::epsilon;
  if constexpr (d == Distribution::Uniform) {
    const T value = convert<T>(kernels::fma(x, b - a, a)), first = convert<T>(a), excluded = convert<T>(b);
    return convert<F>(value) == convert<F>(excluded) ? first : value;  // rounding may reach the end
  } else if constexpr (d == Distribution::Normal) {
    return convert<T>(kernels::fma(x, b, a));
  } else if constexpr (d == Distribution::LogNormal) {
    const F value = kernels::fma(x, b, a);
    if constexpr (sizeof(F) == 8) return convert<T>(FACULA_LIBM(exp)(value));
    else return convert<T>(FACULA_LIBM(expf)(value));
  } else if constexpr (d == Distribution::Bernoulli) {
    return convert<T>(double(x) < f.a || f.a >= 1);
  } else if constexpr (d == Distribution::Exponential) {
    const F logarithm = x >= F(1) - epsilon / 2 ? -epsilon / 2 : log_of(x);
    return convert<T>(F(-1) / a * logarithm);
  } else if constexpr (d == Distribution::Cauchy) {
    const F inside = kernels::clamp(x, epsilon, F(1) - epsilon), angle = F(kernels::pi) * (inside - F(0.5));
    if constexpr (sizeof(F) == 8) return convert<T>(a + b * FACULA_LIBM(tan)(angle));
    else return convert<T>(a + b * FACULA_LIBM(tanf)(angle));
  } else {  // Geometric; 1 would give no trial at all
    const F log_failure = sizeof(F) == 8 ? F(FACULA_LIBM(log1p)(-f.a)) : F(FACULA_LIBM(log1pf)(-float(f.a)));
    const F trials = kernels::ceil(log_of(x) / log_failure);
    return convert<T>(trials < F(1) ? F(1) : trials);
  }
}

template <class T, int kDistribution>
__global__ __launch_bounds__(256) void random_real(void* out, Int64 count, FillArgs f, PhiloxStart start) {
  constexpr Distribution d = Distribution(kDistribution);
  using F = typename DrawnAs<T>::type;
  for_draws<kDrawn<F>>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    Draws<F> draws;
    if constexpr (d == Distribution::Normal || d == Distribution::LogNormal) normals_of(words, draws);
    else units_of(words, draws);
    for (int k = 0; k < kDrawn<F>; ++k)
      if (first + k * apart < count) static_cast<T*>(out)[first + k * apart] = real_value<d, T>(draws.at[k], f);
  });
}

/// base + a word modulo `range`; all 64 bits where `range` is 0. Wide: from two words.
template <class T, bool wide>
__global__ __launch_bounds__(256) void random_whole(void* out, Int64 count, FillArgs f, PhiloxStart start) {
  constexpr int kWide = wide ? 2 : 4;
  for_draws<kWide>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    for (int k = 0; k < kWide; ++k) {
      if (first + k * apart >= count) return;
      UInt64 value = wide ? UInt64(words.at[2 * k & 3]) << 32 | words.at[(2 * k + 1) & 3] : words.at[k];
      if (f.range) value = wide ? value % f.range : UInt32(value) % UInt32(f.range);
      value += UInt64(f.base);
      if constexpr (is_same_type<T, UInt64>) static_cast<T*>(out)[first + k * apart] = value;
      else static_cast<T*>(out)[first + k * apart] = convert<T>(Int64(value));
    }
  });
}

/// 1 with the probability in p, of type P.
template <class T, class P>
__global__ __launch_bounds__(256) void random_bernoulli(void* out, const void* p, Int64 count, PhiloxStart start) {
  for_draws<kDrawn<P>>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    Draws<P> draws;
    units_of(words, draws);
    for (int k = 0; k < kDrawn<P>; ++k) {
      const Int64 i = first + k * apart;
      if (i < count) static_cast<T*>(out)[i] = convert<T>(draws.at[k] <= static_cast<const P*>(p)[i]);
    }
  });
}

/// 1 where a value is positive, else evenly from [lower, upper].
template <class T>
__global__ __launch_bounds__(256) void random_slopes(void* out, const void* values, Int64 count, double lower,
                                                     double upper, PhiloxStart start) {
  using F = typename DrawnAs<T>::type;
  for_draws<kDrawn<F>>(start, count, [&](Int64 first, Int64 apart, const Words& words) {
    Draws<F> draws;
    units_of(words, draws);
    for (int k = 0; k < kDrawn<F>; ++k) {
      const Int64 i = first + k * apart;
      if (i >= count) return;
      const F slope = kernels::fma(draws.at[k], F(upper) - F(lower), F(lower));
      static_cast<T*>(out)[i] = convert<T>(convert<F>(static_cast<const T*>(values)[i]) > F(0) ? F(1) : slope);
    }
  });
}

}  // namespace facula::cuda
