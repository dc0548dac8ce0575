// Values that stand on levels, and products of them, written with ops.
#include "core/error.h"
#include "functions.h"

namespace facula {
namespace {

void check_levels(const char* op, int64_t low, int64_t high) {
  FACULA_CHECK(low <= high, ErrorKind::Runtime, op, ": quant_min must not exceed quant_max, got ", low, " and ", high);
}

/// Numbers of tensors that describe levels, in the dtype in which they meet the values.
Tensor beside(const Tensor& parameter, const Tensor& self) { return to_dtype(parameter, compute_dtype(self.dtype())); }

Tensor fake_quantized(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t low, int64_t high) {
  const Tensor result = _fake_quantize(to_dtype(self, compute_dtype(self.dtype())), beside(scale, self),
                                       beside(zero_point, self), static_cast<double>(low), static_cast<double>(high));
  return result.dtype() == self.dtype() ? result : to_dtype(result, self.dtype());
}

/// A tensor of n elements as one that is broadcast along `axis` of a tensor of `dims` dimensions.
Tensor along(const Tensor& values, int64_t axis, int64_t dims) {
  Dims shape;
  for (int64_t i = 0; i < dims; ++i) shape.push_back(i == axis ? values.numel() : 1);
  return view(values, shape);
}

/// Whether a scale has one element, or one for each of `n` rows (columns) of a matrix product.
bool fits(const Tensor& scale, int64_t rows, int64_t columns) {
  return scale.numel() == 1 || (scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == columns);
}

}  // namespace

Tensor _int_mm(const Tensor& self, const Tensor& mat2) {
  FACULA_CHECK(self.dtype() == DType::Int8 && mat2.dtype() == DType::Int8, ErrorKind::Runtime,
               "_int_mm: expected matrices of int8, got ", self.dtype(), " and ", mat2.dtype());
  FACULA_CHECK(self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(0), ErrorKind::Runtime,
               "_int_mm: expected matrices (m, k) and (k, n), got shapes ", self.sizes(), " and ", mat2.sizes());
  return _int8_linear(self, t(mat2));
}

Tensor fake_quantize_per_tensor_affine(const Tensor& self, double scale, int64_t zero_point, int64_t quant_min,
                                       int64_t quant_max) {
  const char* op = "fake_quantize_per_tensor_affine";
  check_levels(op, quant_min, quant_max);
  FACULA_CHECK(zero_point >= quant_min && zero_point <= quant_max, ErrorKind::Runtime, op,
               ": expected zero_point to be between quant_min and quant_max, got ", zero_point, " with ", quant_min,
               " and ", quant_max);
  return fake_quantized(self, scalar_tensor(scale, DType::Float64, self.device()),
                        scalar_tensor(zero_point, DType::Int64, self.device()), quant_min, quant_max);
}

Tensor fake_quantize_per_tensor_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                                       int64_t quant_min, int64_t quant_max) {
  const char* op = "fake_quantize_per_tensor_affine";
  check_levels(op, quant_min, quant_max);
  FACULA_CHECK(scale.numel() == 1 && zero_point.numel() == 1, ErrorKind::Runtime, op,
               ": expected scale and zero_point of one element, got shapes ", scale.sizes(), " and ",
               zero_point.sizes());
  return fake_quantized(self, view(scale, IntList{}), view(zero_point, IntList{}), quant_min, quant_max);
}

Tensor fake_quantize_per_channel_affine(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
                                        int64_t quant_min, int64_t quant_max) {
  const char* op = "fake_quantize_per_channel_affine";
  check_levels(op, quant_min, quant_max);
  FACULA_CHECK(axis >= 0 && axis < self.dim(), ErrorKind::Runtime, op, ": expected axis to be between 0 and ",
               self.dim() - 1, ", got ", axis);
  FACULA_CHECK(scale.dim() == 1 && zero_point.dim() == 1 && scale.numel() == self.size(axis) &&
                   zero_point.numel() == self.size(axis),
               ErrorKind::Runtime, op, ": expected scale and zero_point of ", self.size(axis), " elements, got shapes ",
               scale.sizes(), " and ", zero_point.sizes());
  return fake_quantized(self, along(scale, axis, self.dim()), along(zero_point, axis, self.dim()), quant_min,
                        quant_max);
}

Tensor _weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  const char* op = "_weight_int8pack_mm";
  FACULA_CHECK(is_floating(self.dtype()) && mat2.dtype() == DType::Int8, ErrorKind::Runtime, op,
               ": expected a floating-point matrix and one of int8, got ", self.dtype(), " and ", mat2.dtype());
  FACULA_CHECK(self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(1) && scales.dim() == 1 &&
                   scales.size(0) == mat2.size(0),
               ErrorKind::Runtime, op, ": expected matrices (m, k) and (n, k) and n scales, got shapes ", self.sizes(),
               ", ", mat2.sizes(), " and ", scales.sizes());
  constexpr int64_t kFewRows = 16;  // more of them repay a weight that is converted first
  const uint32_t recorded = (self.flags() | scales.flags()) & (GradMode::enabled() ? kRequiresGrad | kDual : kDual);
  const bool narrow = self.dtype() != DType::Float64 && !is_float8(self.dtype());
  if (self.size(0) <= kFewRows && self.device().is_cpu() && narrow && !recorded)
    return to_dtype(_weight_int8_linear(to_dtype(self, DType::Float32), mat2, to_dtype(scales, DType::Float32)),
                    self.dtype());
  return mm(self, t(to_dtype(mat2, self.dtype()))) * to_dtype(scales, self.dtype());
}

Tensor _scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                  const Tensor& bias, const Tensor& scale_result, std::optional<DType> out_dtype, bool) {
  const char* op = "_scaled_mm";
  FACULA_CHECK(is_float8(self.dtype()) && is_float8(mat2.dtype()), ErrorKind::Runtime, op,
               ": expected matrices of float8, got ", self.dtype(), " and ", mat2.dtype());
  FACULA_CHECK(self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(0), ErrorKind::Runtime, op,
               ": expected matrices (m, k) and (k, n), got shapes ", self.sizes(), " and ", mat2.sizes());
  FACULA_CHECK(scale_a.dtype() == DType::Float32 && scale_b.dtype() == DType::Float32, ErrorKind::Runtime, op,
               ": expected scales of float32, got ", scale_a.dtype(), " and ", scale_b.dtype());
  FACULA_CHECK(fits(scale_a, self.size(0), 1) && fits(scale_b, 1, mat2.size(1)), ErrorKind::Runtime, op,
               ": expected scales of one element, or (m, 1) and (1, n), got shapes ", scale_a.sizes(), " and ",
               scale_b.sizes());
  const DType dtype = out_dtype.value_or(self.dtype());
  FACULA_CHECK(is_floating(dtype), ErrorKind::Runtime, op, ": expected a floating-point out_dtype, got ", dtype);
  Tensor result = mm(to_dtype(self, DType::Float32), to_dtype(mat2, DType::Float32)) * scale_a * scale_b;
  if (bias.defined()) {
    FACULA_CHECK(bias.numel() == mat2.size(1), ErrorKind::Runtime, op, ": expected a bias of ", mat2.size(1),
                 " elements, got shape ", bias.sizes());
    result = result + to_dtype(bias, DType::Float32);
  }
  if (scale_result.defined() && is_float8(dtype)) result = result * scale_result;
  return to_dtype(result, dtype);
}

}  // namespace facula
