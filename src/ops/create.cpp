// Factories, copies and dtype conversion.
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/number.h"
#include "ops/contiguous.h"
#include "ops/deterministic.h"
#include "ops/pinned.h"
#include "raw_create.h"

namespace facula::ops {
namespace {

void fill_all(const Tensor& self, const Scalar& value) {
  require_value(value, self.dtype(), "fill");
  if (self.is_meta() || self.numel() == 0) return;
  // places that elements share are written once
  Dims sizes(self.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (self.strides()[d] == 0) sizes[d] = 1;
  fill_kernel(self.device(), make_view(self, sizes, self.strides(), 0, false), value);
}

/// A dtype that the caller names is that of out=, if there is one.
void check_named(const char* op, std::optional<DType> dtype, const Out& out) {
  FACULA_CHECK(!out.given() || !dtype || *dtype == out.tensor().dtype(), ErrorKind::Runtime, op, ": dtype is ", *dtype,
               ", got out= of ", out.tensor().dtype());
}

// Zero is all bits zero in every dtype; `self` is dense.
void set_zero(const Tensor& self) {
  if (self.is_cpu()) std::memset(self.impl()->data, 0, static_cast<size_t>(self.numel() * self.item_size()));
  else if (!self.is_meta()) fill_kernel(self.device(), self, Scalar(0));
}

Tensor like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
            std::optional<Device> device) {
  DType d = dtype.value_or(self.dtype());
  Device where = device.value_or(self.device());
  MemoryFormat order = format.value_or(MemoryFormat::Preserve);
  if (order == MemoryFormat::Preserve && where == self.device()) return facula::empty_like(self, d);
  Dims strides = order == MemoryFormat::Preserve ? preserved_strides(self.sizes(), self.strides())
                                                 : strides_of(self.sizes(), order, "empty_like");
  return facula::empty_strided(self.sizes(), strides, d, where);
}

}  // namespace

Tensor empty(IntList size, std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device,
             const Out& out) {
  check_named("empty", dtype, out);
  DType d = dtype.value_or(out.dtype_or(default_dtype()));
  if (out.given()) return fill_new(out.make(size, d, device.value_or(out.device_or(kCPU))));
  MemoryFormat order = format.value_or(MemoryFormat::Contiguous);
  if (order == MemoryFormat::Contiguous) return fill_new(facula::empty(size, d, device.value_or(kCPU)));
  return fill_new(facula::empty_strided(size, strides_of(size, order, "empty"), d, device.value_or(kCPU)));
}

Tensor full(IntList size, const Scalar& value, std::optional<DType> dtype, std::optional<Device> device,
            const Out& out) {
  check_named("full", dtype, out);
  // complex numbers are complex64 where numbers are of half precision
  const DType own = value.dtype() == DType::Complex32 ? DType::Complex64 : value.dtype();
  const DType made = dtype.value_or(out.dtype_or(own));
  require_value(value, made, "fill");
  Tensor t = out.make(size, made, device.value_or(out.device_or(kCPU)));
  fill_all(t, value);
  return t;
}

Tensor zeros(IntList size, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  check_named("zeros", dtype, out);
  Tensor t = out.make(size, dtype.value_or(out.dtype_or(default_dtype())), device.value_or(out.device_or(kCPU)));
  set_zero(t);
  return t;
}

Tensor ones(IntList size, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  check_named("ones", dtype, out);
  return full(size, Scalar(1), dtype.value_or(out.dtype_or(default_dtype())), device, out);
}

Tensor ones_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
                 std::optional<Device> device) {
  Tensor t = like(self, format, dtype, device);
  fill_all(t, Scalar(1));
  return t;
}

Tensor zeros_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
                  std::optional<Device> device) {
  Tensor t = like(self, format, dtype, device);
  set_zero(t);
  return t;
}

Tensor empty_like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
                  std::optional<Device> device) {
  return fill_new(like(self, format, dtype, device));
}

Tensor full_like(const Tensor& self, const Scalar& value, std::optional<MemoryFormat> format,
                 std::optional<DType> dtype, std::optional<Device> device) {
  Tensor t = like(self, format, dtype, device);
  fill_all(t, value);
  return t;
}

Tensor empty_strided(IntList size, IntList stride, std::optional<DType> dtype, std::optional<Device> device) {
  FACULA_CHECK(size.size() == stride.size(), ErrorKind::Runtime, "empty_strided: as many strides as sizes, got ", size,
               " and ", stride);
  return fill_new(facula::empty_strided(size, stride, dtype.value_or(default_dtype()), device.value_or(kCPU)));
}

Tensor empty_permuted(IntList size, IntList physical_layout, std::optional<DType> dtype, std::optional<Device> device) {
  size_t n = size.size();
  FACULA_CHECK(physical_layout.size() == n, ErrorKind::Runtime,
               "empty_permuted: as many entries of physical_layout as sizes, got ", size, " and ", physical_layout);
  Dims strides(n), seen(n);
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    int64_t d = physical_layout[i];
    FACULA_CHECK(d >= 0 && d < static_cast<int64_t>(n) && !seen[d], ErrorKind::Runtime,
                 "empty_permuted: physical_layout must hold every dimension once, got ", physical_layout);
    seen[d] = 1;
    strides[d] = step;
    step = wrapping_mul(step, std::max<int64_t>(size[d], 1));
  }
  return fill_new(facula::empty_strided(size, strides, dtype.value_or(default_dtype()), device.value_or(kCPU)));
}

