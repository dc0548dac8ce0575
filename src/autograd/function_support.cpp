#include "autograd/function_support.h"

#include "ops/kernel_table.h"

namespace facula {

void check_out(const char* op, uint32_t flags, std::initializer_list<const Tensor*> outs) {
  if (!GradMode::enabled()) return;
  for (const Tensor* out : outs) flags |= out->flags();
  FACULA_CHECK(!(flags & kRequiresGrad), ErrorKind::Runtime, op,
               ": out= does not support automatic differentiation, but one of the arguments requires grad");
}

void check_no_gradient(const char* op, uint32_t flags) {
  if (!recorded(flags)) return;
  throw_error(ErrorKind::NotImplemented, op, ": has no derivative, got an input that requires grad (detach() it first)");
}

void write_result(const Tensor& self, const Tensor& value, uint16_t op) {
  if (value.is_same(self)) return count_write(self, op);  // the op had nothing to change
  FACULA_CHECK(value.sizes() == self.sizes(), ErrorKind::Runtime, op_name(op), "_: the result has shape ", value.sizes(),
               " and does not fit in place into shape ", self.sizes());
  FACULA_CHECK(can_cast(value.dtype(), self.dtype()), ErrorKind::Runtime, op_name(op), "_: a result of ", value.dtype(),
               " cannot be written into ", self.dtype());
  check_no_internal_overlap(self, op_name(op));
  if (!self.is_meta()) copy_kernel(self.device(), self, value);
  count_write(self, op);
}

void assign_values(const Tensor& self, const Tensor& value, uint16_t op) {
  check_not_inference(self, op_name(op));
  if (marks_of(value) | written_marks(self)) {
    check_writable(self, op_name(op));
    assign(self, value, op);
  } else {
    write_result(self, value, op);
  }
  note_write(self);
}

}  // namespace facula
