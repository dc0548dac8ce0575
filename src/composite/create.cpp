// Copies written with ops.
#include "autograd/function_support.h"
#include "functions.h"
#include "op_ids_create.h"
#include "ops/kernel_table.h"

namespace facula {

Tensor contiguous(const Tensor& self, MemoryFormat format) {
  if (format == MemoryFormat::Preserve) format = MemoryFormat::Contiguous;
  return self.is_contiguous(format) && !self.is_conj() ? self : clone(self, format);
}

const Tensor& copy_(const Tensor& self, const Tensor& src, bool) {
  FACULA_CHECK(broadcasts_to(src.sizes(), self.sizes()), ErrorKind::Runtime, "copy_: the source must broadcast to shape ",
               self.sizes(), ", got ", src.sizes());
  check_no_internal_overlap(self, "copy_");
  uint16_t id = op_id::copy_;
  bool history = GradMode::enabled() && (src.requires_grad() || self.requires_grad() || base_requires_grad(self));
  if (history && is_inexact(self.dtype())) {
    check_writable(self, "copy_");
    assign(self, src.dtype() == self.dtype() ? src : to_dtype(src.is_complex() && !self.is_complex() ? real(src) : src, self.dtype()), id);
  } else {
    if (!self.is_meta() && !src.is_meta()) copy_kernel(self.device(), self, src);
    self.storage()->bump_version(id);
  }
  return self;
}

Tensor resolve_conj(const Tensor& self) { return self.is_conj() ? clone(self) : self; }

}  // namespace facula
