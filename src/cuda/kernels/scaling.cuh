// Gradients divided by a scale and looked through for what is not finite; and the next scale.
#pragma once

#include "scaling_args.h"
#include "vector.cuh"

namespace facula::cuda {

/// A row of blocks for each tensor, of which a thread has two vectors at a time. All that write to `found` write
/// the same.
template <class T, int kWide>
__global__ __launch_bounds__(256) void unscale(UnscaleArgs g) {
  using C = Compute<T>;
  constexpr int kMany = 2;
  T* grad = static_cast<T*>(g.grads[blockIdx.y]);
  const Int64 count = g.counts[blockIdx.y], vectors = count / kWide, apart = thread_count();
  const float factor = *g.factor;
  const bool changes = factor != 1;
  C zeros = 0;  // NaN as soon as a value is not finite
  for (Int64 v = thread_number(); v < vectors; v += kMany * apart) {
    Vector<T, kWide> loaded[kMany];
#pragma unroll
    for (int m = 0; m < kMany; ++m)
      if (v + m * apart < vectors) loaded[m] = load_vector<kWide>(grad + (v + m * apart) * kWide);
#pragma unroll
    for (int m = 0; m < kMany; ++m) {
      if (v + m * apart >= vectors) break;
      Vector<C, kWide> values = widen_all(loaded[m]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        zeros = kernels::fma(values.at[j], C(0), zeros);
        values.at[j] *= C(factor);
      }
      if (changes) store_vector(grad + (v + m * apart) * kWide, narrow_all<T>(values));
    }
  }
  if (const Int64 i = vectors * kWide + thread_number(); i < count) {
    const C value = convert<C>(grad[i]);
    zeros = kernels::fma(value, C(0), zeros);
    if (changes) grad[i] = convert<T>(value * C(factor));
  }
  if (zeros != 0) *g.found = 1;
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
