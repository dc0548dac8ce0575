// Pooling.
#include "ops/pool.h"

#include "cuda/device.h"
#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "cuda/kernels/pool_args.h"

namespace facula::cuda {
namespace {

long long spatial_count(const Tensor& t) {
  long long count = 1;
  for (int64_t s : spatial_part(t)) count *= s;
  return count;
}

/// Tensors in one format. Sizes of one let a tensor have both: then the other tells.
PlaneArgs planes_of(const Tensor& in, const Tensor& out) {
  PlaneArgs p{};
  const bool last = !in.is_contiguous() || !out.is_contiguous();
  p.images = in.size(0), p.channels = in.size(1);
  p.in = spatial_count(in), p.out = spatial_count(out);
  p.in_image = p.channels * p.in, p.out_image = p.channels * p.out;
  p.in_channel = last ? 1 : p.in, p.out_channel = last ? 1 : p.out;
  p.in_element = p.out_element = last ? p.channels : 1;
  return p;
}

PoolArgs arguments_of(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry) {
  PoolArgs args{};
  for (size_t d = 0; d < 3; ++d) {
    const PoolAxis& a = geometry.axes[d];
    args.axes[d] = {a.in, a.out, a.kernel, a.stride, a.padding, a.step, a.adaptive, a.counts_padding};
  }
  args.planes = planes_of(in, out);
  args.divisor = geometry.divisor;
  args.in = in.data();
  args.out = out.data();
  args.indices = indices.defined() ? reinterpret_cast<long long*>(indices.data<int64_t>()) : nullptr;
  return args;
}

void max_pool_cuda(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry) {
  static const DeviceKernel kernel{"pool.cuh", "max_pool"};
  const int device = out.device().index;
  kernel(device, {in.dtype()}, grid_for(device, out.numel()), arguments_of(out, indices, in, geometry));
}

void fractional_max_pool_cuda(const Tensor& out, const Tensor& indices, const Tensor& in, const Tensor& samples,
                              std::array<int64_t, 3> kernel_size) {
  static const DeviceKernel kernel{"pool.cuh", "fractional_max_pool"};
  const int device = out.device().index;
  const auto spatial = static_cast<size_t>(in.dim() - 2);
  PoolGeometry geometry;
  for (size_t d = 0; d < spatial; ++d) {
    PoolAxis& axis = geometry.axes[3 - spatial + d];
    axis.in = in.sizes()[2 + d];
    axis.out = out.sizes()[2 + d];
    axis.kernel = kernel_size[3 - spatial + d];
  }
  PoolArgs args = arguments_of(out, indices, in, geometry);
  args.samples = samples.data();
  args.sampled = static_cast<int>(spatial);
  kernel(device, {in.dtype()}, grid_for(device, out.numel()), args);
}

void avg_pool_cuda(const Tensor& out, const Tensor& in, const PoolGeometry& geometry) {
  static const DeviceKernel kernel{"pool.cuh", "avg_pool"};
  const int device = out.device().index;
  kernel(device, {in.dtype()}, grid_for(device, out.numel()), arguments_of(out, Tensor(), in, geometry));
}

void avg_pool_transpose_cuda(const Tensor& out, const Tensor& in, const PoolGeometry& geometry) {
  static const DeviceKernel kernel{"pool.cuh", "avg_pool_transpose"};
  const int device = out.device().index;
  kernel(device, {in.dtype()}, grid_for(device, out.numel()), arguments_of(out, Tensor(), in, geometry));
}

void scatter_planes_cuda(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate,
                         const char* op) {
  static const DeviceKernel kernel{"pool.cuh", "scatter_planes"};
  const int device = out.device().index;
  if (indices.numel() == 0) return;
  const PlaneArgs planes = planes_of(indices, out);
  const bool warps = planes.in_element == 1;
  kernel(device, {accumulate ? out.dtype() : bits_of(out.item_size()), accumulate, warps},
         grid_for(device, planes.images * planes.channels * (warps ? 32 : 1)), out.data(),
         static_cast<const void*>(values.data()), indices.data<int64_t>(), planes,
         reporter(device, op, ErrorKind::Runtime));
}

void gather_planes_cuda(const Tensor& out, const Tensor& in, const Tensor& indices, const char* op) {
  static const DeviceKernel kernel{"pool.cuh", "gather_planes"};
  const int device = out.device().index;
  if (out.numel() == 0) return;
  kernel(device, {bits_of(out.item_size())}, grid_for(device, out.numel()), out.data(),
         static_cast<const void*>(in.data()), indices.data<int64_t>(), planes_of(indices, in),
         reporter(device, op, ErrorKind::Runtime));
}

}  // namespace

void register_pool() {
  constexpr auto cuda = DeviceType::CUDA;
  max_pool_kernel.set(cuda, max_pool_cuda);
  fractional_max_pool_kernel.set(cuda, fractional_max_pool_cuda);
  avg_pool_kernel.set(cuda, avg_pool_cuda);
  avg_pool_transpose_kernel.set(cuda, avg_pool_transpose_cuda);
  scatter_planes_kernel.set(cuda, scatter_planes_cuda);
  gather_planes_kernel.set(cuda, gather_planes_cuda);
}

}  // namespace facula::cuda
