// Defines choices that the host makes and that kernels of all devices carry out.
#pragma once

namespace facula::kernels {

/// What tensors are filled from.
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

/// What is checked of values.
enum class Holds : unsigned char {
  NotZero,
  NotNegative,     // NaN is not negative
  InUnitInterval,  // in [0, 1]; NaN does not pass
  Finite,
  Degree,  // at most kMostDegree (ops/elementwise.h); NaN and what no integer can hold pass
};

/// What scattering does with the element already there.
enum class Combine : unsigned char { Assign, Add, Multiply, Max, Min };

/// What is beyond the edges of a tensor that is padded with elements of its own.
enum class PadMode : unsigned char { Reflect, Replicate, Circular };

}  // namespace facula::kernels
