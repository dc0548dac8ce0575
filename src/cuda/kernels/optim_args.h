// What the pass of an optimizer is given; read by both compilers.
#pragma once

namespace facula::cuda {

struct OptimArgs {
  long long count;
  void* param;
  const void* grad;
  void* states[3];
  double numbers[12];
};

}  // namespace facula::cuda
