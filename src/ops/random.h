// Declares the kernel behind every random op.
#pragma once

#include "core/generator.h"
#include "kernels/choices.h"
#include "ops/kernel_table.h"

namespace facula {

using kernels::Distribution;

/// Parameters by their meaning in the distribution: ends of a uniform one, mean and std, rate, probability,
/// ...
struct RandomFill {
  Distribution distribution;
  double a = 0, b = 1;
  uint64_t range = 0;  // of integers: base + [0, range)
  int64_t base = 0;
  bool serial = false;  // normal values one after the other, as for tensors that are not contiguous
  const char* op = "";
};

/// `out` is contiguous. The caller holds the generator's mutex.
inline Kernel<void(const Tensor& out, const RandomFill& fill, Generator& generator)> random_fill_kernel{"random"};
/// 1 with the probability in p, of the same shape and contiguous, float32 or float64.
inline Kernel<void(const Tensor& out, const Tensor& p, Generator& generator)> bernoulli_kernel{"bernoulli"};
inline Kernel<void(const Tensor& out, const Tensor& rate, Generator& generator)> poisson_kernel{"poisson"};
inline Kernel<void(const Tensor& out, const Tensor& shape, Generator& generator)> gamma_kernel{"_standard_gamma"};
/// Rows along the last dimension.
inline Kernel<void(const Tensor& out, const Tensor& concentration, Generator& generator)> dirichlet_kernel{
    "_sample_dirichlet"};
inline Kernel<void(const Tensor& out, const Tensor& count, const Tensor& probability, Generator& generator)>
    binomial_kernel{"binomial"};
/// Which elements of `input` stay, each with the probability `keep`; `mask` is dense, in the order of `input`. Devices
/// without it fill as bernoulli_ does.
inline Kernel<void(const Tensor& mask, const Tensor& input, double keep, Generator& generator)> dropout_kernel{
    "dropout"};
/// 1 where a value is positive, else a number drawn evenly from [lower, upper].
inline Kernel<void(const Tensor& out, const Tensor& values, double lower, double upper, Generator& generator)>
    rrelu_kernel{"rrelu"};
/// `out` (rows, samples) int64, `weights` (rows, categories).
inline Kernel<void(const Tensor& out, const Tensor& weights, bool replacement, Generator& generator)>
    multinomial_kernel{"multinomial"};

}  // namespace facula
