// Shape and dtype rules of the reductions.
#include "ops/reduce.h"

#include "raw_ops.h"

namespace facula::ops {
namespace {

Dims reduced_dims(const Tensor& self, std::optional<IntList> dim, const char* op) {
  Dims mask(static_cast<size_t>(self.dim()));
  if (!dim || dim->empty()) {
    for (int64_t& m : mask) m = 1;
    return mask;
  }
  for (int64_t d : *dim) {
    int64_t at = wrap_dim(d, self.dim(), op);
    if (self.dim() == 0) continue;
    FACULA_CHECK(!mask[at], ErrorKind::Runtime, op, ": every dimension at most once, got ", *dim);
    mask[at] = 1;
  }
  return mask;
}

Dims kept_shape(const Tensor& self, const Dims& mask) {
  Dims shape(self.sizes());
  for (size_t i = 0; i < shape.size(); ++i)
    if (mask[i]) shape[i] = 1;
  return shape;
}

Dims dropped_shape(const Tensor& self, const Dims& mask) {
  Dims shape;
  for (size_t i = 0; i < mask.size(); ++i)
    if (!mask[i]) shape.push_back(self.size(static_cast<int64_t>(i)));
  return shape;
}

}  // namespace

Tensor sum(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype, const Out& out) {
  Dims mask = reduced_dims(self, dim, "sum");
  DType result_dtype = dtype.value_or(is_bits(self.dtype()) ? DType::Int64 : self.dtype());
  Dims kept = kept_shape(self, mask);
  Tensor result = out.make(keepdim ? kept : dropped_shape(self, mask), result_dtype, self.device());
  if (self.is_meta()) return result;
  Tensor input = self.dtype() == result_dtype ? self : to_dtype(self, result_dtype);
  sum_kernel(self.device(), make_view(result, kept, contiguous_strides(kept), 0, false), input);
  return result;
}

Tensor sum(const Tensor& self, std::optional<DType> dtype) { return sum(self, std::nullopt, false, dtype, {}); }

}  // namespace facula::ops
