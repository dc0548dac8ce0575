// A scaler's passes on the device.
#include "ops/scaling.h"

#include <algorithm>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/scaling_args.h"

namespace facula::cuda {
namespace {

static_assert(UnscaleArgs::most == kMostUnscaled);

void unscale_cuda(const UnscalePass& pass) {
  static const DeviceKernel kernel{"scaling.cuh", "unscale"};
  const int device = active_index();
  UnscaleArgs g{{}, {}, pass.found, pass.factor};
  std::copy_n(pass.grads.begin(), pass.tensors, g.grads);
  std::copy_n(pass.counts.begin(), pass.tensors, g.counts);
  const int wide = aligned_width(pass.dtype, {g.grads, static_cast<size_t>(pass.tensors)});
  Grid grid = grid_for(device, *std::max_element(g.counts, g.counts + pass.tensors) / (2 * wide) + 1);
  grid.y = pass.tensors;
  kernel(device, {pass.dtype, wide}, grid, g);
}

void update_scale_cuda(const ScaleUpdate& u) {
  static const DeviceKernel kernel{"scaling.cuh", "update_scale"};
  kernel(active_index(), {}, Grid{1, 1}, ScaleArgs{u.scale, u.good_steps, u.found, u.growth, u.backoff, u.interval});
}

}  // namespace

void register_scaling() {
  unscale_kernel.set(DeviceType::CUDA, unscale_cuda);
  scale_update_kernel.set(DeviceType::CUDA, update_scale_cuda);
}

}  // namespace facula::cuda
