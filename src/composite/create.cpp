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
  check_not_inference(self, "copy_");
  if (is_inexact(self.dtype()) && (marks_of(src) | written_marks(self))) {
    check_writable(self, "copy_");
    assign(self, src.is_complex() && !self.is_complex() ? real(src) : src, id);
  } else {
    if (!self.is_meta() && !src.is_meta()) copy_kernel(self.device(), self, src);
    self.storage()->bump_version(id);
  }
  note_write(self);
  return self;
}

// clone() calls this for conjugated tensors, so it must not call clone().
Tensor resolve_conj(const Tensor& self) { return self.is_conj() ? conj_physical(conj(self)) : self; }

}  // namespace facula
