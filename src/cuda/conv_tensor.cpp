// Convolutions as products of matrices one of which is read out of images (kernels/conv_tensor.cuh). Channels lie next
// to each other: tensors that are not so are copied, which costs little beside the product.
#include "cuda/conv_tensor.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "cuda/flags.h"
#include "cuda/kernels/conv_args.h"
#include "cuda/product.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

constexpr auto kLast = MemoryFormat::ChannelsLast;

/// Of two spatial dimensions, of which the first may be missing.
Tensor as_image(const Tensor& t) {
  if (t.dim() == 4) return t;
  const int64_t line = t.size(2) * t.stride(2);
  return make_view(t, {t.size(0), t.size(1), 1, t.size(2)}, {t.stride(0), t.stride(1), line, t.stride(2)}, 0, false);
}

/// With channels next to each other, from a multiple of 16 bytes on: the tensor itself where it is so already.
Tensor channels_last(const Tensor& t) {
  if (t.is_contiguous(kLast) && reinterpret_cast<uintptr_t>(t.data()) % 16 == 0) return t;
  Tensor copy = ops::empty_in(kLast, t.sizes(), t.dtype(), t.device(), "convolution");
  copy_elements(copy, t);
  return copy;
}

struct Geometry {
  std::array<int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  explicit Geometry(const ConvGeometry& g) {
    const size_t missing = 2 - g.stride.size();
    for (size_t i = 0; i < g.stride.size(); ++i) {
      stride[missing + i] = g.stride[i];
      padding[missing + i] = g.padding[i];
      dilation[missing + i] = g.dilation[i];
    }
  }
};

/// The result, or where it is made first: with channels next to each other.
class Result {
 public:
  explicit Result(const Tensor& wanted)
      : wanted_(wanted),
        made_(wanted.is_contiguous(kLast)
                  ? wanted
                  : ops::empty_in(kLast, wanted.sizes(), wanted.dtype(), wanted.device(), "convolution")) {}
  void* data() const { return made_.data(); }
  void finish() const {
    if (!made_.is_same(wanted_)) copy_elements(wanted_, made_);
  }

 private:
  Tensor wanted_, made_;
};

WindowMatrix windows_of(const Tensor& images, int64_t rows, int64_t columns, int64_t taps_down, int64_t taps_across) {
  WindowMatrix m{};
  const int64_t out[] = {rows, columns}, taps[] = {taps_down, taps_across};
  for (int d = 0; d < 2; ++d) {
    m.out[d] = fast_division(static_cast<unsigned>(out[d]));
    m.kernel[d] = fast_division(static_cast<unsigned>(std::max<int64_t>(taps[d], 1)));
    m.in[d] = static_cast<int>(images.size(2 + d));
    m.step[d] = images.stride(2 + d);
  }
  m.channels = fast_division(static_cast<unsigned>(images.size(1)));
  m.image = images.stride(0);
  return m;
}

/// `on_left`: whether the windows are the left side.
void queue(MatricesArgs& args, const WindowMatrix& windows, DType dtype, bool on_left, int device) {
  static const DeviceKernel kernel{"conv_tensor.cuh", "windows_by_tensor_cores"};
  static const ProductKernels products("matmul.cuh", "StridedProduct");
  Tensor partial;
  const TensorPlan plan = plan_tensor_product(args.tiles, dtype, flags()[Flag::ConvTf32] != 0, device, partial);
  kernel(device, {dtype, plan.precision, on_left, plan.size}, plan.grid, args, windows);
  products.add_parts(device, dtype, DType::Int64, args);
}

MatricesArgs arguments(int64_t rows, int64_t columns, int64_t inner, const Tensor& a, const Tensor& b, void* out) {
  MatricesArgs args{};
  args.tiles = {1, rows, columns, inner, 1, 1, nullptr};
  args.a = a.data();
  args.b = b.data();
  args.out = out;
  args.out_row = columns;
  return args;
}

void output(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const Geometry& g, int device) {
  const Tensor images = channels_last(x), weights = channels_last(w);
  const Result result(y);
  const int64_t inner = w.numel() / w.size(0);
  MatricesArgs args = arguments(y.numel() / y.size(1), y.size(1), inner, images, weights, result.data());
  args.b_row = 1, args.b_column = inner;
  args.bias = bias.defined() ? bias.data() : nullptr;
  WindowMatrix m = windows_of(images, y.size(2), y.size(3), w.size(2), w.size(3));
  for (size_t d = 0; d < 2; ++d) {
    m.stride[d] = static_cast<int>(g.stride[d]);
    m.start[d] = static_cast<int>(-g.padding[d]);
    m.dilation[d] = static_cast<int>(g.dilation[d]);
  }
  queue(args, m, x.dtype(), true, device);
  result.finish();
}

