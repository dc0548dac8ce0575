// Convolution: geometry for the products of kernels/conv.cuh.
#include "ops/conv.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "cuda/conv_tensor.h"
#include "cuda/dnn_conv.h"
#include "cuda/kernels/conv_args.h"
#include "cuda/product.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

void fill_sides(ConvArgs& args, const Tensor& y, const Tensor& x, const Tensor& w, const ConvGeometry& g) {
  const size_t spatial = g.stride.size();
  for (size_t d = 0; d < 3; ++d) {
    args.in[d] = args.out[d] = args.kernel[d] = args.stride[d] = args.dilation[d] = 1;
    args.classes[d] = args.tap_step[d] = 1;
  }
  for (size_t i = 0; i < spatial; ++i) {
    const size_t d = 3 - spatial + i;
    args.in[d] = x.sizes()[2 + i];
    args.out[d] = y.sizes()[2 + i];
    args.kernel[d] = w.sizes()[2 + i];
    args.stride[d] = g.stride[i];
    args.padding[d] = g.padding[i];
    args.dilation[d] = g.dilation[i];
    args.x_strides[d] = x.strides()[2 + i];
    args.y_strides[d] = y.strides()[2 + i];
    args.classes[d] = std::max<int64_t>(std::min(args.in[d], args.stride[d]), 1);
    args.tap_step[d] = args.stride[d] / std::gcd(args.stride[d], args.dilation[d]);
  }
  args.images = x.size(0);
  args.channels = x.size(1) / g.groups;
  args.outputs = y.size(1) / g.groups;
  args.x_image = x.stride(0), args.x_channel = x.stride(1);
  args.y_image = y.stride(0), args.y_channel = y.stride(1);
  args.channels_inner = x.stride(1) == 1 && args.channels > 1 && !x.is_contiguous();
}

