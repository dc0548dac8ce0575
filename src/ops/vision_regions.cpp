// Shapes and checks of what is read from regions of images.
#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/vision.h"
#include "raw_vision.h"

namespace facula::ops {
namespace {

using Rule = RegionBins::Rule;
constexpr int64_t kMostPixels = int64_t{1} << 30;   // of a side
constexpr int64_t kMostSamples = int64_t{1} << 16;  // of a bin, along a side

void check_regions(const RegionBins& bins, const Tensor& images, const Tensor& rois) {
  const char* op = bins.op;
  FACULA_CHECK(images.device() == rois.device(), ErrorKind::Runtime, op,
               ": input and rois must be on the same device, got ", images.device(), " and ", rois.device());
  FACULA_CHECK(rois.dim() == 2 && rois.size(1) == 5, ErrorKind::Runtime, op, ": rois must have shape [K, 5], got ",
               rois.sizes());
  FACULA_CHECK(images.dtype() == rois.dtype(), ErrorKind::Runtime, op, ": input and rois must have one dtype, got ",
               images.dtype(), " and ", rois.dtype());
  FACULA_CHECK(is_floating(images.dtype()) && !is_float8(images.dtype()), ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", images.dtype());
  FACULA_CHECK(bins.rows >= 0 && bins.columns >= 0, ErrorKind::Runtime, op,
               ": pooled_height and pooled_width must not be negative, got ", bins.rows, " and ", bins.columns);
  (Checked(bins.rows) * bins.columns).get(op, "the number of bins", bins.rows, " by ", bins.columns);
  FACULA_CHECK(bins.sampling <= kMostSamples, ErrorKind::Runtime, op, ": sampling_ratio must be at most ", kMostSamples,
               ", got ", bins.sampling);
}

void check_images(const RegionBins& bins, IntList sizes, const Tensor& rois) {
  FACULA_CHECK(sizes.size() == 4, ErrorKind::Runtime, bins.op, ": input must be (N, C, H, W), got shape ", sizes);
  for (int64_t size : sizes)
    FACULA_CHECK(size >= 0, ErrorKind::Runtime, bins.op, ": sizes must not be negative, got ", sizes);
  const bool seen = rois.size(0) && bins.count();
  FACULA_CHECK(!seen || (sizes[2] > 0 && sizes[3] > 0), ErrorKind::Runtime, bins.op,
               ": images must have pixels where there are regions, got shape ", sizes);
  FACULA_CHECK(sizes[2] <= kMostPixels && sizes[3] <= kMostPixels, ErrorKind::Runtime, bins.op,
               ": images must be at most ", kMostPixels, " pixels high and wide, got shape ", sizes);
}

int64_t channels_of_result(const RegionBins& bins, int64_t channels) {
  if (!bins.by_place()) return channels;
  const int64_t count = bins.count();
  FACULA_CHECK(count > 0 && channels % count == 0, ErrorKind::Runtime, bins.op,
               ": the number of input channels must be a multiple of pooled_height=", bins.rows,
               " times pooled_width=", bins.columns, ", got ", channels);
  return channels / count;
}

Dims result_sizes(const RegionBins& bins, IntList images, const Tensor& rois) {
  return Dims{rois.size(0), channels_of_result(bins, images[1]), bins.rows, bins.columns};
}

// Channels side by side are read as vectors, which pays for turning images of many channels where many bins are read.
bool reads_channels(const RegionBins& bins, IntList images, const Tensor& rois) {
  constexpr int64_t kManyChannels = 8, kReads = 4;
  if (bins.rule != Rule::Align && bins.rule != Rule::AlignShifted) return false;
  const int64_t reads = (Checked(kReads) * bins.count() * rois.size(0)).value_or(INT64_MAX);
  return images[1] >= kManyChannels && reads >= product_of({images[0], images[2], images[3]}).value_or(INT64_MAX);
}

Tensor widened(const Tensor& t, MemoryFormat format = MemoryFormat::Contiguous) {
  return as_contiguous(t, format, compute_dtype(t.dtype()));
}

Tensor narrowed(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : contiguous_copy(t, t.sizes(), dtype); }

Tensor means(const RegionBins& bins, const Tensor& input, const Tensor& rois) {
  check_regions(bins, input, rois);
  check_images(bins, input.sizes(), rois);
  const Dims sizes = result_sizes(bins, input.sizes(), rois);
  if (input.is_meta()) return facula::empty(sizes, input.dtype(), input.device());
  Tensor result = facula::empty(sizes, compute_dtype(input.dtype()), input.device());
  if (result.numel()) {
    const bool align = bins.rule == Rule::Align || bins.rule == Rule::AlignShifted;
    MemoryFormat format = align ? input.suggest_memory_format() : MemoryFormat::Contiguous;
    if (reads_channels(bins, input.sizes(), rois)) format = MemoryFormat::ChannelsLast;
    region_means_kernel(input.device(), result, widened(input, format), widened(rois), bins);
  }
  return narrowed(result, input.dtype());
}

void check_gradient(const RegionBins& bins, const Tensor& gradient, const Tensor& rois, IntList sizes) {
  check_regions(bins, gradient, rois);
  check_images(bins, sizes, rois);
  const Dims expected = result_sizes(bins, sizes, rois);
  FACULA_CHECK(gradient.sizes() == IntList(expected), ErrorKind::Runtime, bins.op,
               ": the gradient of the result must have shape ", expected, ", got ", gradient.sizes());
}

// Zeros, which the program sees with plain strides.
Tensor zero_images(const Tensor& gradient, IntList sizes, MemoryFormat format, const char* op) {
  const DType dtype = compute_dtype(gradient.dtype());
  Tensor made = empty_in(format, sizes, dtype, gradient.device(), op);
  if (made.numel()) fill_kernel(made.device(), made, Scalar(0));
  return made;
}

Tensor means_gradient(const RegionBins& bins, const Tensor& gradient, const Tensor& rois, IntList sizes) {
  check_gradient(bins, gradient, rois, sizes);
  if (gradient.is_meta()) return facula::empty(sizes, gradient.dtype(), gradient.device());
  const bool by_channels = reads_channels(bins, sizes, rois);
  Tensor result =
      zero_images(gradient, sizes, by_channels ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous, bins.op);
  if (gradient.numel() && result.numel())
    region_means_gradient_kernel(gradient.device(), result, widened(gradient), widened(rois), bins);
  const bool special = (gradient.flags() & (kBatched | kDual)) || (thread_state.modes & kModeVmap);
  if (!by_channels || special) return narrowed(as_contiguous(result), gradient.dtype());
  if (gradient.dtype() != result.dtype()) return narrowed(result, gradient.dtype());
  keep_private(result);
  return result;
}

Tensor channels_read(const RegionBins& bins, const Tensor& result) {
  Tensor channels = facula::empty(result.sizes(), DType::Int32, result.device());
  FACULA_CHECK(bins.count() <= INT32_MAX && channels_of_result(bins, bins.count()) == 1 &&
                   (result.size(1) == 0 || bins.count() <= INT32_MAX / result.size(1)),
               ErrorKind::Runtime, bins.op, ": input channels must be at most ", INT32_MAX, ", got a result of shape ",
               result.sizes());
  if (!channels.is_meta() && channels.numel()) region_channels_kernel(channels.device(), channels);
  return channels;
}

RegionBins bins_of(const char* op, Rule rule, double scale, int64_t rows, int64_t columns, int64_t sampling = 0) {
  return {rule, scale, rows, columns, sampling, op};
}

}  // namespace

Tensor roi_align(const Tensor& input, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                 int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  return means(bins_of("roi_align", aligned ? Rule::AlignShifted : Rule::Align, spatial_scale, pooled_height,
                       pooled_width, sampling_ratio),
               input, rois);
}

Tensor roi_align_backward(const Tensor& self, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                          int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                          int64_t sampling_ratio, bool aligned) {
  return means_gradient(bins_of("roi_align", aligned ? Rule::AlignShifted : Rule::Align, spatial_scale, pooled_height,
                                pooled_width, sampling_ratio),
                        self, rois, {batch_size, channels, height, width});
}

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double spatial_scale,
                                        int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio) {
  const RegionBins bins =
      bins_of("ps_roi_align", Rule::AlignByPlace, spatial_scale, pooled_height, pooled_width, sampling_ratio);
  Tensor result = means(bins, input, rois);
  return {result, channels_read(bins, result)};
}

Tensor ps_roi_align_backward(const Tensor& self, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                             int64_t pooled_width, int64_t sampling_ratio, int64_t batch_size, int64_t channels,
                             int64_t height, int64_t width) {
  return means_gradient(
      bins_of("ps_roi_align", Rule::AlignByPlace, spatial_scale, pooled_height, pooled_width, sampling_ratio), self,
      rois, {batch_size, channels, height, width});
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                       int64_t pooled_height, int64_t pooled_width) {
  const RegionBins bins = bins_of("ps_roi_pool", Rule::MeanByPlace, spatial_scale, pooled_height, pooled_width);
  Tensor result = means(bins, input, rois);
  return {result, channels_read(bins, result)};
}

Tensor ps_roi_pool_backward(const Tensor& self, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                            int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  return means_gradient(bins_of("ps_roi_pool", Rule::MeanByPlace, spatial_scale, pooled_height, pooled_width), self,
                        rois, {batch_size, channels, height, width});
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                    int64_t pooled_height, int64_t pooled_width) {
  const RegionBins bins = bins_of("roi_pool", Rule::Maximum, spatial_scale, pooled_height, pooled_width);
  check_regions(bins, input, rois);
  check_images(bins, input.sizes(), rois);
  FACULA_CHECK((Checked(input.size(2)) * input.size(3)).value_or(INT64_MAX) <= INT32_MAX, ErrorKind::Runtime, bins.op,
               ": images must have at most ", INT32_MAX, " pixels, got shape ", input.sizes());
  const Dims sizes = result_sizes(bins, input.sizes(), rois);
  Tensor argmax = facula::empty(sizes, DType::Int32, input.device());
  if (input.is_meta()) return {facula::empty(sizes, input.dtype(), input.device()), argmax};
  Tensor result = facula::empty(sizes, compute_dtype(input.dtype()), input.device());
  if (result.numel()) region_maxima_kernel(input.device(), result, argmax, widened(input), widened(rois), bins);
  return {narrowed(result, input.dtype()), argmax};
}

Tensor roi_pool_backward(const Tensor& self, const Tensor& rois, const Tensor& argmax, double spatial_scale,
                         int64_t pooled_height, int64_t pooled_width, int64_t batch_size, int64_t channels,
                         int64_t height, int64_t width) {
  const RegionBins bins = bins_of("roi_pool", Rule::Maximum, spatial_scale, pooled_height, pooled_width);
  const Dims sizes{batch_size, channels, height, width};
  check_gradient(bins, self, rois, sizes);
  FACULA_CHECK(argmax.sizes() == self.sizes() && argmax.dtype() == DType::Int32 && argmax.device() == self.device(),
               ErrorKind::Runtime, bins.op, ": argmax must be int32 of shape ", self.sizes(), ", got ", argmax.dtype(),
               " of shape ", argmax.sizes());
  if (self.is_meta()) return facula::empty(sizes, self.dtype(), self.device());
  Tensor result = zero_images(self, sizes, MemoryFormat::Contiguous, bins.op);
  if (self.numel() && result.numel())
    region_maxima_gradient_kernel(self.device(), result, widened(self), as_contiguous(argmax), widened(rois), bins);
  return narrowed(result, self.dtype());
}

}  // namespace facula::ops
