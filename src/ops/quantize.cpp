// Shape rules of products of 8-bit integers.
#include "ops/quantize.h"

#include <limits>

#include "core/checked.h"
#include "ops/contiguous.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

/// The shape of input (..., k) times the transpose of weight (n, k).
Dims linear_shape(const char* op, const Tensor& input, const Tensor& weight) {
  FACULA_CHECK(weight.dtype() == DType::Int8, ErrorKind::Runtime, op, ": expected a weight of int8, got ",
               weight.dtype());
  FACULA_CHECK(input.dim() >= 1 && weight.dim() == 2 && input.size(-1) == weight.size(1), ErrorKind::Runtime, op,
               ": expected an input (..., k) and a weight (n, k), got shapes ", input.sizes(), " and ", weight.sizes());
  Dims shape(input.sizes());
  shape[shape.size() - 1] = weight.size(0);
  return shape;
}

/// Scales and bias of the n rows of a weight.
void check_scales(const char* op, int64_t n, const Tensor& scales, const Tensor& bias) {
  FACULA_CHECK(scales.dtype() == DType::Float32 && (!bias.defined() || bias.dtype() == DType::Float32),
               ErrorKind::Runtime, op, ": expected scales and bias of float32, got ", scales.dtype(), " and ",
               bias.defined() ? bias.dtype() : DType::Float32);
  FACULA_CHECK(scales.numel() == 1 || (scales.dim() == 1 && scales.numel() == n), ErrorKind::Runtime, op,
               ": expected one scale or ", n, ", got shape ", scales.sizes());
  FACULA_CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == n), ErrorKind::Runtime, op,
               ": expected a bias of ", n, " elements, got shape ", bias.sizes());
}

/// What kernels are given.
Int8Linear contiguous(const Tensor& result, const Tensor& input, const Tensor& weight, const Tensor& scales,
                      const Tensor& bias) {
  return {result, as_contiguous(input), as_contiguous(weight), as_contiguous(scales),
          bias.defined() ? as_contiguous(bias) : bias};
}

}  // namespace

Tensor _int8_linear(const Tensor& self, const Tensor& weight, const Out& out) {
  FACULA_CHECK(self.dtype() == DType::Int8 || self.dtype() == DType::UInt8, ErrorKind::Runtime,
               "linear: expected an input of int8 or uint8, got ", self.dtype());
  Tensor result = out.make(linear_shape("_int8_linear", self, weight), DType::Int32, self.device());
  if (!result.is_meta() && result.numel() > 0)
    int8_product_kernel(self.device(), result, as_contiguous(self), as_contiguous(weight));
  return result;
}

Tensor _int8_conv(const Tensor& self, const Tensor& weight, IntList stride, IntList dilation, int64_t groups) {
  const char* op = "_int8_conv";
  const int64_t spatial = weight.dim() - 2;
  FACULA_CHECK((self.dtype() == DType::Int8 || self.dtype() == DType::UInt8) && weight.dtype() == DType::Int8,
               ErrorKind::Runtime, op, ": expected images of int8 or uint8 and a weight of int8, got ", self.dtype(),
               " and ", weight.dtype());
  FACULA_CHECK(spatial >= 1 && spatial <= 3 && self.dim() == weight.dim() && groups > 0 &&
                   weight.size(0) % groups == 0 && self.size(1) % groups == 0 &&
                   self.size(1) / groups == weight.size(1),
               ErrorKind::Runtime, op, ": expected images (N, C, ...) and a weight (M, C / groups, ...), got shapes ",
               self.sizes(), " and ", weight.sizes(), " with groups=", groups);
  ConvGeometry geometry{per_dimension(stride, spatial, op, "stride"), Dims(static_cast<size_t>(spatial), 0),
                        per_dimension(dilation, spatial, op, "dilation"), groups};
  Dims sizes{self.size(0), weight.size(0)};
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t step = geometry.stride[d], spread = geometry.dilation[d], kernel = weight.size(2 + d);
    FACULA_CHECK(step > 0 && step <= most && spread > 0 && spread <= most, ErrorKind::Runtime, op,
                 ": expected strides and dilations from 1 to ", most, ", got ", stride, " and ", dilation);
    const int64_t reach = (Checked(kernel - 1) * spread).get(op, "the window", kernel, " times dilation");
    FACULA_CHECK(kernel > 0 && reach < self.size(2 + d), ErrorKind::Runtime, op,
                 ": expected windows within the images, got images of shape ", self.sizes(), " and a weight of shape ",
                 weight.sizes());
    sizes.push_back((self.size(2 + d) - reach - 1) / step + 1);
  }
  Tensor result = facula::empty(sizes, DType::Int32, self.device());
  if (result.is_meta() || result.numel() == 0) return result;
  int8_convolution_kernel(self.device(), result, as_contiguous(self), as_contiguous(weight), geometry);
  return result;
}

