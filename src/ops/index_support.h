// Declares checks and views that the ops indexing along a dimension share.
#pragma once

#include "core/mode.h"
#include "core/number.h"
#include "ops/index.h"
#include "ops/out.h"

namespace facula::ops {

/// A 0-d tensor as one of a single element; others as they are.
inline Tensor at_least_1d(const Tensor& t) { return t.dim() ? t : make_view(t, {1}, {1}, 0, false); }
inline Tensor at_least_1d(Tensor&& t) { return t.dim() ? std::move(t) : make_view(t, {1}, {1}, 0, false); }
/// A size of that.
inline int64_t size_at_least_1d(const Tensor& t, int64_t d) { return t.dim() ? t.size(d) : 1; }

/// Index tensors are int64 inside; int32 is converted, and with `empty_fits` one without elements may have
/// any dtype.
inline Tensor index_as_int64(const Tensor& index, const char* op, bool empty_fits = false) {
  FACULA_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32 || (empty_fits && index.numel() == 0),
               ErrorKind::Runtime, op, ": the index must be int64 or int32, got ", index.dtype());
  if (index.dtype() == DType::Int64) return index;
  Tensor wide = facula::empty(index.sizes(), DType::Int64, index.device());
  copy_elements(wide, index);
  return wide;
}

/// What a scatter writes to: the out= tensor or fresh memory, holding the values of self.
inline Tensor copy_to_write(const Tensor& self, const Out& out) {
  Tensor result =
      out.given() ? out.make(self.sizes(), self.dtype(), self.device()) : facula::empty_like(self, self.dtype());
  copy_elements(result, self);
  return result;
}

/// For writes of one value to many places: where elements share theirs, the program gets PyTorch's warning, and
/// the write is made. Read-only memory is refused.
void warn_of_internal_overlap(const Tensor& self, const char* op);

/// Ops whose result's shape depends on values do not work around out= lying in their input.
inline void check_out_apart(const Out& out, std::initializer_list<const Tensor*> inputs, const char* op) {
  if (!out.given()) return;
  for (const Tensor* t : inputs) check_apart(out.tensor(), *t, op);
}

/// A number in the class of a dtype, so that it promotes nothing.
inline Scalar number_in(const Scalar& value, DType dtype, const char* op) {
  if (is_complex(dtype)) return Scalar(value.to_complex());
  require_value(value, dtype, op);
  if (is_floating(dtype)) return Scalar(value.to_double());
  return dtype == DType::Bool ? Scalar(value.to_bool()) : value.is_integral() ? value : Scalar(value.to_int());
}

/// One number expanded to a shape, as the source of a scatter into `like`.
inline Tensor expanded_number(const Scalar& value, const Tensor& like, IntList shape) {
  Tensor one = scalar_tensor(value, like.dtype(), like.device());
  return make_view(one, shape, Dims(shape.size(), 0), 0, false);
}

/// index_select under the name of the op that the user called.
Tensor select_positions(const Tensor& self, int64_t dim, const Tensor& index, const Out& out, const char* op);

}  // namespace facula::ops