Tensor new_empty(const Tensor& self, IntList size, std::optional<DType> dtype, std::optional<Device> device) {
  return fill_new(facula::empty(size, dtype.value_or(self.dtype()), device.value_or(self.device())));
}

Tensor new_empty_strided(const Tensor& self, IntList size, IntList stride, std::optional<DType> dtype,
                         std::optional<Device> device) {
  return ops::empty_strided(size, stride, std::optional<DType>(dtype.value_or(self.dtype())),
                            std::optional<Device>(device.value_or(self.device())));
}

Tensor new_full(const Tensor& self, IntList size, const Scalar& value, std::optional<DType> dtype,
                std::optional<Device> device) {
  return full(size, value, dtype.value_or(self.dtype()), device.value_or(self.device()));
}

Tensor new_ones(const Tensor& self, IntList size, std::optional<DType> dtype, std::optional<Device> device) {
  return new_full(self, size, Scalar(1), dtype, device);
}

Tensor new_zeros(const Tensor& self, IntList size, std::optional<DType> dtype, std::optional<Device> device) {
  return zeros(size, dtype.value_or(self.dtype()), device.value_or(self.device()));
}

Tensor scalar_tensor(const Scalar& s, std::optional<DType> dtype, std::optional<Device> device) {
  return full({}, s, dtype.value_or(default_dtype()), device);
}

Tensor fill(const Tensor& self, const Scalar& value) {
  Tensor t = facula::empty_like(self, self.dtype());
  fill_all(t, value);
  return t;
}

Tensor fill(const Tensor& self, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, ErrorKind::Runtime, "fill: value must be a number or a 0-d tensor, got shape ",
               value.sizes());
  Tensor t = facula::empty_like(self, self.dtype());
  copy_elements(t, value);
  return t;
}

Tensor fill_(const Tensor& self, const Scalar& value) {
  fill_all(self, value);
  return self;
}

Tensor zero_(const Tensor& self) { return fill_(self, Scalar(0)); }

namespace {

void check_resizable(const Tensor& self, const char* op) {
  FACULA_CHECK(!self.requires_grad() || (thread_state.modes & kModeInference), ErrorKind::Runtime, op,
               ": a tensor that requires grad cannot be resized, got shape ", self.sizes());
}

void resize_to(const Tensor& self, IntList size, IntList strides) {
  const size_t before = self.storage()->nbytes;
  resize_tensor(self, size, strides);
  fill_grown(self, before);
}

}  // namespace

Tensor resize_(const Tensor& self, IntList size, std::optional<MemoryFormat> format) {
  check_resizable(self, "resize_");
  MemoryFormat order = format.value_or(MemoryFormat::Contiguous);
  FACULA_CHECK(order != MemoryFormat::Preserve, ErrorKind::Runtime, "resize_: memory_format must name an order, got ",
               order);
  if (self.sizes() != size || format) resize_to(self, size, strides_of(size, order, "resize_"));
  return self;
}

Tensor resize_as_(const Tensor& self, const Tensor& the_template, std::optional<MemoryFormat> format) {
  check_resizable(self, "resize_as_");
  MemoryFormat order = format.value_or(MemoryFormat::Contiguous);
  if (order == MemoryFormat::Preserve) order = the_template.suggest_memory_format();
  if (self.sizes() != the_template.sizes() || format)
    resize_to(self, the_template.sizes(), strides_of(the_template.sizes(), order, "resize_as_"));
  return self;
}

Tensor clone(const Tensor& self, std::optional<MemoryFormat> format) {
  Tensor t = like(self, format, std::nullopt, std::nullopt);
  copy_elements(t, self);
  return t;
}

Tensor to_dtype(const Tensor& self, DType dtype) {
  if (self.dtype() == dtype) return self;
  if (self.numel()) warn_of_lost_parts(self.dtype(), dtype);
  Tensor t = facula::empty_like(self, dtype);
  copy_elements(t, self);
  return t;
}

Tensor _to_device(const Tensor& self, std::optional<Device> device, DType dtype) {
  const Device there = device.value_or(self.device());
  check_has_values(self, there, "to");
  if (self.numel()) warn_of_lost_parts(self.dtype(), dtype);
  const Dims strides = preserved_strides(self.sizes(), self.strides());
  // a copy to the host that need not wait is made where the device can write by itself
  const bool pinned = non_blocking_copies && there.is_cpu() && self.device().is_cuda();
  Tensor t =
      pinned ? pinned_empty(self.sizes(), strides, dtype) : facula::empty_strided(self.sizes(), strides, dtype, there);
  copy_elements(t, self);
  return t;
}

Tensor copy(const Tensor& self, const Tensor& src) {
  FACULA_CHECK(broadcasts_to(src.sizes(), self.sizes()), ErrorKind::Runtime,
               "copy_: the source must broadcast to shape ", self.sizes(), ", got ", src.sizes());
  check_has_values(src, self.device(), "copy_");
  Tensor t = facula::empty_like(self, self.dtype());
  copy_elements(t, src);
  return t;
}

}  // namespace facula::ops
