// Declares what a scaler of losses does with gradients and with its scale, without reading either on the host.
#pragma once

#include <array>

#include "ops/kernel_table.h"

namespace facula {

constexpr int kMostUnscaled = 96;  // tensors of one pass: what a launch of a device can be given

/// Gradients of one dtype are multiplied by `*factor`; `*found` becomes 1 where an element is infinite or NaN.
struct UnscalePass {
  DType dtype;
  int tensors;
  std::array<void*, kMostUnscaled> grads;
  std::array<int64_t, kMostUnscaled> counts;
  float* found;
  const float* factor;

  template <class See>
  void memory(See see) const {
    for (int i = 0; i < tensors; ++i) see(static_cast<const void*>(grads[static_cast<size_t>(i)]));
    see(static_cast<const void*>(found));
    see(static_cast<const void*>(factor));
  }
};
extern Kernel<void(const UnscalePass&)> unscale_kernel;

/// Where `*found` is not 0 the scale shrinks and the count of good steps begins again; after `interval` of them it
/// grows.
struct ScaleUpdate {
  float* scale;
  int32_t* good_steps;
  const float* found;
  double growth, backoff;
  int64_t interval;

  template <class See>
  void memory(See see) const {
    see(static_cast<const void*>(scale));
    see(static_cast<const void*>(good_steps));
    see(static_cast<const void*>(found));
  }
};
extern Kernel<void(const ScaleUpdate&)> scale_update_kernel;

void unscale(TensorList grads, const Tensor& found, const Tensor& factor);
void update_scale(const Tensor& scale, const Tensor& good_steps, const Tensor& found, double growth, double backoff,
                  int64_t interval);

}  // namespace facula