/// Positions of x in one dimension that the same taps reach: first + n stride is shown by tap + t tap_step of windows
/// near + n - t back.
struct Class {
  int64_t first, positions, tap, taps, tap_step, near, back;
  Class(int64_t number, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
      : first(number), positions((size - number + stride - 1) / stride), tap_step(stride / std::gcd(stride, dilation)) {
    const int64_t most = std::min(tap_step, kernel);
    tap = 0;
    while (tap < most && (first + padding - tap * dilation) % stride != 0) ++tap;
    taps = tap < most ? (kernel - tap + tap_step - 1) / tap_step : 0;
    near = (first + padding - tap * dilation) / stride;
    back = tap_step * dilation / stride;
  }
};

void input(const Tensor& images, const Tensor& x, const Tensor& w, const Tensor& bias, const Geometry& g,
           const Class (&c)[2], int device) {
  const int64_t first = c[0].taps * c[1].taps == 0 ? 0 : w.stride(2) * c[0].tap + w.stride(3) * c[1].tap;
  const Tensor weights = channels_last(
      make_view(w, {w.size(1), w.size(0), c[0].taps, c[1].taps},
                {w.stride(1), w.stride(0), w.stride(2) * c[0].tap_step, w.stride(3) * c[1].tap_step}, first, false));
  const Result result(make_view(x, {x.size(0), x.size(1), c[0].positions, c[1].positions},
                                {x.stride(0), x.stride(1), x.stride(2) * g.stride[0], x.stride(3) * g.stride[1]},
                                x.stride(2) * c[0].first + x.stride(3) * c[1].first, false));
  const int64_t inner = c[0].taps * c[1].taps * w.size(0);
  MatricesArgs args =
      arguments(x.size(0) * c[0].positions * c[1].positions, x.size(1), inner, images, weights, result.data());
  args.b_row = 1, args.b_column = inner;
  args.bias = bias.defined() ? bias.data() : nullptr;
  WindowMatrix m = windows_of(images, c[0].positions, c[1].positions, c[0].taps, c[1].taps);
  for (size_t d = 0; d < 2; ++d) {
    m.stride[d] = 1;
    m.start[d] = static_cast<int>(c[d].near);
    m.dilation[d] = static_cast<int>(-c[d].back);
  }
  queue(args, m, x.dtype(), true, device);
  result.finish();
}

void inputs(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const Geometry& g, int device) {
  const Tensor images = channels_last(y);
  const auto classes = [&](size_t d) { return std::min(g.stride[d], x.size(2 + static_cast<int64_t>(d))); };
  const auto of = [&](size_t d, int64_t number) {
    const auto at = 2 + static_cast<int64_t>(d);
    return Class(number, x.size(at), w.size(at), g.stride[d], g.padding[d], g.dilation[d]);
  };
  for (int64_t i = 0; i < classes(0); ++i)
    for (int64_t j = 0; j < classes(1); ++j) input(images, x, w, bias, g, {of(0, i), of(1, j)}, device);
}

void weight(const Tensor& y, const Tensor& x, const Tensor& w, const Geometry& g, int device) {
  const Tensor gradients = channels_last(y), images = channels_last(x);
  const Result result(w);
  MatricesArgs args =
      arguments(w.size(0), w.numel() / w.size(0), y.numel() / y.size(1), gradients, images, result.data());
  args.a_row = 1, args.a_column = y.size(1);
  WindowMatrix m = windows_of(images, y.size(2), y.size(3), w.size(2), w.size(3));
  for (size_t d = 0; d < 2; ++d) {
    m.stride[d] = static_cast<int>(g.stride[d]);
    m.start[d] = static_cast<int>(-g.padding[d]);
    m.dilation[d] = static_cast<int>(g.dilation[d]);
  }
  queue(args, m, x.dtype(), false, device);
  result.finish();
}

/// Whether the sides of the product have rows of whole copies, and it is large enough for the work around it.
bool is_fit(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, int device) {
  constexpr int64_t kLeastWork = int64_t{1} << 20, kMostSize = INT32_MAX / 2;
  const int64_t unit = 16 / item_size(x.dtype()), windows = y.numel() / y.size(1), inner = w.numel() / w.size(0);
  if (map != ConvMap::Input && x.size(1) % unit != 0) return false;
  if (map != ConvMap::Output && y.size(1) % unit != 0) return false;
  const ProductTiles tiles{1, windows, y.size(1), inner, 1, 1, nullptr};
  return windows * y.size(1) * inner >= kLeastWork && x.numel() / x.size(1) <= kMostSize &&
         fits_tensor_cores(tiles, x.dtype(), device) && x.size(1) > 4;
}

}  // namespace

bool convolution_by_tensor_cores(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                                 const ConvGeometry& geometry) {
  const int device = x.device().index;
  if (geometry.groups != 1 || geometry.stride.size() > 2 || x.numel() == 0 || y.numel() == 0 || w.numel() == 0 ||
      !is_fit(map, y, x, w, device))
    return false;
  const Tensor y4 = as_image(y), x4 = as_image(x), w4 = as_image(w);
  const Geometry g(geometry);
  if (map == ConvMap::Output) output(y4, x4, w4, bias, g, device);
  else if (map == ConvMap::Input) inputs(y4, x4, w4, bias, g, device);
  else weight(y4, x4, w4, g, device);
  return true;
}

}  // namespace facula::cuda
