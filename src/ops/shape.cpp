// Views: the same storage under other sizes and strides.
#include "raw_ops.h"

namespace facula::ops {

Tensor view(const Tensor& self, IntList size) {
  Dims shape = infer_shape(size, self.numel(), "view"), strides;
  FACULA_CHECK(view_strides(self.sizes(), self.strides(), shape, strides), ErrorKind::Runtime,
               "view: the elements are not in an order that allows this shape without a copy (use reshape), got shape ",
               self.sizes(), " with strides ", self.strides(), " viewed as ", size);
  return make_view(self, shape, strides);
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim(dim0, self.dim(), "transpose"), b = wrap_dim(dim1, self.dim(), "transpose");
  Dims sizes(self.sizes()), strides(self.strides());
  if (a != b) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return make_view(self, sizes, strides);
}

Tensor permute(const Tensor& self, IntList dims) {
  FACULA_CHECK(static_cast<int64_t>(dims.size()) == self.dim(), ErrorKind::Runtime,
               "permute: one entry per dimension of the tensor of shape ", self.sizes(), ", got ", dims);
  Dims sizes(dims.size()), strides(dims.size()), seen(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = wrap_dim(dims[i], self.dim(), "permute");
    FACULA_CHECK(!seen[d], ErrorKind::Runtime, "permute: every dimension once, got ", dims);
    seen[d] = 1;
    sizes[i] = self.size(d);
    strides[i] = self.stride(d);
  }
  return make_view(self, sizes, strides);
}

Tensor expand(const Tensor& self, IntList size, bool) {
  FACULA_CHECK(static_cast<int64_t>(size.size()) >= self.dim(), ErrorKind::Runtime, "expand: at least as many sizes as the tensor of shape ",
               self.sizes(), " has dimensions, got ", size);
  Dims sizes(size), strides(size.size());
  int64_t shift = static_cast<int64_t>(size.size()) - self.dim();
  for (int64_t i = 0; i < static_cast<int64_t>(size.size()); ++i) {
    if (i < shift) {
      FACULA_CHECK(sizes[i] >= 0, ErrorKind::Runtime, "expand: a new leading dimension needs a size, got ", size);
      continue;
    }
    int64_t own = self.size(i - shift);
    if (sizes[i] == -1) sizes[i] = own;
    FACULA_CHECK(own == sizes[i] || own == 1, ErrorKind::Runtime, "expand: the expanded size must match the existing size ", own,
                 " at dimension ", i, ", got ", size);
    strides[i] = own == sizes[i] ? self.stride(i - shift) : 0;
  }
  return make_view(self, sizes, strides);
}

Tensor as_strided(const Tensor& self, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  FACULA_CHECK(size.size() == stride.size(), ErrorKind::Runtime, "as_strided: as many strides as sizes, got ", size, " and ", stride);
  for (int64_t s : stride) FACULA_CHECK(s >= 0 || self.impl()->base, ErrorKind::Runtime, "as_strided: strides must not be negative, got ", stride);
  int64_t offset = storage_offset.value_or(self.storage_offset());
  FACULA_CHECK(offset >= 0, ErrorKind::Runtime, "as_strided: storage_offset must not be negative, got ", offset);
  int64_t count = count_elements(size, "as_strided"), low = offset, high = offset;
  for (size_t i = 0; i < size.size(); ++i) (stride[i] < 0 ? low : high) += (size[i] - 1) * stride[i];
  int64_t available = static_cast<int64_t>(self.storage()->nbytes) / self.item_size();
  FACULA_CHECK(count == 0 || (low >= 0 && high < available), ErrorKind::Runtime, "as_strided: sizes ", size, ", strides ", stride,
               " and offset ", offset, " reach outside of the storage of ", available, " elements");
  return make_view(self, size, stride, offset - self.storage_offset());
}

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "select: a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "select"), size = self.size(d);
  FACULA_CHECK(index >= -size && index < size, ErrorKind::Index, "select: index ", index, " is out of range for dimension ", d, " of shape ", self.sizes());
  if (index < 0) index += size;
  Dims sizes(self.sizes()), strides(self.strides());
  int64_t offset = index * strides[d];
  sizes.erase(d);
  strides.erase(d);
  return make_view(self, sizes, strides, offset);
}