Tensor _dynamic_int8_linear(const Tensor& self, const Tensor& weight, const Tensor& scales, const Tensor& bias,
                            bool reduce_range, const Out& out) {
  const char* op = "quantized.linear_dynamic";
  const Dims shape = linear_shape(op, self, weight);
  FACULA_CHECK(self.dtype() == DType::Float32, ErrorKind::Runtime, op, ": expected an input of float32, got ",
               self.dtype());
  check_scales(op, weight.size(0), scales, bias);
  Tensor result = out.make(shape, DType::Float32, self.device());
  if (!result.is_meta() && result.numel() > 0)
    dynamic_int8_linear_kernel(self.device(),
                               DynamicInt8Linear{contiguous(result, self, weight, scales, bias), reduce_range});
  return result;
}

Tensor _weight_int8_linear(const Tensor& self, const Tensor& weight, const Tensor& scales) {
  const char* op = "_weight_int8_linear";
  const Dims shape = linear_shape(op, self, weight);
  FACULA_CHECK(self.dtype() == DType::Float32 && scales.numel() == weight.size(0), ErrorKind::Runtime, op,
               ": expected an input of float32 and a scale for each row of the weight, got ", self.dtype(), " and ",
               scales.sizes());
  check_scales(op, weight.size(0), scales, Tensor());
  const Tensor result = facula::empty(shape, DType::Float32, self.device());
  if (!result.is_meta() && result.numel() > 0)
    weight_int8_linear_kernel(self.device(), result, as_contiguous(self), as_contiguous(weight), as_contiguous(scales));
  return result;
}

Tensor _static_int8_linear(const Tensor& self, int64_t zero_point, const Tensor& weight, const Tensor& scales,
                           const Tensor& bias, double scale, int64_t output_zero_point, int64_t lowest,
                           const Out& out) {
  const char* op = "quantized.linear";
  FACULA_CHECK(self.dtype() == DType::Int8 || self.dtype() == DType::UInt8, ErrorKind::Runtime, op,
               ": expected an input of int8 or uint8, got ", self.dtype());
  const Dims shape = linear_shape(op, self, weight);
  check_scales(op, weight.size(0), scales, bias);
  const int64_t least = self.dtype() == DType::Int8 ? -128 : 0;
  for (int64_t level : {zero_point, output_zero_point, lowest}) {
    FACULA_CHECK(level >= least && level <= least + 255, ErrorKind::Runtime, op, ": expected levels from ", least,
                 " to ", least + 255, ", got ", level);
  }
  Tensor result = out.make(shape, self.dtype(), self.device());
  if (!result.is_meta() && result.numel() > 0)
    static_int8_linear_kernel(
        self.device(),
        StaticInt8Linear{contiguous(result, self, weight, scales, bias), static_cast<int32_t>(zero_point),
                         static_cast<int32_t>(output_zero_point), static_cast<int32_t>(lowest), scale});
  return result;
}

}  // namespace facula::ops
