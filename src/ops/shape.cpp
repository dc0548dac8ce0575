// Views: the same storage under other sizes and strides.
#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "raw_shape.h"

namespace facula::ops {

namespace {

// A copy of the geometry of `self`, to be changed in one or two places.
ViewBuilder same_geometry(const Tensor& self) {
  ViewBuilder view(self, self.dim());
  std::copy_n(self.sizes().begin(), self.dim(), view.sizes);
  std::copy_n(self.strides().begin(), self.dim(), view.strides);
  return view;
}

// The geometry of `self` without dimension `d`.
ViewBuilder without_dim(const Tensor& self, int64_t d) {
  ViewBuilder view(self, self.dim() - 1);
  IntList sizes = self.sizes(), strides = self.strides();
  for (int64_t i = 0, to = 0; i < self.dim(); ++i) {
    if (i == d) continue;
    view.sizes[to] = sizes[i];
    view.strides[to++] = strides[i];
  }
  return view;
}

}  // namespace

Tensor view(const Tensor& self, IntList size) {
  uint64_t count = 1;
  bool complete = true;
  for (int64_t s : size) {
    complete &= s >= 0;
    count *= static_cast<uint64_t>(s);
  }
  Dims inferred;
  IntList shape = size;
  if (!complete || count != static_cast<uint64_t>(self.numel())) {
    inferred = infer_shape(size, self.numel(), "view");
    shape = inferred;
  }
  if (self.is_contiguous() &&
      (self.dim() == 0 || self.stride(-1) == 1)) {  // even elements: the strides of a fresh tensor
    int64_t n = static_cast<int64_t>(shape.size()), step = 1;
    ViewBuilder view(self, n);
    for (int64_t i = n - 1; i >= 0; --i) {
      view.sizes[i] = shape[i];
      view.strides[i] = step;
      step = wrapping_mul(step, std::max<int64_t>(shape[i], 1));
    }
    return view.finish();
  }
  Dims strides;
  FACULA_CHECK(view_strides(self.sizes(), self.strides(), shape, strides), ErrorKind::Runtime,
               "view: the elements are not in an order that allows this shape without a copy (use reshape), got shape ",
               self.sizes(), " with strides ", self.strides(), " viewed as ", size);
  return make_view(self, shape, strides);
}

// The result shares memory and its count of writes, as that of detach() does, and follows no history: bytes read as
// another dtype have no derivative, and PyTorch says so of the same dtype too.
Tensor view(const Tensor& self, DType dtype) {
  if (dtype == self.dtype()) return make_view(self, self.sizes(), self.strides(), 0, false);
  FACULA_CHECK(!self.is_conj(), ErrorKind::Runtime,
               "view: a tensor that is not conjugated lazily (use resolve_conj), got shape ", self.sizes());
  int64_t from = self.item_size(), to = item_size(dtype);
  Dims sizes(self.sizes()), strides(self.strides());
  if (from != to) {
    FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime,
                 "view: self.dim() cannot be 0, since the last dimension shrinks or grows, got ", self.dtype(),
                 " viewed as ", dtype);
    FACULA_CHECK(strides.back() == 1, ErrorKind::Runtime, "view: self.stride(-1) must be 1 to read ", self.dtype(),
                 " as ", dtype, ", got strides ", self.strides());
    int64_t bytes = (Checked(sizes.back()) * from).get("view", "the last size in bytes", sizes.back());
    FACULA_CHECK(bytes % to == 0, ErrorKind::Runtime, "view: self.size(-1) must be divisible by ",
                 to / std::gcd(to, from), " to read ", self.dtype(), " as ", dtype, ", got shape ", self.sizes());
    FACULA_CHECK(self.storage_offset() * from % to == 0, ErrorKind::Runtime,
                 "view: self.storage_offset() must be divisible by ", to / std::gcd(to, from), " to read ",
                 self.dtype(), " as ", dtype, ", got ", self.storage_offset());
    sizes.back() = bytes / to;
    for (size_t i = 0; i + 1 < strides.size(); ++i) {
      int64_t step = wrapping_mul(strides[i], from);
      FACULA_CHECK(step % to == 0, ErrorKind::Runtime, "view: the strides times ", from, " must be divisible by ", to,
                   " to read ", self.dtype(), " as ", dtype, ", got strides ", self.strides());
      strides[i] = step / to;
    }
  }
  Tensor view = make_view(self, sizes, strides, 0, false);
  view.impl()->dtype = dtype;
  return view;
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim(dim0, self.dim(), "transpose"), b = wrap_dim(dim1, self.dim(), "transpose");
  ViewBuilder view = same_geometry(self);
  if (a != b) {
    std::swap(view.sizes[a], view.sizes[b]);
    std::swap(view.strides[a], view.strides[b]);
  }
  return view.finish();
}

