// Pooling.
#include "ops/pool.h"

#include <algorithm>
#include <cstdint>

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

/// Tensors in one format. Sizes of one let a tensor have both: then the other decides.
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

/// The kernels for windows that an instance knows, and for any.
struct PoolKernels {
  DeviceKernel small, any;
};
constexpr PoolKernels kMax{{"pool_windows.cuh", "max_pool_windows"}, {"pool.cuh", "max_pool"}};
constexpr PoolKernels kMean{{"pool_windows.cuh", "avg_pool_windows"}, {"pool.cuh", "avg_pool"}};
constexpr PoolKernels kMeanTransposed{{"pool_windows.cuh", "avg_pool_windows_transpose"},
                                      {"pool.cuh", "avg_pool_transpose"}};

/// Windows of at most 3 x 3 neighboring elements, at most 3 apart, in planes that 32 bits can count.
bool are_small(const PoolArgs& p) {
  constexpr long long kMost = 3;
  if (p.axes[0].in != 1 || p.axes[0].out != 1 || p.axes[0].kernel != 1 || p.axes[0].adaptive) return false;
  for (const PoolAxisArgs& a : {p.axes[1], p.axes[2]})
    if (a.adaptive || a.kernel > kMost || a.stride > kMost || (a.step != 1 && a.kernel != 1)) return false;
  const long long last = std::max(p.planes.in_element, p.planes.out_element);
  return std::max(p.planes.in, p.planes.out) * last <= INT32_MAX;
}

/// How many neighboring channels are one access; 0 where planes are contiguous.
int channels_together(const PoolArgs& p, int64_t item) {
  constexpr int64_t kMostChannels = 8, kMostBytes = 16;
  if (p.planes.in_element == 1 && p.planes.out_element == 1) return 0;
  int64_t n = 1;
  const auto aligned = [](const void* at, int64_t bytes) { return reinterpret_cast<uintptr_t>(at) % bytes == 0; };
  while (n < kMostChannels && 2 * n * item <= kMostBytes && p.planes.channels % (2 * n) == 0 &&
         aligned(p.in, 2 * n * item) && aligned(p.out, 2 * n * item) && aligned(p.indices, 16))
    n *= 2;
  return static_cast<int>(n);
}

/// Whether the kernel for small windows was launched.
bool run_small(const DeviceKernel& kernel, const PoolArgs& p, bool transposed, DType dtype, int device) {
  if (!are_small(p)) return false;
  const PoolAxisArgs &high = p.axes[1], &wide = p.axes[2];
  const int channels = channels_together(p, item_size(dtype));
  // several rows for each thread, which share what their windows show
  const int64_t most_rows = channels ? 1 : !transposed || high.stride == 1 || high.kernel <= high.stride ? 4 : 2;
  int64_t rows = 1;
  while (2 * rows <= most_rows && high.out > rows) rows *= 2;
  const int64_t columns = transposed ? (wide.in + wide.padding + wide.stride - 1) / wide.stride : wide.out,
                lines = transposed ? (high.in + high.padding + high.stride - 1) / high.stride : high.out,
                strips = (lines + rows - 1) / rows, vectors = channels ? p.planes.channels / channels : 1,
                planes = channels ? p.planes.images : p.planes.images * p.planes.channels;
  const int64_t threads = planes * strips * columns * vectors;
  if (threads > INT32_MAX) return false;
  PoolWindowArgs args{};
  args.threads = static_cast<unsigned>(threads);
  args.vectors = fast_division(static_cast<unsigned>(vectors));
  args.columns = fast_division(static_cast<unsigned>(columns));
  args.strips = fast_division(static_cast<unsigned>(strips));
  args.in_high = static_cast<int>(high.in), args.in_long = static_cast<int>(wide.in);
  args.out_high = static_cast<int>(high.out), args.out_long = static_cast<int>(wide.out);
  args.pad_high = static_cast<int>(high.padding), args.pad_long = static_cast<int>(wide.padding);
  args.counts_padding = high.counts_padding;
  args.divisor = p.divisor;
  args.in = p.in, args.out = p.out, args.places = p.indices;
  const auto number = [](int64_t n) { return TemplateArgument(static_cast<int>(n)); };
  kernel(device,
         {dtype, number(high.kernel), number(wide.kernel), number(high.stride), number(wide.stride), channels,
          number(rows)},
         {256, (threads + 255) / 256}, args);
  return true;
}

void run(const PoolKernels& kernels, const Tensor& out, const Tensor& indices, const Tensor& in,
         const PoolGeometry& geometry, bool transposed = false) {
  const int device = out.device().index;
  const PoolArgs args = arguments_of(out, indices, in, geometry);
  if (!run_small(kernels.small, args, transposed, in.dtype(), device))
    kernels.any(device, {in.dtype()}, grid_for(device, out.numel()), args);
}

void max_pool_cuda(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& geometry) {
  run(kMax, out, indices, in, geometry);
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
  run(kMean, out, Tensor(), in, geometry);
}

void avg_pool_transpose_cuda(const Tensor& out, const Tensor& in, const PoolGeometry& geometry) {
  run(kMeanTransposed, out, Tensor(), in, geometry, true);
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
