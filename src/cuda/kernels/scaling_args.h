// What a scaler's passes are given; read by both compilers.
#pragma once

namespace facula::cuda {

struct UnscaleArgs {
  static constexpr int most = 96;
  void* grads[most];
  long long counts[most];
  float* found;
  const float* factor;
};

struct ScaleArgs {
  float* scale;
  int* good_steps;
  const float* found;
  double growth, backoff;
  long long interval;
};

}  // namespace facula::cuda
