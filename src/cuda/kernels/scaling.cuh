// Gradients divided by a scale and looked through for what is not finite; and the next scale.
#pragma once

#include "scaling_args.h"
#include "types.cuh"

namespace facula::cuda {

/// A row of blocks for each tensor. All that write to `found` write the same.
template <class T>
__global__ __launch_bounds__(256) void unscale(UnscaleArgs g) {
  using C = Compute<T>;
  T* grad = static_cast<T*>(g.grads[blockIdx.y]);
  const float factor = *g.factor;
  bool bad = false;
  for (Int64 i = thread_number(); i < g.counts[blockIdx.y]; i += thread_count()) {
    const C value = convert<C>(grad[i]);
    bad |= !kernels::isfinite(value);
    if (factor != 1) grad[i] = convert<T>(value * C(factor));
  }
  if (bad) *g.found = 1;
}

__global__ void update_scale(ScaleArgs g) {
  if (thread_number() != 0) return;
  if (*g.found != 0) {
    *g.scale = float(*g.scale * g.backoff);
    *g.good_steps = 0;
    return;
  }
  const int steps = *g.good_steps + 1;
  if (steps != g.interval) {
    *g.good_steps = steps;
    return;
  }
  const float grown = float(*g.scale * g.growth);
  if (kernels::isfinite(grown)) *g.scale = grown;
  *g.good_steps = 0;
}

}  // namespace facula::cuda
