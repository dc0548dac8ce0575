// What random kernels are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// As PhiloxState of the host.
struct PhiloxStart {
  unsigned long long seed, offset;
  const unsigned long long* captured;
};

/// As RandomFill of the host.
struct FillArgs {
  double a, b;
  unsigned long long range;
  long long base;
};

}  // namespace facula::cuda
