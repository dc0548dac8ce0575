// Rules of the reductions that must see a whole line at once: extrema with their positions, and order statistics.
#include "ops/contiguous.h"
#include "ops/line_kernels.h"
#include "ops/reduce.h"
#include "ops/reduction.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

/// Of a fresh, contiguous result; the dimension has size one.
Tensor without_dim(Tensor t, int64_t dim) {
  if (t.dim() == 0) return t;
  if (TensorImpl* impl = t.impl(); impl->ndim < 4) {  // nothing else about it changes
    int64_t* strides = impl->mutable_strides();
    for (int64_t d = dim + 1; d < impl->ndim; ++d) impl->dims[d - 1] = impl->dims[d], strides[d - 1] = strides[d];
    --impl->ndim;
    return t;
  }
  Dims sizes(t.sizes());
  sizes.erase(static_cast<size_t>(dim));
  take_shape(t, sizes);
  return t;
}

// One value and its position per line.
Pair chosen(const PositionKernel& kernel, const Tensor& self, int64_t dim, bool keepdim, const char* op) {
  int64_t d = wrap_dim(dim, self.dim(), op);
  require_real(self, op);
  FACULA_CHECK(self.dim() == 0 || self.size(d) > 0, ErrorKind::Index, op, ": dimension ", d,
               " must not have size zero, got shape ", self.sizes());
  Pair made = with_positions(kernel, self, d, 1, op, {}, {});
  if (keepdim) return made;
  auto& [values, positions] = made;
  return {without_dim(std::move(values), d), without_dim(std::move(positions), d)};
}

Tensor flat(const Tensor& self) {
  if (self.dim() == 1) return self;
  Dims shape{self.numel()}, strides;
  if (view_strides(self.sizes(), self.strides(), shape, strides)) return make_view(self, shape, strides, 0, false);
  return make_view(contiguous_copy(self), shape, {1}, 0, false);
}

void require_numbers(const Tensor& self, const char* op) {
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::NotImplemented, op, ": not implemented for dtype ",
               self.dtype());
}

Tensor arg_extremum(const PositionKernel& kernel, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
                    const char* op) {
  require_real(self, op, ErrorKind::Runtime);
  FACULA_CHECK(self.dtype() != DType::Bool, ErrorKind::Runtime, op, ": not implemented for dtype ", self.dtype());
  if (dim) return std::get<1>(chosen(kernel, self, *dim, keepdim, op));
  FACULA_CHECK(self.numel() > 0, ErrorKind::Index, op, ": an empty tensor needs the dimension to reduce, got shape ",
               self.sizes());
  Tensor position = std::get<1>(chosen(kernel, flat(self), 0, false, op));
  if (!keepdim) return position;
  Dims ones(static_cast<size_t>(self.dim()), 1);
  return make_view(position, ones, contiguous_strides(ones), 0, false);
}

}  // namespace

Pair max(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  wrap_dim(dim, self.dim(), "max");
  require_real(self, "max", ErrorKind::Runtime);
  return chosen(argmax_kernel, self, dim, keepdim, "max");
}
Pair min(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  wrap_dim(dim, self.dim(), "min");
  require_real(self, "min", ErrorKind::Runtime);
  return chosen(argmin_kernel, self, dim, keepdim, "min");
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out&) {
  return arg_extremum(argmax_kernel, self, dim, keepdim, "argmax");
}
Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out&) {
  return arg_extremum(argmin_kernel, self, dim, keepdim, "argmin");
}

Pair median(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  require_numbers(self, "median");
  return chosen(median_kernel, self, dim, keepdim, "median");
}
Pair nanmedian(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  require_numbers(self, "nanmedian");
  return chosen(nanmedian_kernel, self, dim, keepdim, "nanmedian");
}

Pair mode(const Tensor& self, int64_t dim, bool keepdim, const Out&, const Out&) {
  return chosen(mode_kernel, self, dim, keepdim, "mode");
}

Tensor _prod_others(const Tensor& self, int64_t dim) {
  return map_lines(prod_others_kernel, self, dim, self.dtype(), "prod", {}, compute_dtype(self.dtype()));
}

}  // namespace facula::ops
