// Ops on truth values: nonzero and the masked_* family.
#include "ops/contiguous.h"
#include "ops/index_support.h"
#include "raw_elementwise.h"
#include "raw_index.h"
#include "raw_reduce.h"
#include "raw_shape.h"

namespace facula::ops {
namespace {

void check_mask(const Tensor& mask, const char* op) {
  FACULA_CHECK(mask.dtype() == DType::Bool, ErrorKind::Runtime, op,
               ": only supports boolean masks, expected BoolTensor for mask, got ", mask.dtype());
}

void check_fill(const Tensor& self, const Tensor& mask) {
  check_mask(mask, "masked_fill_");
  FACULA_CHECK(broadcasts_to(mask.sizes(), self.sizes()), ErrorKind::Runtime,
               "masked_fill_: the mask must broadcast to shape ", self.sizes(), ", got ", mask.sizes());
  warn_of_internal_overlap(self, "masked_fill_");
  if (!mask.is_same(self)) check_no_partial_overlap(self, mask, "masked_fill_");
}

Tensor fill_value(const Tensor& self, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, ErrorKind::Runtime,
               "masked_fill: the value must be a number or a 0-d tensor, got shape ", value.sizes());
  FACULA_CHECK(!value.is_complex() || self.is_complex(), ErrorKind::Runtime,
               "masked_fill: a complex value does not fit into ", self.dtype(), ", got ", value.dtype());
  if (value.dtype() == self.dtype())
    return share_bytes(value.storage(), self.storage()) ? contiguous_copy(value) : value;
  if (value.is_cpu())  // a number, which has to have a value in the dtype
    return facula::scalar_tensor(number_in(value.item(), self.dtype(), "masked_fill"), self.dtype());
  return as_contiguous(value, self.dtype());
}

// Elements that share a place are one, which is filled where the mask shows any of them.
void fill_in_place(const Tensor& self, const Tensor& mask, const Operand& value) {
  Tensor each = self, condition = mask;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (each.size(d) <= 1 || each.stride(d) != 0) continue;
    if (condition.sizes() != each.sizes()) condition = ops::expand(condition, each.sizes(), false);
    Dims sizes(each.sizes());
    sizes[static_cast<size_t>(d)] = 1;
    each = make_view(each, sizes, each.strides(), 0, false);
    const bool alike = condition.stride(d) == 0;  // the mask shows all of them or none
    condition = alike ? make_view(condition, sizes, condition.strides(), 0, false) : ops::any(condition, d, true);
  }
  _where_into(each, Into::Part, condition, value, Operand(each));
}

Tensor filled(const Tensor& self, const Tensor& mask, const Operand& value, const Out& out) {
  check_mask(mask, "masked_fill");
  if (!out.given()) return _where(mask, value, Operand(self));
  Tensor result = out.make(broadcast(self.sizes(), mask.sizes(), "masked_fill"), self.dtype(), self.device());
  _where_into(result, Into::Part, mask, value, Operand(self));
  return result;
}

}  // namespace

Tensor nonzero(const Tensor& self, const Out& out) {
  FACULA_CHECK(!self.is_meta(), ErrorKind::NotImplemented,
               "nonzero: the shape of the result depends on values, got a meta tensor");
  const Tensor made = self.is_contiguous() ? Tensor() : as_contiguous(self);
  const Tensor& input = made.defined() ? made : self;
  const int64_t count = count_nonzero_kernel(self.device(), input);
  Tensor result = out.given() ? out.make({count, self.dim()}, DType::Int64, self.device())
                              : facula::empty({self.dim(), count}, DType::Int64, self.device());
  // one column after the other, so that x[nonzero columns] reads contiguous indices
  if (!out.given()) set_sizes(result.impl(), {count, self.dim()}, {1, std::max<int64_t>(count, 1)});
  if (result.numel()) nonzero_kernel(self.device(), result, input);
  return result;
}

Tensor nonzero_static(const Tensor& self, int64_t size, int64_t fill_value, const Out& out) {
  FACULA_CHECK(size >= 0, ErrorKind::Runtime, "nonzero_static: size must not be negative, got ", size);
  Tensor result = out.make({size, self.dim()}, DType::Int64, self.device());
  if (self.is_meta() || result.numel() == 0) return result;
  fill_kernel(result.device(), result, Scalar(fill_value));
  nonzero_kernel(self.device(), result, as_contiguous(self));
  return result;
}

Tensor masked_fill(const Tensor& self, const Tensor& mask, const Scalar& value, const Out& out) {
  return filled(self, mask, Operand(number_in(value, self.dtype(), "masked_fill")), out);
}
void masked_fill_(const Tensor& self, const Tensor& mask, const Scalar& value) {
  check_fill(self, mask);
  fill_in_place(self, mask, Operand(number_in(value, self.dtype(), "masked_fill_")));
}
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, const Out& out) {
  Tensor fitting = fill_value(self, value);
  return filled(self, mask, Operand(fitting), out);
}
void masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value) {
  check_fill(self, mask);
  Tensor fitting = fill_value(self, value);
  fill_in_place(self, mask, Operand(fitting));
}

Tensor masked_select(const Tensor& self, const Tensor& mask, const Out& out) {
  check_mask(mask, "masked_select");
  FACULA_CHECK(!self.is_meta(), ErrorKind::NotImplemented,
               "masked_select: the shape of the result depends on values, got a meta tensor");
  check_out_apart(out, {&self, &mask}, "masked_select");
  Dims shape = broadcast(self.sizes(), mask.sizes(), "masked_select");
  Tensor chosen = as_contiguous(mask, shape, mask.dtype());
  Tensor result = out.make({count_nonzero_kernel(self.device(), chosen)}, self.dtype(), self.device());
  if (result.numel()) masked_select_kernel(self.device(), result, as_contiguous(self, shape, self.dtype()), chosen);
  return result;
}

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, const Out& out) {
  check_mask(mask, "masked_scatter");
  FACULA_CHECK(self.dtype() == source.dtype(), ErrorKind::Runtime,
               "masked_scatter: self and source must have the same dtype, got ", self.dtype(), " and ", source.dtype());
  Dims shape = broadcast(self.sizes(), mask.sizes(), "masked_scatter");
  Tensor result = out.make(shape, self.dtype(), self.device());
  if (self.is_meta()) return result;
  copy_elements(result, make_view(self, shape, broadcast_strides(self.sizes(), self.strides(), shape), 0, false));
  Tensor chosen = as_contiguous(mask, shape, mask.dtype());
  int64_t count = count_nonzero_kernel(self.device(), chosen);
  FACULA_CHECK(source.numel() >= count, ErrorKind::Runtime,
               "masked_scatter: source must have an element for each true one of the mask, ", count, ", got ",
               source.numel());
  if (count) masked_scatter_kernel(self.device(), result, chosen, as_contiguous(source));
  return result;
}

}  // namespace facula::ops
