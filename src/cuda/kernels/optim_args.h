// What the passes of an optimizer are given; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostOptimTensors = 64;
constexpr int kOptimBlock = 4096;  // elements of a tensor that a block takes, where there are not very many

/// Tensors that are updated together: of tensor t the blocks from begins[t] to begins[t + 1].
struct OptimArgs {
  double numbers[12];
  int tensors, begins[kMostOptimTensors + 1];
  long long counts[kMostOptimTensors];
  void* params[kMostOptimTensors];
  const void* grads[kMostOptimTensors];
  void* states[3][kMostOptimTensors];
};
static_assert(sizeof(OptimArgs) <= 4096);

}  // namespace facula::cuda
