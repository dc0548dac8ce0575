// Shapes, windows and checks of pooling.
#include "ops/pool.h"

#include <limits>

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/conv.h"
#include "ops/deterministic.h"
#include "ops/out.h"
#include "raw_pool.h"

namespace facula::ops {
namespace {

const char* const kMaxPool[] = {"", "max_pool1d", "max_pool2d", "max_pool3d"};
const char* const kAvgPool[] = {"", "avg_pool1d", "avg_pool2d", "avg_pool3d"};
const char* const kAdaptiveAvgPool[] = {"", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"};
const char* const kAdaptiveMaxPool[] = {"", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"};
const char* const kFractionalMaxPool[] = {"", "fractional_max_pool1d", "fractional_max_pool2d",
                                          "fractional_max_pool3d"};

// An input with batch and channels and in a format kernels take, and what is needed to give results its form.
class Input {
 public:
  /// `own` where that is defined, else `given`, which lives longer.
  Input(const Tensor& given, Tensor own, bool batched, MemoryFormat format)
      : batched(batched), format(format), given_(&given), own_(std::move(own)) {}
  const Tensor& tensor() const { return own_.defined() ? own_ : *given_; }  // (N, C, spatial...)
  bool batched;
  MemoryFormat format;

 private:
  const Tensor* given_;
  Tensor own_;
};

Tensor with_batch(const Tensor& self, int64_t spatial) {
  if (self.dim() == spatial + 2) return self;
  Dims sizes(self.sizes()), strides(self.strides());
  sizes.insert(0, 1);
  strides.insert(0, self.numel());
  return make_view(self, sizes, strides, 0, false);
}

/// Whether channels are the innermost of the dimensions, also of a part of a channels-last tensor.
bool channels_innermost(const Tensor& self) {
  IntList sizes = self.sizes(), strides = self.strides();
  if (self.is_contiguous() || strides[1] == 0) return false;
  int64_t reach = strides[1] * sizes[1];
  for (size_t d = sizes.size() - 1; d > 1; --d) {
    if (strides[d] < reach) return false;
    reach = strides[d] * sizes[d];
  }
  return strides[0] >= reach;
}

MemoryFormat format_of(const Tensor& self, int64_t spatial) {
  const MemoryFormat suggested = self.suggest_memory_format();
  if (suggested != MemoryFormat::Contiguous || spatial < 2 || self.numel() == 0 || !channels_innermost(self))
    return suggested;
  return spatial == 2 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

/// Which dimensions of the input may be of size zero, besides the batch.
enum class Empty { None, FirstOnly, Channels, Any };

Input read_input(const char* op, const Tensor& self, int64_t spatial, Empty empty = Empty::None) {
  FACULA_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, ErrorKind::Runtime, op, ": input must have ",
               spatial + 2, " dimensions, or ", spatial + 1, " without batch, got shape ", self.sizes());
  bool batched = self.dim() == spatial + 2;
  const int64_t first = empty == Empty::Channels ? self.dim() - spatial : batched || empty == Empty::FirstOnly ? 1 : 0;
  for (int64_t d = empty == Empty::Any ? self.dim() : first; d < self.dim(); ++d) {
    FACULA_CHECK(self.size(d) > 0, ErrorKind::Runtime, op, ": expected an input of ", spatial + 1, "D or ", spatial + 2,
                 "D, where only ", empty == Empty::Channels ? "the batch size and the channels" : "the batch size",
                 " may be zero, got shape ", self.sizes());
  }
  MemoryFormat format = batched ? format_of(self, spatial) : MemoryFormat::Contiguous;
  if (batched && self.is_contiguous(format)) return {self, Tensor(), batched, format};
  return {self, as_contiguous(with_batch(self, spatial), format), batched, format};
}

Tensor make_result(const Input& input, IntList spatial, DType dtype) {
  Dims sizes{input.tensor().size(0), input.tensor().size(1)};
  for (int64_t s : spatial) sizes.push_back(s);
  return empty_in(input.format, sizes, dtype, input.tensor().device(), "pooling");
}

Tensor finish(const Input& input, Tensor made) {
  if (input.batched) return made;
  size_t rest = made.sizes().size() - 1;
  return make_view(made, made.sizes().slice(1, rest), made.strides().slice(1, rest), 0, false);
}

void check_dtype(const char* op, DType dtype, bool integers) {
  bool known = (is_floating(dtype) && !is_float8(dtype)) || (integers && is_integral(dtype));
  FACULA_CHECK(known, ErrorKind::NotImplemented, op, ": not implemented for dtype ", dtype);
}

// The op's public name, for planes of one to three dimensions.
const char* name_of(const char* const (&names)[4], size_t spatial) {
  FACULA_CHECK(spatial >= 1 && spatial <= 3, ErrorKind::Runtime, names[2],
               ": planes have one to three dimensions, got ", spatial);
  return names[spatial];
}

// Arguments of max_pool and avg_pool with one entry per dimension.
struct Sliding {
  Dims kernel, stride, padding, dilation, out;
};

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Sliding read_windows(const char* op, IntList size, IntList kernel_size, IntList stride, IntList padding,
                     IntList dilation, bool ceil_mode) {
  int64_t spatial = static_cast<int64_t>(size.size());
  Sliding s;
  s.kernel = per_dimension(kernel_size, spatial, op, "kernel_size");
  s.stride = stride.empty() ? s.kernel : per_dimension(stride, spatial, op, "stride");
  s.padding = per_dimension(padding, spatial, op, "padding");
  s.dilation = per_dimension(dilation, spatial, op, "dilation");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();  // so that their products fit
  for (size_t d = 0; d < size.size(); ++d) {
    for (int64_t value : {s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]})
      FACULA_CHECK(value <= most, ErrorKind::Runtime, op,
                   ": kernel_size, stride, padding and dilation must be at most ", most, ", got ", value);
    FACULA_CHECK(s.kernel[d] > 0, ErrorKind::Runtime, op, ": kernel_size must be positive, got ", s.kernel);
    FACULA_CHECK(s.stride[d] > 0, ErrorKind::Runtime, op, ": stride must be positive, got ", s.stride);
    FACULA_CHECK(s.dilation[d] > 0, ErrorKind::Runtime, op, ": dilation must be positive, got ", s.dilation);
    FACULA_CHECK(s.padding[d] >= 0, ErrorKind::Runtime, op, ": padding must not be negative, got ", s.padding);
    const int64_t reach =
        (Checked(s.dilation[d]) * (s.kernel[d] - 1) + 1).get(op, "the reach of a window", "kernel_size=", s.kernel);
    FACULA_CHECK(s.padding[d] <= s.kernel[d] / 2, ErrorKind::Runtime, op,
                 ": padding must be at most half of kernel_size=", s.kernel, ", got padding=", s.padding);
    const int64_t room = (Checked(size[d]) + Checked(2) * s.padding[d] - reach + (ceil_mode ? s.stride[d] - 1 : 0))
                             .get(op, "the room for windows", "size ", size, ", stride=", s.stride);
    int64_t out = floor_divide(room, s.stride[d]) + 1;
    if (ceil_mode && (out - 1) * s.stride[d] >= size[d] + s.padding[d])
      --out;  // no window lies in the far padding alone
    FACULA_CHECK(out >= 1, ErrorKind::Runtime, op, ": the result would have no windows: kernel_size=", s.kernel,
                 ", got a spatial size of ", size);
    s.out.push_back(out);
  }
  return s;
}

PoolAxis& axis_of(PoolGeometry& g, size_t d, size_t spatial) { return g.axes[3 - spatial + d]; }

PoolGeometry sliding_geometry(const Sliding& s, IntList size) {
  PoolGeometry g;
  for (size_t d = 0; d < size.size(); ++d) {
    axis_of(g, d, size.size()) = {.in = size[d],
                                  .out = s.out[d],
                                  .kernel = s.kernel[d],
                                  .stride = s.stride[d],
                                  .padding = s.padding[d],
                                  .step = s.dilation[d]};
  }
  return g;
}

PoolGeometry avg_geometry(const Sliding& s, IntList size, bool count_include_pad, std::optional<int64_t> divisor) {
  PoolGeometry g = sliding_geometry(s, size);
  g.divisor = divisor ? static_cast<double>(*divisor) : 0;
  for (PoolAxis& axis : g.axes) axis.counts_padding = count_include_pad;
  return g;
}

PoolGeometry adaptive_geometry(IntList size, IntList out) {
  PoolGeometry g;
  for (size_t d = 0; d < size.size(); ++d)
    axis_of(g, d, size.size()) = {.in = size[d], .out = out[d], .adaptive = true};
  return g;
}

using Pair = std::tuple<Tensor, Tensor>;

Pair max_over(const Input& input, IntList out, const PoolGeometry& geometry, bool with_indices) {
  Tensor values = make_result(input, out, input.tensor().dtype()),
         indices = with_indices ? make_result(input, out, DType::Int64) : Tensor();
  if (!values.is_meta() && values.numel()) max_pool_kernel(values.device(), values, indices, input.tensor(), geometry);
  return {finish(input, std::move(values)), with_indices ? finish(input, std::move(indices)) : Tensor()};
}

Pair sliding_max(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                 bool ceil_mode, bool with_indices) {
  int64_t spatial = static_cast<int64_t>(kernel_size.size());
  const char* op = name_of(kMaxPool, kernel_size.size());
  Input input = read_input(op, self, spatial);
  check_dtype(op, self.dtype(), spatial > 1);
  IntList size = spatial_part(input.tensor());
  Sliding s = read_windows(op, size, kernel_size, stride, padding, dilation, ceil_mode);
  return max_over(input, s.out, sliding_geometry(s, size), with_indices);
}

Tensor mean_over(const Input& input, IntList out, const PoolGeometry& geometry) {
  Tensor result = make_result(input, out, input.tensor().dtype());
  if (!result.is_meta() && result.numel()) avg_pool_kernel(result.device(), result, input.tensor(), geometry);
  return finish(input, std::move(result));
}

// Narrow floats add up in float32.
template <class F>
Tensor accumulated(const Input& input, IntList size, F&& f) {
  Tensor result = make_result(input, size, input.tensor().dtype());
  if (result.is_meta() || result.numel() == 0) return finish(input, std::move(result));
  DType wide = compute_dtype(result.dtype());
  Tensor total = wide == result.dtype() ? result : make_result(input, size, wide);
  const Tensor given = as_contiguous(input.tensor(), input.format, wide);
  fill_kernel(total.device(), total, Scalar(0));
  f(total, given);
  if (!total.is_same(result)) copy_elements(result, total);
  return finish(input, std::move(result));
}

// `windows`: how many the geometry has along each dimension; the kernel reads one element of self for each.
Tensor spread(const char* op, const Tensor& self, IntList size, IntList windows, const PoolGeometry& geometry) {
  Input input = read_input(op, self, static_cast<int64_t>(size.size()), Empty::Any);
  check_dtype(op, self.dtype(), false);
  FACULA_CHECK(spatial_part(input.tensor()) == windows, ErrorKind::Runtime, op, ": planes of size ", size,
               " have windows ", windows, ", got a gradient of shape ", self.sizes());
  return accumulated(input, size, [&](const Tensor& total, const Tensor& given) {
    avg_pool_transpose_kernel(total.device(), total, given, geometry);
  });
}

}  // namespace

Pair max_pool(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
              bool ceil_mode) {
  return sliding_max(self, kernel_size, stride, padding, dilation, ceil_mode, true);
}

Tensor max_pool_values(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                       bool ceil_mode) {
  return std::get<0>(sliding_max(self, kernel_size, stride, padding, dilation, ceil_mode, !is_floating(self.dtype())));
}

Tensor avg_pool(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                bool count_include_pad, std::optional<int64_t> divisor_override) {
  int64_t spatial = static_cast<int64_t>(kernel_size.size());
  const char* op = name_of(kAvgPool, kernel_size.size());
  FACULA_CHECK(divisor_override.value_or(1) != 0, ErrorKind::Runtime, op, ": divisor_override must not be zero, got 0");
  Input input = read_input(op, self, spatial);
  check_dtype(op, self.dtype(), self.dtype() == DType::Int64);
  IntList size = spatial_part(input.tensor());
  Sliding s = read_windows(op, size, kernel_size, stride, padding, {1}, ceil_mode);
  return mean_over(input, s.out, avg_geometry(s, size, count_include_pad, divisor_override));
}

Tensor avg_pool_transpose(const Tensor& self, IntList size, IntList kernel_size, IntList stride, IntList padding,
                          bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  const char* op = name_of(kAvgPool, size.size());
  Sliding s = read_windows(op, size, kernel_size, stride, padding, {1}, ceil_mode);
  return spread(op, self, size, s.out, avg_geometry(s, size, count_include_pad, divisor_override));
}

namespace {

Dims read_output_size(const char* op, IntList output_size, int64_t spatial) {
  Dims out = per_dimension(output_size, spatial, op, "output_size");
  for (int64_t size : out)
    FACULA_CHECK(size >= 0, ErrorKind::Runtime, op, ": output_size must not be negative, got ", out);
  return out;
}

}  // namespace

Tensor adaptive_avg_pool(const Tensor& self, IntList output_size) {
  int64_t spatial = static_cast<int64_t>(output_size.size());
  const char* op = name_of(kAdaptiveAvgPool, output_size.size());
  Input input = read_input(op, self, spatial, Empty::Channels);
  check_dtype(op, self.dtype(), false);
  Dims out = read_output_size(op, output_size, spatial);
  return mean_over(input, out, adaptive_geometry(spatial_part(input.tensor()), out));
}

Tensor adaptive_avg_pool_transpose(const Tensor& self, IntList size) {
  const char* op = name_of(kAdaptiveAvgPool, size.size());
  FACULA_CHECK(self.sizes().size() > size.size(), ErrorKind::Runtime, op, ": planes of size ", size,
               ", got a gradient of shape ", self.sizes());
  IntList out = self.sizes().slice(self.sizes().size() - size.size(), size.size());
  return spread(op, self, size, out, adaptive_geometry(size, out));
}

Pair adaptive_max_pool(const Tensor& self, IntList output_size) {
  int64_t spatial = static_cast<int64_t>(output_size.size());
  const char* op = name_of(kAdaptiveMaxPool, output_size.size());
  Input input = read_input(op, self, spatial, Empty::FirstOnly);
  check_dtype(op, self.dtype(), false);
  Dims out = read_output_size(op, output_size, spatial);
  return max_over(input, out, adaptive_geometry(spatial_part(input.tensor()), out), true);
}

Pair fractional_max_pool(const Tensor& self, IntList kernel_size, IntList output_size, const Tensor& random_samples) {
  size_t spatial = kernel_size.size();
  const char* op = name_of(kFractionalMaxPool, spatial);
  Input input = read_input(op, self, static_cast<int64_t>(spatial), Empty::FirstOnly);
  check_dtype(op, self.dtype(), false);
  input = Input(self, as_contiguous(input.tensor(), MemoryFormat::Contiguous), input.batched, MemoryFormat::Contiguous);
  int64_t batch = input.tensor().size(0), channels = input.tensor().size(1);
  IntList size = spatial_part(input.tensor());
  Dims out = per_dimension(output_size, static_cast<int64_t>(spatial), op, "output_size");
  for (size_t d = 0; d < spatial; ++d) {
    FACULA_CHECK(out[d] >= 0 && kernel_size[d] > 0, ErrorKind::Runtime, op,
                 ": kernel_size must be positive and output_size not negative, got ", kernel_size, " and ", out);
    FACULA_CHECK(out[d] <= size[d] - kernel_size[d] + 1, ErrorKind::Runtime, op,
                 ": windows of kernel_size=", kernel_size, " are too large for output_size=", out,
                 ", got an input of spatial size ", size);
  }
  FACULA_CHECK(random_samples.dtype() == self.dtype(), ErrorKind::Runtime, op,
               ": random_samples must have the dtype of the input, ", self.dtype(), ", got ", random_samples.dtype());
  Dims expected{batch, channels, static_cast<int64_t>(spatial)};
  FACULA_CHECK(random_samples.dim() == 3 && random_samples.size(0) >= batch && random_samples.size(1) == channels &&
                   random_samples.size(2) == expected[2],
               ErrorKind::Runtime, op, ": random_samples must have shape ", expected, ", got ", random_samples.sizes());
  Tensor values = make_result(input, out, self.dtype()), indices = make_result(input, out, DType::Int64);
  if (values.is_meta()) return {finish(input, std::move(values)), finish(input, std::move(indices))};
  std::array<int64_t, 3> kernel{1, 1, 1};
  for (size_t d = 0; d < spatial; ++d) kernel[3 - spatial + d] = kernel_size[d];
  if (values.numel())
    fractional_max_pool_kernel(values.device(), values, indices, input.tensor(), as_contiguous(random_samples), kernel);
  return {finish(input, std::move(values)), finish(input, std::move(indices))};
}

namespace {

void check_indices(const char* op, const Tensor& self, const Tensor& indices) {
  FACULA_CHECK(indices.dtype() == DType::Int64, ErrorKind::Runtime, op, ": indices must be int64, got ",
               indices.dtype());
  FACULA_CHECK(indices.sizes() == self.sizes(), ErrorKind::Runtime, op, ": indices must have the shape of the input, ",
               self.sizes(), ", got ", indices.sizes());
}

Tensor unpool(const char* op, const Tensor& self, const Tensor& indices, IntList size) {
  alert_not_deterministic(op);  // as PyTorch has it: indices that stand twice
  int64_t spatial = static_cast<int64_t>(size.size());
  check_indices(op, self, indices);
  Input input = read_input(op, self, spatial);
  Tensor where = as_contiguous(with_batch(indices, spatial), input.format);
  Tensor result = make_result(input, size, self.dtype());
  if (result.is_meta()) return finish(input, std::move(result));
  fill_kernel(result.device(), result, Scalar(0));
  scatter_planes_kernel(result.device(), result, input.tensor(), where, false, op);
  return finish(input, std::move(result));
}

}  // namespace

Tensor scatter_planes(const Tensor& self, const Tensor& indices, IntList output_size) {
  int64_t spatial = static_cast<int64_t>(output_size.size());
  check_indices("max_pool", self, indices);
  if (!self.is_complex()) check_dtype("max_pool", self.dtype(), true);  // complex: derivatives of unpooling
  Input input = read_input("max_pool", self, spatial, Empty::Any);
  Tensor where = as_contiguous(with_batch(indices, spatial), input.format);
  return accumulated(input, output_size, [&](const Tensor& total, const Tensor& given) {
    scatter_planes_kernel(total.device(), total, given, where, true, "max_pool");
  });
}

Tensor gather_planes(const Tensor& self, const Tensor& indices, int64_t spatial) {
  FACULA_CHECK(spatial >= 1 && spatial <= 3, ErrorKind::Runtime,
               "max_unpool: planes have one to three dimensions, got ", spatial);
  Input input = read_input("max_unpool", self, spatial, Empty::Channels);
  const size_t planes = self.sizes().size() - static_cast<size_t>(spatial);
  FACULA_CHECK(indices.dtype() == DType::Int64 && indices.dim() == self.dim() &&
                   indices.sizes().slice(0, planes) == self.sizes().slice(0, planes),
               ErrorKind::Runtime, "max_unpool: int64 indices into the planes of shape ", self.sizes(), ", got ",
               indices.dtype(), " of shape ", indices.sizes());
  Tensor where = as_contiguous(with_batch(indices, spatial), input.format);
  Tensor result = make_result(input, spatial_part(where), self.dtype());
  if (!result.is_meta()) gather_planes_kernel(result.device(), result, input.tensor(), where, "max_unpool");
  return finish(input, std::move(result));
}

Tensor max_unpool2d(const Tensor& self, const Tensor& indices, IntList output_size) {
  return unpool("max_unpool2d", self, indices, per_dimension(output_size, 2, "max_unpool2d", "output_size"));
}

Tensor max_unpool3d(const Tensor& self, const Tensor& indices, IntList output_size, IntList stride, IntList padding) {
  for (int64_t s : per_dimension(stride, 3, "max_unpool3d", "stride")) {
    FACULA_CHECK(s > 0, ErrorKind::Runtime, "max_unpool3d: stride must be positive, got ", stride);
  }
  per_dimension(padding, 3, "max_unpool3d", "padding");
  return unpool("max_unpool3d", self, indices, per_dimension(output_size, 3, "max_unpool3d", "output_size"));
}

}  // namespace facula::ops
