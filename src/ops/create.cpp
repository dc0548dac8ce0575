// Factories, copies and dtype conversion.
#include <cstring>

#include "raw_ops.h"

namespace facula::ops {
namespace {

void fill(const Tensor& self, const Scalar& value) {
  if (self.is_meta() || self.numel() == 0) return;
  Tensor one = scalar_tensor(value, self.dtype());
  copy_kernel(self.device(), self, one);
}

Tensor like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device) {
  DType d = dtype.value_or(self.dtype());
  Device where = device.value_or(self.device());
  MemoryFormat order = format.value_or(MemoryFormat::Preserve);
  Dims strides = order == MemoryFormat::Preserve ? preserved_strides(self.sizes(), self.strides())
                                                 : strides_of(self.sizes(), order, "empty_like");
  return facula::empty_strided(self.sizes(), strides, d, where);
}

}  // namespace

Tensor empty(IntList size, std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  DType d = dtype.value_or(default_dtype());
  if (out.given()) return out.make(size, d, device.value_or(kCPU));
  MemoryFormat order = format.value_or(MemoryFormat::Contiguous);
  if (order == MemoryFormat::Contiguous) return facula::empty(size, d, device.value_or(kCPU));
  return facula::empty_strided(size, strides_of(size, order, "empty"), d, device.value_or(kCPU));
}

Tensor full(IntList size, const Scalar& value, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  Tensor t = out.make(size, dtype.value_or(value.dtype()), device.value_or(kCPU));
  fill(t, value);
  return t;
}

Tensor zeros(IntList size, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  Tensor t = out.make(size, dtype.value_or(default_dtype()), device.value_or(kCPU));
  if (!t.is_meta()) std::memset(t.impl()->data, 0, static_cast<size_t>(t.numel() * t.item_size()));
  return t;
}

Tensor ones(IntList size, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  return full(size, Scalar(1), dtype.value_or(default_dtype()), device, out);
}

Tensor ones_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device) {
  Tensor t = like(self, format, dtype, device);
  fill(t, Scalar(1));
  return t;
}

Tensor zeros_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device) {
  Tensor t = like(self, format, dtype, device);
  if (!t.is_meta()) std::memset(t.impl()->data, 0, static_cast<size_t>(t.numel() * t.item_size()));
  return t;
}

Tensor fill_(const Tensor& self, const Scalar& value) {
  check_no_internal_overlap(self, "fill_");
  fill(self, value);
  return self;
}

Tensor zero_(const Tensor& self) { return fill_(self, Scalar(0)); }

Tensor clone(const Tensor& self, std::optional<MemoryFormat> format) {
  Tensor t = like(self, format, std::nullopt, std::nullopt);
  if (!t.is_meta()) copy_kernel(self.device(), t, self);
  return t;
}

Tensor to_dtype(const Tensor& self, DType dtype) {
  if (self.dtype() == dtype) return self;
  Tensor t = facula::empty_like(self, dtype);
  if (!t.is_meta()) copy_kernel(self.device(), t, self);
  return t;
}

Tensor copy(const Tensor& self, const Tensor& src) {
  FACULA_CHECK(broadcasts_to(src.sizes(), self.sizes()), ErrorKind::Runtime, "copy_: the source must broadcast to shape ", self.sizes(), ", got ", src.sizes());
  Tensor t = facula::empty_like(self, self.dtype());
  if (!t.is_meta()) copy_kernel(self.device(), t, src);
  return t;
}

}  // namespace facula::ops
