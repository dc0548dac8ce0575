// Interpolation and grid sampling.
#include "ops/resample.h"

#include <algorithm>
#include <cstdint>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/resample_args.h"
#include "ops/deterministic.h"

namespace facula::cuda {
namespace {

/// Launches the kernel of what 32 bits can count; false where they cannot.
bool resample_planes(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  static const DeviceKernel kernel{"resample.cuh", "resample_planes"};
  const int64_t item = out.item_size();
  int64_t wide = 16 / item;
  for (const void* at : {static_cast<const void*>(in.data()), static_cast<const void*>(out.data())})
    if (inner % wide != 0 || reinterpret_cast<uintptr_t>(at) % 16 != 0) wide = 1;
  const int64_t planes = wide > 1 ? 4 : 8,
                threads = (outer + planes - 1) / planes * taps.out * (inner / wide);  // as the kernel has it
  if (std::max({threads, outer + planes, inner, taps.in, taps.out}) > INT32_MAX) return false;
  ResampleArgs p{};
  p.threads = static_cast<unsigned>(threads);
  p.outer = static_cast<unsigned>(outer), p.inner = static_cast<unsigned>(inner);
  p.vectors = fast_division(static_cast<unsigned>(inner / wide));
  p.outputs = fast_division(static_cast<unsigned>(taps.out));
  p.in_plane = taps.in * inner, p.out_plane = taps.out * inner;
  p.in = in.data(), p.out = out.data();
  const auto longs = [](const Tensor& t) { return t.defined() ? static_cast<const long long*>(t.data()) : nullptr; };
  p.first = longs(taps.first), p.index = longs(taps.index);
  p.weight = taps.weight.defined() ? static_cast<const double*>(taps.weight.data()) : nullptr;
  kernel(out.device().index, {taps.copies ? bits_of(item) : out.dtype(), static_cast<int>(wide), taps.copies},
         {256, (threads + 255) / 256}, p);
  return true;
}

void resample_cuda(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  static const DeviceKernel copy{"resample.cuh", "resample_copy"}, weigh{"resample.cuh", "resample"};
  if (out.numel() == 0 || resample_planes(out, in, outer, inner, taps)) return;
  const int device = out.device().index;
  const long long planes = outer, row = inner, inputs = taps.in, outputs = taps.out;
  const Grid grid = grid_for(device, out.numel());
  const void *from = in.data(), *index = taps.index.data();
  if (taps.copies)
    return copy(device, {bits_of(out.item_size())}, grid, out.data(), from, planes, row, inputs, outputs, index);
  const void *first = taps.first.data(), *weight = taps.weight.data();
  weigh(device, {out.dtype()}, grid, out.data(), from, planes, row, inputs, outputs, first, index, weight);
}

GridArgs arguments_of(const Tensor& image, const Tensor& values, const Tensor& grid, const GridSampling& how) {
  GridArgs p{};
  p.images = image.size(0);
  p.channels = image.size(1);
  p.dims = static_cast<int>(grid.size(-1));
  p.points = grid.numel() / std::max<int64_t>(grid.size(0) * grid.size(-1), 1);
  p.padding = how.padding;
  p.align_corners = how.align_corners;
  p.size[2] = 1;
  for (int d = 0; d < p.dims; ++d) {  // x is of the last dimension
    p.size[d] = image.size(-1 - d);
    p.strides[d] = image.stride(-1 - d);
  }
  p.image_step = image.stride(0);
  p.channel_step = image.stride(1);
  p.image = image.data();
  p.grid = grid.data();
  p.values = values.data();
  return p;
}

void run(const DeviceKernel& kernel, const GridArgs& p, const Tensor& like, const GridSampling& how) {
  const int taps = how.interpolation == 0 ? 2 : how.interpolation == 1 ? 1 : 4;
  kernel(like.device().index, {like.dtype(), taps, p.dims == 3}, grid_for(like.device().index, p.images * p.points), p);
}

void grid_sampler_cuda(const Tensor& out, const Tensor& input, const Tensor& grid, const GridSampling& how) {
  static const DeviceKernel kernel{"resample.cuh", "grid_sample"};
  run(kernel, arguments_of(input, out, grid, how), out, how);
}

void grid_sampler_input_cuda(const Tensor& result, const Tensor& gradient, const Tensor& grid,
                             const GridSampling& how) {
  static const DeviceKernel kernel{"resample.cuh", "grid_sample_input"};
  ops::alert_not_deterministic("grid_sample");  // its gradient, as PyTorch has it: positions that meet in an element
  run(kernel, arguments_of(result, gradient, grid, how), result, how);
}

void grid_sampler_grid_cuda(const Tensor& result, const Tensor& gradient, const Tensor& input, const Tensor& grid,
                            const GridSampling& how) {
  static const DeviceKernel kernel{"resample.cuh", "grid_sample_grid"};
  GridArgs p = arguments_of(input, gradient, grid, how);
  p.grid_values = result.data();
  run(kernel, p, result, how);
}

}  // namespace

void register_resample() {
  constexpr auto cuda = DeviceType::CUDA;
  resample_kernel.set(cuda, resample_cuda);
  grid_sampler_kernel.set(cuda, grid_sampler_cuda);
  grid_sampler_input_kernel.set(cuda, grid_sampler_input_cuda);
  grid_sampler_grid_kernel.set(cuda, grid_sampler_grid_cuda);
}

}  // namespace facula::cuda
