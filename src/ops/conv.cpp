// Shapes and checks of convolution.
#include "ops/conv.h"

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/out.h"
#include "raw_conv.h"

namespace facula {

Dims per_dimension(IntList list, int64_t count, const char* op, const char* what) {
  if (list.size() == 1) return Dims(static_cast<size_t>(count), list[0]);
  FACULA_CHECK(static_cast<int64_t>(list.size()) == count, ErrorKind::Runtime, op, ": ", what,
               " must be one integer or a list of ", count, ", got ", list);
  return Dims(list);
}

Windows windows_of(const Tensor& image, int64_t channels, IntList out, IntList kernel, const ConvGeometry& geometry) {
  Windows w;
  w.channels = channels;
  w.channel_stride = image.stride(1);
  size_t count = out.size();
  for (size_t i = 0; i < count; ++i) {
    size_t d = 3 - count + i;
    w.in[d] = image.sizes()[2 + i];
    w.in_strides[d] = image.strides()[2 + i];
    w.out[d] = out[i];
    w.kernel[d] = kernel[i];
    w.stride[d] = geometry.stride[i];
    w.padding[d] = geometry.padding[i];
    w.dilation[d] = geometry.dilation[i];
  }
  return w;
}

namespace ops {
namespace {

const char* conv_name(int64_t spatial, bool transposed) {
  static const char* const names[2][4] = {{"convolution", "conv1d", "conv2d", "conv3d"},
                                          {"convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}};
  return names[transposed][spatial >= 1 && spatial <= 3 ? spatial : 0];
}

struct Arguments {
  const char* op;
  ConvGeometry geometry;
  Dims output_padding;
};

Arguments read_arguments(const Tensor& input, const Tensor& weight, IntList stride, IntList padding, IntList dilation,
                         bool transposed, IntList output_padding, int64_t groups) {
  int64_t spatial = weight.dim() - 2;
  const char* op = conv_name(spatial, transposed);
  FACULA_CHECK(spatial >= 1 && spatial <= 3, ErrorKind::Runtime, op,
               ": weight must have 3, 4 or 5 dimensions, got shape ", weight.sizes());
  FACULA_CHECK(input.dim() == weight.dim(), ErrorKind::Runtime, op, ": a weight of shape ", weight.sizes(),
               " needs an input of ", weight.dim(), " dimensions (", weight.dim() - 1,
               " without batch), got an input of shape ", input.sizes());
  Arguments a{op,
              {per_dimension(stride, spatial, op, "stride"), per_dimension(padding, spatial, op, "padding"),
               per_dimension(dilation, spatial, op, "dilation"), groups},
              per_dimension(output_padding, spatial, op, "output_padding")};
  for (int64_t s : a.geometry.stride)
    FACULA_CHECK(s > 0, ErrorKind::Runtime, op, ": stride must be positive, got ", a.geometry.stride);
  for (int64_t p : a.geometry.padding)
    FACULA_CHECK(p >= 0, ErrorKind::Runtime, op, ": padding must not be negative, got ", a.geometry.padding);
  for (int64_t d : a.geometry.dilation)
    FACULA_CHECK(d > 0, ErrorKind::Runtime, op, ": dilation must be positive, got ", a.geometry.dilation);
  for (int64_t p : a.output_padding)
    FACULA_CHECK(p >= 0, ErrorKind::Runtime, op, ": output_padding must not be negative, got ", a.output_padding);
  FACULA_CHECK(groups > 0, ErrorKind::Runtime, op, ": groups must be positive, got ", groups);
  constexpr int64_t most = std::numeric_limits<int32_t>::max();  // as large as the libraries take
  for (const Dims* list : {&a.geometry.stride, &a.geometry.padding, &a.geometry.dilation, &a.output_padding})
    for (int64_t value : *list)
      FACULA_CHECK(value <= most, ErrorKind::Runtime, op,
                   ": stride, padding, dilation and output_padding must be at most ", most, ", got ", value);
  return a;
}

void check_operands(const Arguments& a, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    bool transposed) {
  int64_t groups = a.geometry.groups, first = weight.size(0);
  FACULA_CHECK(input.dtype() == weight.dtype(), ErrorKind::Runtime, a.op,
               ": input and weight must have one dtype, got ", input.dtype(), " and ", weight.dtype());
  FACULA_CHECK(input.device() == weight.device(), ErrorKind::Runtime, a.op,
               ": input and weight must be on the same device, got ", input.device(), " and ", weight.device());
  FACULA_CHECK(input.dtype() != DType::Bool, ErrorKind::NotImplemented, a.op, ": not implemented for dtype ",
               input.dtype());
  FACULA_CHECK(first >= groups, ErrorKind::Runtime, a.op, ": the first size of weight must be at least groups=", groups,
               ", got a weight of shape ", weight.sizes());
  FACULA_CHECK(first % groups == 0, ErrorKind::Runtime, a.op,
               ": the first size of weight must be divisible by groups=", groups, ", got a weight of shape ",
               weight.sizes());
  const int64_t grouped = (Checked(weight.size(1)) * groups).get(a.op, "the number of channels", groups, " groups");
  int64_t channels = transposed ? first : grouped;
  FACULA_CHECK(input.size(1) == channels, ErrorKind::Runtime, a.op, ": with groups=", groups, " and a weight of shape ",
               weight.sizes(), ", input must have ", channels, " channels, got ", input.size(1), " in shape ",
               input.sizes());
  if (!bias.defined()) return;
  int64_t results = transposed ? grouped : first;
  FACULA_CHECK(bias.dim() == 1 && bias.size(0) == results, ErrorKind::Runtime, a.op, ": with a weight of shape ",
               weight.sizes(), ", bias must have shape [", results, "], got ", bias.sizes());
  FACULA_CHECK(bias.dtype() == input.dtype(), ErrorKind::Runtime, a.op, ": bias must have the dtype of input, ",
               input.dtype(), ", got ", bias.dtype());
}

Dims result_sizes(const Arguments& a, const Tensor& input, const Tensor& weight, bool transposed) {
  const ConvGeometry& g = a.geometry;
  Dims sizes{input.size(0), transposed ? weight.size(1) * g.groups : weight.size(0)};
  for (size_t d = 0; d < g.stride.size(); ++d) {
    const int64_t in = input.sizes()[2 + d], kernel = weight.sizes()[2 + d];
    const Checked window = Checked(g.dilation[d]) * (kernel - 1) + 1;
    const int64_t reach = window.get(a.op, "the dilated kernel", "a weight of shape ", weight.sizes());
    if (transposed) {
      FACULA_CHECK(kernel > 0, ErrorKind::Runtime, a.op, ": the kernel must not be empty, got a weight of shape ",
                   weight.sizes());
      FACULA_CHECK(a.output_padding[d] < std::max(g.stride[d], g.dilation[d]), ErrorKind::Runtime, a.op,
                   ": output_padding must be smaller than stride or dilation, got output_padding=", a.output_padding,
                   ", stride=", g.stride, ", dilation=", g.dilation);
      const Checked size = (Checked(in) - 1) * g.stride[d] - Checked(2) * g.padding[d] + reach + a.output_padding[d];
      sizes.push_back(size.get(a.op, "the size of the result", "an input of shape ", input.sizes()));
      FACULA_CHECK(sizes.back() > 0, ErrorKind::Runtime, a.op, ": the result would have no positions: input of shape ",
                   input.sizes(), ", weight of shape ", weight.sizes(), ", padding=", g.padding);
    } else {
      const int64_t padded =
          (Checked(in) + Checked(2) * g.padding[d]).get(a.op, "the padded size", "an input of shape ", input.sizes());
      FACULA_CHECK(kernel > 0 && padded >= reach, ErrorKind::Runtime, a.op,
                   ": the kernel must not be larger than the padded input: input of shape ", input.sizes(),
                   ", padding=", g.padding, ", dilation=", g.dilation, ", got a weight of shape ", weight.sizes());
      sizes.push_back((padded - reach) / g.stride[d] + 1);
    }
  }
  return sizes;
}

MemoryFormat format_of(const Tensor& a, const Tensor& b) {
  MemoryFormat format = a.suggest_memory_format();
  return format == MemoryFormat::Contiguous ? b.suggest_memory_format() : format;
}

struct ResultLayout {
  MemoryFormat format;
  bool is_private;  // the program is to see plain strides
};

// A program that writes channels-last gets it. Else the device may prefer it, inside. `channels` are those that the
// kernel's products run along.
ResultLayout result_layout(const Tensor& input, const Tensor& weight, IntList sizes, int64_t channels) {
  const bool hidden = input.flags() & kPrivateLayout;
  MemoryFormat format = format_of(input, weight);
  if (hidden || format != MemoryFormat::Contiguous) return {format, hidden};
  const auto prefers = backend_of(input.device().type).prefers_channels_last;
  const bool special = (input.flags() & (kBatched | kDual)) || (thread_state.modes & kModeVmap);
  if (!prefers || special || sizes.size() != 4 || input.numel() == 0) return {format, false};
  const bool wanted = prefers(input.dtype(), channels, sizes[0] * sizes[1] * sizes[2] * sizes[3]);
  return wanted ? ResultLayout{MemoryFormat::ChannelsLast, true} : ResultLayout{format, false};
}

}  // namespace

Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                   IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
  Arguments a = read_arguments(input, weight, stride, padding, dilation, transposed, output_padding, groups);
  check_operands(a, input, weight, bias, transposed);
  Dims sizes = result_sizes(a, input, weight, transposed);
  const bool spread = transposed && groups == 1 && input.is_cpu() && windows_are_apart(weight, a.geometry) &&
                      keeps_spread_channels_last && keeps_spread_channels_last();
  const int64_t channels = spread ? std::max(sizes[1], input.size(1)) : sizes[1];
  const auto [format, is_private] = result_layout(input, weight, sizes, channels);
  Tensor result = empty_in(format, sizes, input.dtype(), input.device(), a.op);
  if (is_private) keep_private(result);
  if (result.is_meta() || result.numel() == 0) return result;
  Tensor given = as_contiguous(input, format);
  Tensor kernel = weight.is_dense() ? weight : as_contiguous(weight, MemoryFormat::Contiguous);
  Tensor offset = bias.defined() ? as_contiguous(bias, MemoryFormat::Contiguous) : bias;
  if (transposed) convolution_kernel(input.device(), ConvMap::Input, given, result, kernel, offset, a.geometry);
  else convolution_kernel(input.device(), ConvMap::Output, result, given, kernel, offset, a.geometry);
  // One channel, or one position, lies the same way in both orders: the program sees the strides of the plain one.
  if (!is_private || !result.is_contiguous()) return result;
  return make_view(result, result.sizes(), strides_of(sizes, MemoryFormat::Contiguous, a.op), 0, false);
}

Tensor convolution_weight(const Tensor& output, const Tensor& input, IntList weight_size, IntList stride,
                          IntList padding, IntList dilation, int64_t groups) {
  ConvGeometry geometry{Dims(stride), Dims(padding), Dims(dilation), groups};
  Tensor result = facula::empty(weight_size, input.dtype(), input.device());
  if (result.is_meta() || result.numel() == 0) return result;
  const Arguments a = read_arguments(input, result, stride, padding, dilation, false, {0}, groups);
  check_operands(a, input, result, Tensor(), false);
  // A transposed convolution's output_padding may leave positions over, whose windows the kernel does not walk.
  const Dims sizes = result_sizes(a, input, result, false);
  bool fits = output.dtype() == input.dtype() && output.sizes().size() == sizes.size();
  for (size_t d = 0; fits && d < sizes.size(); ++d)
    fits = d < 2 ? output.sizes()[d] == sizes[d] : output.sizes()[d] <= sizes[d];
  FACULA_CHECK(fits, ErrorKind::Runtime, a.op, ": expected a gradient of shape ", sizes, " of ", input.dtype(),
               ", got ", output.sizes(), " of ", output.dtype());
  MemoryFormat format = format_of(input, output);
  convolution_kernel(input.device(), ConvMap::Weight, as_contiguous(output, format), as_contiguous(input, format),
                     result, Tensor(), geometry);
  return result;
}

namespace {

struct Columns {
  ConvGeometry geometry;
  Dims kernel, blocks;
};

// Blocks (windows per dimension) of an image of `size`.
Columns column_geometry(const char* op, IntList size, IntList kernel_size, IntList dilation, IntList padding,
                        IntList stride) {
  Columns c{{per_dimension(stride, 2, op, "stride"), per_dimension(padding, 2, op, "padding"),
             per_dimension(dilation, 2, op, "dilation"), 1},
            per_dimension(kernel_size, 2, op, "kernel_size"),
            {}};
  const ConvGeometry& g = c.geometry;
  for (size_t d = 0; d < 2; ++d) {
    FACULA_CHECK(c.kernel[d] > 0, ErrorKind::Runtime, op, ": kernel_size must be positive, got ", c.kernel);
    FACULA_CHECK(g.dilation[d] > 0, ErrorKind::Runtime, op, ": dilation must be positive, got ", g.dilation);
    FACULA_CHECK(g.padding[d] >= 0, ErrorKind::Runtime, op, ": padding must not be negative, got ", g.padding);
    FACULA_CHECK(g.stride[d] > 0, ErrorKind::Runtime, op, ": stride must be positive, got ", g.stride);
    const Checked window = Checked(g.dilation[d]) * (Checked(c.kernel[d]) - 1) + 1;
    const int64_t room = (Checked(size[d]) + Checked(2) * g.padding[d] - window)
                             .get(op, "the padded size and the dilated kernel", "kernel_size=", c.kernel,
                                  ", dilation=", g.dilation, ", padding=", g.padding);
    FACULA_CHECK(room >= 0, ErrorKind::Runtime, op, ": no window of kernel_size=", c.kernel, ", dilation=", g.dilation,
                 ", padding=", g.padding, " fits into a spatial size of ", size);
    c.blocks.push_back(room / g.stride[d] + 1);
  }
  return c;
}

// A view with a batch dimension in front.
Tensor batched(const Tensor& t, int64_t dims) {
  if (t.dim() == dims) return t;
  Dims sizes(t.sizes()), strides(t.strides());
  sizes.insert(0, 1);
  strides.insert(0, 0);
  return make_view(t, sizes, strides, 0, false);
}

Tensor unbatched(const Tensor& t, bool drop) {
  return drop ? make_view(t, t.sizes().slice(1, t.sizes().size() - 1), t.strides().slice(1, t.strides().size() - 1), 0,
                          false)
              : t;
}

}  // namespace

Tensor im2col(const Tensor& self, IntList kernel_size, IntList dilation, IntList padding, IntList stride) {
  int64_t ndim = self.dim();
  bool nonempty = ndim == 3 || ndim == 4;
  for (int64_t d = -3; nonempty && d < 0; ++d) nonempty = self.size(d) != 0;
  FACULA_CHECK(nonempty, ErrorKind::Runtime,
               "im2col: images (N, C, H, W) or (C, H, W) whose sizes after N are not zero are expected, got shape ",
               self.sizes());
  FACULA_CHECK(is_inexact(self.dtype()) || self.dtype() == DType::Bool, ErrorKind::NotImplemented,
               "im2col: not implemented for dtype ", self.dtype());
  Columns c = column_geometry("im2col", self.sizes().slice(static_cast<size_t>(ndim) - 2, 2), kernel_size, dilation,
                              padding, stride);
  Tensor images = batched(self, 4);
  const int64_t rows = (Checked(images.size(1)) * c.kernel[0] * c.kernel[1])
                           .get("im2col", "the elements of a window", "kernel_size=", c.kernel);
  const int64_t blocks =
      (Checked(c.blocks[0]) * c.blocks[1]).get("im2col", "the number of windows", "padding=", c.geometry.padding);
  Tensor result = facula::empty({images.size(0), rows, blocks}, self.dtype(), self.device());
  if (!result.is_meta()) {
    Windows windows = windows_of(images, images.size(1), c.blocks, c.kernel, c.geometry);
    for (int64_t n = 0; n < images.size(0); ++n) {
      im2col_kernel(self.device(), self.dtype(), result.data<char>() + n * result.stride(0) * self.item_size(),
                    images.data<char>() + n * images.stride(0) * self.item_size(), windows);
    }
  }
  return unbatched(result, ndim == 3);
}

Tensor col2im(const Tensor& self, IntList output_size, IntList kernel_size, IntList dilation, IntList padding,
              IntList stride) {
  int64_t ndim = self.dim();
  FACULA_CHECK((ndim == 2 || ndim == 3) && self.size(-1) != 0 && self.size(-2) != 0, ErrorKind::Runtime,
               "col2im: columns (N, C kH kW, windows) or (C kH kW, windows) whose sizes after N are not zero "
               "are expected, got shape ",
               self.sizes());
  FACULA_CHECK(is_inexact(self.dtype()) || self.dtype() == DType::Bool, ErrorKind::NotImplemented,
               "col2im: not implemented for dtype ", self.dtype());
  Dims size = per_dimension(output_size, 2, "col2im", "output_size");
  Columns c = column_geometry("col2im", size, kernel_size, dilation, padding, stride);
  int64_t taps = product_of(c.kernel).get("col2im", "the elements of a window", "kernel_size=", c.kernel);
  int64_t blocks = product_of(c.blocks).get("col2im", "the number of windows", "padding=", c.geometry.padding);
  FACULA_CHECK(self.size(-2) % taps == 0, ErrorKind::Runtime,
               "col2im: the size before the last must be divisible by the product of kernel_size=", c.kernel,
               ", got shape ", self.sizes());
  FACULA_CHECK(self.size(-1) == blocks, ErrorKind::Runtime, "col2im: output_size=", size, ", kernel_size=", c.kernel,
               ", dilation=", c.geometry.dilation, ", padding=", c.geometry.padding, ", stride=", c.geometry.stride,
               " make ", blocks, " windows, got shape ", self.sizes());
  Tensor columns = batched(self, 3);
  Tensor result = facula::empty({columns.size(0), self.size(-2) / taps, size[0], size[1]}, self.dtype(), self.device());
  if (!result.is_meta()) {
    columns = as_contiguous(columns, MemoryFormat::Contiguous);
    Windows windows = windows_of(result, result.size(1), c.blocks, c.kernel, c.geometry);
    fill_kernel(result.device(), result, Scalar(0));
    for (int64_t n = 0; n < columns.size(0); ++n) {
      col2im_kernel(self.device(), self.dtype(), result.data<char>() + n * result.stride(0) * self.item_size(),
                    columns.data<char>() + n * columns.stride(0) * self.item_size(), windows);
    }
  }
  return unbatched(result, ndim == 2);
}

}  // namespace ops
}  // namespace facula