long long product_of(const long long (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

/// Of each class of positions, the most.
long long most_positions(const ConvArgs& args) {
  long long count = 1;
  for (int d = 0; d < 3; ++d) count *= (args.in[d] + args.stride[d] - 1) / args.stride[d];
  return count;
}
long long most_taps(const ConvArgs& args) {
  long long count = 1;
  for (int d = 0; d < 3; ++d) count *= (args.kernel[d] + args.tap_step[d] - 1) / args.tap_step[d];
  return count;
}

ProductTiles tiles_of(ConvMap map, const ConvArgs& args, int64_t groups) {
  const long long taps = product_of(args.kernel), windows = args.images * product_of(args.out);
  switch (map) {
    case ConvMap::Output: return {groups, args.outputs, windows, args.channels * taps, 1, 1, nullptr};
    case ConvMap::Input:
      return {groups * product_of(args.classes),
              args.channels,
              args.images * most_positions(args),
              args.outputs * most_taps(args),
              1,
              1,
              nullptr};
    default: return {groups, args.outputs, args.channels * taps, windows, 1, 1, nullptr};
  }
}

void add_repeated(const Tensor& to, const Tensor& from, long long run, long long channels) {
  static const DeviceKernel kernel{"conv.cuh", "add_repeated"};
  const long long count = to.numel();
  if (count == 0) return;
  kernel(to.device().index, {to.dtype()}, grid_for(to.device().index, count), to.data(),
         static_cast<const void*>(from.data()), count, run, channels);
}

void add_channels_cuda(const Tensor& t, const Tensor& bias) {
  if (t.numel() == 0) return;
  const bool last = !t.is_contiguous();
  add_repeated(t, bias, last ? 1 : t.numel() / (t.size(0) * t.size(1)), t.size(1));
}

void convolution_cuda(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const ConvGeometry& g) {
  static const ProductKernels output("conv.cuh", "OutputMap"), input("conv.cuh", "InputMap"),
      weight("conv.cuh", "WeightMap");
  const Tensor& result = map == ConvMap::Output ? y : map == ConvMap::Input ? x : w;
  if (result.numel() == 0) return;
  if (convolution_by_library(map, y, x, w, g)) {
    if (bias.defined()) add_channels_cuda(result, bias);
    return;
  }
  if (convolution_by_tensor_cores(map, y, x, w, bias, g)) return;
  const Tensor kernel = w.is_contiguous()        ? w
                        : map == ConvMap::Weight ? facula::empty(w.sizes(), w.dtype(), w.device())
                                                 : ops::contiguous_copy(w);
  ConvArgs args{};
  fill_sides(args, y, x, w, g);
  args.x = x.data();
  args.y = y.data();
  args.w = kernel.data();
  args.bias = bias.defined() ? bias.data() : nullptr;
  args.tiles = tiles_of(map, args, g.groups);
  const long long most = std::max({args.tiles.columns, args.tiles.inner, args.tiles.rows});
  const DType positions = most <= std::numeric_limits<int32_t>::max() ? DType::Int32 : DType::Int64;
  const ProductKernels& kernels = map == ConvMap::Output ? output : map == ConvMap::Input ? input : weight;
  kernels(result.device().index, x.dtype(), positions, args);
  if (!kernel.is_same(w) && map == ConvMap::Weight) copy_elements(w, kernel);
}

WindowArgs arguments_of(const Windows& w) {
  WindowArgs args{};
  args.channels = w.channels;
  args.channel_stride = w.channel_stride;
  for (size_t d = 0; d < 3; ++d) {
    args.in[d] = w.in[d], args.out[d] = w.out[d], args.kernel[d] = w.kernel[d], args.stride[d] = w.stride[d];
    args.padding[d] = w.padding[d], args.dilation[d] = w.dilation[d], args.in_strides[d] = w.in_strides[d];
  }
  return args;
}

/// Launches the kernel for windows that 32 bits can count; false where they cannot.
bool run_channels(const DeviceKernel& kernel, DType type, const Windows& w, bool to_image, const void* from, void* to) {
  ColumnArgs args{};
  bool fits = true;
  const auto small = [&](int64_t n) {
    fits = fits && n >= 0 && n <= INT32_MAX;
    return static_cast<int>(n);
  };
  const auto divisor = [&](int64_t n) { return fast_division(static_cast<unsigned>(std::max(small(n), 1))); };
  const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], positions = w.in[0] * w.in[1] * w.in[2];
  for (size_t d = 0; d < 3; ++d) {
    args.in[d] = divisor(w.in[d]), args.out[d] = divisor(w.out[d]);
    args.kernel[d] = divisor(w.kernel[d]), args.stride[d] = divisor(w.stride[d]);
    args.padding[d] = small(w.padding[d]), args.dilation[d] = small(w.dilation[d]);
    args.in_strides[d] = w.in_strides[d];
    small(w.out[d] * w.stride[d] + w.kernel[d] * w.dilation[d] + w.in[d] + w.padding[d]);
  }
  args.windows = divisor(w.columns()), args.taps = divisor(taps), args.positions = divisor(positions);
  args.channels = w.channels;
  args.channel_stride = w.channel_stride;
  args.column_stride = taps * w.columns();
  args.from = from, args.to = to;
  const int64_t groups = (w.channels + kColumnChannels - 1) / kColumnChannels,
                threads = groups * (to_image ? positions : taps * w.columns());
  args.threads = static_cast<unsigned>(small(threads));
  if (fits && threads > 0) kernel(active_index(), {type}, {256, (threads + 255) / 256}, args);
  return fits;
}

void im2col_cuda(DType dtype, void* columns, const void* image, const Windows& w) {
  static const DeviceKernel kernel{"conv.cuh", "im2col"}, channels{"conv.cuh", "im2col_channels"};
  const int device = active_index();
  const DType bits = bits_of(item_size(dtype));
  if (!run_channels(channels, bits, w, false, image, columns))
    kernel(device, {bits}, grid_for(device, w.rows() * w.columns()), arguments_of(w), image, columns);
}

void col2im_cuda(DType dtype, void* image, const void* columns, const Windows& w) {
  static const DeviceKernel kernel{"conv.cuh", "col2im"}, channels{"conv.cuh", "col2im_channels"};
  const int device = active_index();
  if (!run_channels(channels, dtype, w, true, columns, image))
    kernel(device, {dtype}, grid_for(device, w.channels * w.in[0] * w.in[1] * w.in[2]), arguments_of(w), image,
           columns);
}

void accumulate_cuda(const Tensor& t, const Tensor& other) {
  add_repeated(t, other, 1, std::max<int64_t>(t.numel(), 1));
}

}  // namespace

void register_conv() {
  constexpr auto cuda = DeviceType::CUDA;
  convolution_kernel.set(cuda, convolution_cuda);
  im2col_kernel.set(cuda, im2col_cuda);
  col2im_kernel.set(cuda, col2im_cuda);
  add_channels_kernel.set(cuda, add_channels_cuda);
  accumulate_kernel.set(cuda, accumulate_cuda);
}

}  // namespace facula::cuda