Tensor slice(const Tensor& self, int64_t dim, int64_t start, int64_t end, int64_t step) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "slice: a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "slice"), size = self.size(d);
  FACULA_CHECK(step > 0, ErrorKind::Value, "slice: step must be greater than zero, got ", step);
  auto clip = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  start = clip(start);
  end = std::max(clip(end), start);
  Dims sizes(self.sizes()), strides(self.strides());
  sizes[d] = (end - start + step - 1) / step;
  int64_t offset = start * strides[d];
  strides[d] *= step;
  return make_view(self, sizes, strides, offset);
}

Tensor negative_slice(const Tensor& self, int64_t dim, int64_t start, int64_t count, int64_t step) {
  Dims sizes(self.sizes()), strides(self.strides());
  sizes[dim] = count;
  int64_t offset = count ? start * strides[dim] : 0;
  strides[dim] *= step;
  return make_view(self, sizes, strides, offset);
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  int64_t d = wrap_dim(dim, self.dim() + 1, "unsqueeze");
  Dims sizes(self.sizes()), strides(self.strides());
  int64_t step = d < self.dim() ? sizes[d] * strides[d] : 1;
  sizes.insert(d, 1);
  strides.insert(d, step);
  return make_view(self, sizes, strides);
}

Tensor squeeze(const Tensor& self, int64_t dim) {
  int64_t d = wrap_dim(dim, self.dim(), "squeeze");
  Dims sizes(self.sizes()), strides(self.strides());
  if (self.dim() > 0 && sizes[d] == 1) {
    sizes.erase(d);
    strides.erase(d);
  }
  return make_view(self, sizes, strides);
}

Tensor alias_view(const Tensor& self) { return make_view(self, self.sizes(), self.strides()); }

Tensor conj(const Tensor& self) {
  if (!self.is_complex()) return self;
  Tensor view = make_view(self, self.sizes(), self.strides());
  view.impl()->flags ^= kConjugate;
  return view;
}

Tensor view_as_real(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), ErrorKind::Runtime, "view_as_real: a complex tensor, got ", self.dtype());
  FACULA_CHECK(!self.is_conj(), ErrorKind::Runtime, "view_as_real: a tensor that is not conjugated lazily (use resolve_conj), got shape ", self.sizes());
  Dims sizes(self.sizes()), strides(self.strides());
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  Tensor view = make_view(self, sizes, strides);
  view.impl()->dtype = real_dtype(self.dtype());
  return view;
}

Tensor view_as_complex(const Tensor& self) {
  FACULA_CHECK(self.dtype() == DType::Float16 || self.dtype() == DType::Float32 || self.dtype() == DType::Float64, ErrorKind::Runtime,
               "view_as_complex: a float16, float32 or float64 tensor, got ", self.dtype());
  FACULA_CHECK(self.dim() > 0 && self.size(-1) == 2 && self.stride(-1) == 1, ErrorKind::Runtime,
               "view_as_complex: a last dimension of size 2 and stride 1, got sizes ", self.sizes(), " and strides ", self.strides());
  Dims sizes(self.sizes()), strides(self.strides());
  sizes.pop_back();
  strides.pop_back();
  for (int64_t& s : strides) {
    FACULA_CHECK(s % 2 == 0, ErrorKind::Runtime, "view_as_complex: strides must be even, got ", self.strides());
    s /= 2;
  }
  FACULA_CHECK(self.storage_offset() % 2 == 0, ErrorKind::Runtime, "view_as_complex: the storage offset must be even, got ", self.storage_offset());
  Tensor view = make_view(self, sizes, strides);
  view.impl()->dtype = complex_dtype(self.dtype());
  return view;
}

Tensor as_strided_scatter(const Tensor& self, const Tensor& src, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  Tensor result = empty_strided(self.sizes(), preserved_strides(self.sizes(), self.strides()), self.dtype(), self.device());
  if (self.is_meta()) return result;
  copy_kernel(self.device(), result, self);
  int64_t offset = storage_offset ? *storage_offset : 0;
  Tensor part = as_strided(result, size, stride, offset);
  FACULA_CHECK(part.sizes() == src.sizes(), ErrorKind::Runtime, "as_strided_scatter: src must have shape ", size, ", got ", src.sizes());
  copy_kernel(self.device(), part, src);
  return result;
}

}  // namespace facula::ops