Tensor t(const Tensor& self) {
  FACULA_CHECK(self.dim() <= 2, ErrorKind::Runtime, "t: expected a tensor of at most two dimensions, got ", self.dim(),
               " of them");
  return transpose(self, 0, self.dim() == 2 ? 1 : 0);
}

Tensor permute(const Tensor& self, IntList dims) {
  FACULA_CHECK(static_cast<int64_t>(dims.size()) == self.dim(), ErrorKind::Runtime,
               "permute: expected one entry per dimension of the tensor of shape ", self.sizes(), ", got ", dims);
  ViewBuilder view(self, self.dim());
  uint64_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = wrap_dim(dims[i], self.dim(), "permute");
    FACULA_CHECK(!(seen >> d & 1), ErrorKind::Runtime, "permute: expected every dimension once, got ", dims);
    seen |= uint64_t{1} << d;
    view.sizes[i] = self.size(d);
    view.strides[i] = self.stride(d);
  }
  return view.finish();
}

Tensor expand(const Tensor& self, IntList size, bool) {
  int64_t n = static_cast<int64_t>(size.size()), shift = n - self.dim();
  FACULA_CHECK(shift >= 0, ErrorKind::Runtime, "expand: at least as many sizes as the tensor of shape ", self.sizes(),
               " has dimensions, got ", size);
  ViewBuilder view(self, n);
  for (int64_t i = n - 1; i >= 0; --i) {
    int64_t own = i < shift ? 1 : self.size(i - shift), wanted = size[i];
    int64_t step = i >= shift  ? self.stride(i - shift)
                   : i + 1 < n ? wrapping_mul(view.sizes[i + 1], view.strides[i + 1])
                               : 1;
    FACULA_CHECK(wanted >= 0 || (wanted == -1 && i >= shift), ErrorKind::Runtime,
                 "expand: a size is not negative, or -1 to keep that of an existing dimension, got ", size);
    if (wanted == -1) wanted = own;
    FACULA_CHECK(own == wanted || own == 1, ErrorKind::Runtime, "expand: The expanded size of the tensor (", wanted,
                 ") must match the existing size (", own, ") at dimension ", i, ", got ", size);
    view.sizes[i] = wanted;
    view.strides[i] = own == wanted ? step : 0;
  }
  return view.finish();
}

Tensor as_strided(const Tensor& self, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  FACULA_CHECK(size.size() == stride.size(), ErrorKind::Runtime, "as_strided: as many strides as sizes, got ", size,
               " and ", stride);
  for (int64_t s : stride)
    FACULA_CHECK(s >= 0 || self.impl()->base, ErrorKind::Runtime, "as_strided: strides must not be negative, got ",
                 stride);
  int64_t offset = storage_offset.value_or(self.storage_offset());
  check_inside(self.storage(), self.dtype(), offset, size, stride, "as_strided");
  return make_view(self, size, stride, offset - self.storage_offset());
}

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "select: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "select"), size = self.size(d);
  FACULA_CHECK(index >= -size && index < size, ErrorKind::Index, "select: index ", index,
               " is out of range for dimension ", d, " of shape ", self.sizes());
  if (index < 0) index += size;
  return without_dim(self, d).finish(wrapping_mul(index, self.stride(d)));
}

namespace {

// The stride of every `step`-th element. Where that does not fit there is one element at most, and the stride names no
// other place.
int64_t stride_of_steps(int64_t stride, int64_t step) { return (Checked(stride) * step).value_or(stride); }

}  // namespace

