// The distributions that tensors are filled from, on all devices.
#pragma once

namespace facula::kernels {

enum class Distribution : unsigned char {
  Uniform,
  Normal,
  Range,
  FullRange,
  DefaultRange,
  Bernoulli,
  Exponential,
  Cauchy,
  LogNormal,
  Geometric,
  Permutation
};

}  // namespace facula::kernels