Tensor slice(const Tensor& self, int64_t dim, int64_t start, int64_t end, int64_t step) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "slice: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "slice"), size = self.size(d);
  FACULA_CHECK(step > 0, ErrorKind::Value, "slice: step must be greater than zero, got ", step);
  auto clip = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };  // fits: size >= 0
  start = clip(start);
  end = std::max(clip(end), start);
  ViewBuilder view = same_geometry(self);
  view.sizes[d] = end == start ? 0 : (end - start - 1) / step + 1;
  view.strides[d] = stride_of_steps(self.stride(d), step);
  return view.finish(wrapping_mul(start, self.stride(d)));
}

Tensor negative_slice(const Tensor& self, int64_t dim, int64_t start, int64_t count, int64_t step) {
  dim = wrap_dim(dim, self.dim(), "slice");
  // From start down to the last position, which lies at 0 or above.
  const bool inside = count == 0 || (count > 0 && start >= 0 && start < self.size(dim) && step < 0 &&
                                     (count == 1 || step >= -start / (count - 1)));
  FACULA_CHECK(inside, ErrorKind::Index, "slice: expected positions inside of dimension ", dim, " of shape ",
               self.sizes(), ", got ", count, " from ", start, " in steps of ", step);
  ViewBuilder view = same_geometry(self);
  view.sizes[dim] = count;
  view.strides[dim] = stride_of_steps(self.stride(dim), step);
  return view.finish(count ? wrapping_mul(start, self.stride(dim)) : 0);
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  int64_t n = self.dim(), d = wrap_dim(dim, n + 1, "unsqueeze");
  ViewBuilder view(self, n + 1);
  IntList sizes = self.sizes(), strides = self.strides();
  for (int64_t i = 0; i < n; ++i) {
    view.sizes[i + (i >= d)] = sizes[i];
    view.strides[i + (i >= d)] = strides[i];
  }
  view.sizes[d] = 1;
  view.strides[d] = d < n ? wrapping_mul(sizes[d], strides[d]) : 1;
  return view.finish();
}

namespace {

// Without the dimensions of size one whose bit is set in `chosen`.
Tensor squeezed(const Tensor& self, uint64_t chosen) {
  IntList sizes = self.sizes(), strides = self.strides();
  auto dropped = [&](int64_t i) { return (chosen >> i & 1) && sizes[i] == 1; };
  int64_t left = 0;
  for (int64_t i = 0; i < self.dim(); ++i) left += !dropped(i);
  ViewBuilder view(self, left);
  for (int64_t i = 0, to = 0; i < self.dim(); ++i) {
    if (dropped(i)) continue;
    view.sizes[to] = sizes[i];
    view.strides[to++] = strides[i];
  }
  return view.finish();
}

}  // namespace

Tensor squeeze(const Tensor& self) { return squeezed(self, ~uint64_t{0}); }
Tensor squeeze(const Tensor& self, int64_t dim) {
  return squeezed(self, uint64_t{1} << wrap_dim(dim, self.dim(), "squeeze"));
}
Tensor squeeze(const Tensor& self, IntList dim) {
  uint64_t chosen = 0;
  for (int64_t d : dim) {
    uint64_t bit = uint64_t{1} << wrap_dim(d, self.dim(), "squeeze");
    FACULA_CHECK(!(chosen & bit), ErrorKind::Runtime, "squeeze: expected every dimension at most once, got ", dim);
    chosen |= bit;
  }
  return squeezed(self, chosen);
}

Tensor diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index,
               "diagonal: expected a tensor of at least two dimensions, got a 0-d one");
  int64_t a = wrap_dim(dim1, self.dim(), "diagonal"), b = wrap_dim(dim2, self.dim(), "diagonal");
  FACULA_CHECK(a != b, ErrorKind::Runtime, "diagonal: expected two different dimensions, got ", dim1, " and ", dim2);
  int64_t count =
      offset >= 0 ? std::min(self.size(a), self.size(b) - offset) : std::min(self.size(a) + offset, self.size(b));
  count = std::max<int64_t>(count, 0);
  ViewBuilder view(self, self.dim() - 1);
  int64_t to = 0;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i == a || i == b) continue;
    view.sizes[to] = self.size(i);
    view.strides[to++] = self.stride(i);
  }
  view.sizes[to] = count;
  view.strides[to] = wrapping_add(self.stride(a), self.stride(b));
  return view.finish(count == 0    ? 0
                     : offset >= 0 ? wrapping_mul(offset, self.stride(b))
                                   : wrapping_mul(-offset, self.stride(a)));
}

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  int64_t d = wrap_dim(dimension, self.dim(), "unfold"), n = self.dim();
  int64_t available = n ? self.size(d) : 1, own_step = n ? self.stride(d) : 1;
  FACULA_CHECK(step > 0, ErrorKind::Runtime, "unfold: step must be greater than zero, got ", step);
  FACULA_CHECK(size >= 0 && size <= available, ErrorKind::Runtime, "unfold: size must lie between 0 and the ",
               available, " positions of dimension ", d, ", got ", size);
  ViewBuilder view(self, n + 1);
  for (int64_t i = 0; i < n; ++i) {
    view.sizes[i] = i == d ? (available - size) / step + 1 : self.size(i);
    view.strides[i] = i == d ? stride_of_steps(own_step, step) : self.stride(i);
  }
  view.sizes[n] = size;
  view.strides[n] = own_step;
  return view.finish();
}

Tensor alias_view(const Tensor& self) { return make_view(self, self.sizes(), self.strides()); }

Tensor conj(const Tensor& self) {
  if (!self.is_complex()) return self;
  Tensor view = make_view(self, self.sizes(), self.strides());
  view.impl()->flags ^= kConjugate;
  return view;
}

Tensor view_as_real(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), ErrorKind::Runtime, "view_as_real: expected a complex tensor, got ", self.dtype());
  FACULA_CHECK(!self.is_conj(), ErrorKind::Runtime,
               "view_as_real: a tensor that is not conjugated lazily (use resolve_conj), got shape ", self.sizes());
  Dims sizes(self.sizes()), strides(self.strides());
  for (int64_t& s : strides) s = wrapping_mul(s, 2);
  sizes.push_back(2);
  strides.push_back(1);
  Tensor view = make_view(self, sizes, strides);
  view.impl()->dtype = real_dtype(self.dtype());
  return view;
}

Tensor view_as_complex(const Tensor& self) {
  FACULA_CHECK(self.dtype() == DType::Float16 || self.dtype() == DType::Float32 || self.dtype() == DType::Float64,
               ErrorKind::Runtime, "view_as_complex: expected a float16, float32 or float64 tensor, got ",
               self.dtype());
  FACULA_CHECK(self.dim() > 0 && self.size(-1) == 2, ErrorKind::Runtime,
               "view_as_complex: Tensor must have a last dimension of size 2, got sizes ", self.sizes());
  FACULA_CHECK(self.stride(-1) == 1, ErrorKind::Runtime,
               "view_as_complex: Tensor must have a last dimension with stride 1, got strides ", self.strides());
  Dims sizes(self.sizes()), strides(self.strides());
  sizes.pop_back();
  strides.pop_back();
  for (int64_t& s : strides) {
    FACULA_CHECK(s % 2 == 0, ErrorKind::Runtime, "view_as_complex: strides must be even, got ", self.strides());
    s /= 2;
  }
  FACULA_CHECK(self.storage_offset() % 2 == 0, ErrorKind::Runtime,
               "view_as_complex: the storage offset must be even, got ", self.storage_offset());
  Tensor view = make_view(self, sizes, strides);
  view.impl()->dtype = complex_dtype(self.dtype());
  return view;
}

Tensor as_strided_scatter(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                          std::optional<int64_t> storage_offset) {
  Tensor result =
      facula::empty_strided(self.sizes(), preserved_strides(self.sizes(), self.strides()), self.dtype(), self.device());
  if (self.is_meta()) return result;
  copy_elements(result, self);
  int64_t offset = storage_offset ? *storage_offset : 0;
  Tensor part = as_strided(result, size, stride, offset);
  FACULA_CHECK(part.sizes() == src.sizes(), ErrorKind::Runtime, "as_strided_scatter: src must have shape ", size,
               ", got ", src.sizes());
  copy_elements(part, src);
  return result;
}

}  // namespace facula::ops
