// Reshaping written with views.
#include <cstdint>

#include "autograd/node.h"
#include "composite/parts.h"
#include "core/checked.h"
#include "core/several.h"
#include "core/sparse.h"
#include "functions.h"

namespace facula {

namespace {

/// A view of what nobody else knows, as a tensor that is no view: a write to it is no write to a part of another.
Tensor own_tensor(const Tensor& view) {
  TensorImpl* impl = view.impl();
  if (!impl->base || (impl->flags & (kBatched | kPythonDispatch | kSparse))) return view;
  const Tensor own = alias(view);
  Edge edge = gradient_edge(impl);
  if (!edge.node) return own;
  set_grad_fn(own_autograd_meta(own.impl()), std::move(edge.node), edge.slot);
  own.impl()->flags |= live_flags(impl) & kRecorded;
  return own;
}

}  // namespace

Tensor reshape(const Tensor& self, IntList shape) {
  FACULA_CHECK(!is_sparse(self), ErrorKind::Runtime, "reshape: a strided tensor, got layout ", layout_of(self));
  Dims target = infer_shape(shape, self.numel(), "reshape"), strides;
  if (view_strides(self.sizes(), self.strides(), target, strides)) return view(self, target);
  return own_tensor(view(clone(self, MemoryFormat::Contiguous), target));
}

Tensor view_as(const Tensor& self, const Tensor& other) { return view(self, other.sizes()); }

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "unbind: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "unbind");
  check_parts("unbind", self.size(d));
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < self.size(d); ++i) parts.push_back(select(self, d, i));
  return one_of_several(std::move(parts));
}

Tensor sum_to_size(const Tensor& self, IntList size) {
  FACULA_CHECK(broadcasts_to(size, self.sizes()), ErrorKind::Runtime, "sum_to_size: size must broadcast to the shape ",
               self.sizes(), ", got ", size);
  if (size.empty()) return sum(self, std::optional<IntList>(), false, std::nullopt);
  Dims dims;
  int64_t shift = self.dim() - static_cast<int64_t>(size.size());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d < shift || (size[d - shift] == 1 && self.size(d) != 1)) dims.push_back(d);
  }
  Tensor t = dims.empty() ? self : sum(self, std::optional<IntList>(dims), true, std::nullopt);
  return shift > 0 ? view(contiguous(t, MemoryFormat::Contiguous), size) : t;
}

Tensor real(const Tensor& self) {
  if (!self.is_complex()) return self;
  if (is_sparse(self)) {
    const Tensor pattern = is_coo(self) ? coalesce(alias(self)) : alias(self);
    return _with_values(pattern, real(_values_by(self, pattern, layout_of(self))));
  }
  return select(view_as_real(resolve_conj(self)), -1, 0);
}

Tensor imag(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), ErrorKind::Runtime, "imag: expected a complex tensor, got ", self.dtype());
  return select(view_as_real(resolve_conj(self)), -1, 1);
}

Tensor adjoint(const Tensor& self) {
  FACULA_CHECK(self.dim() != 1, ErrorKind::Runtime, "adjoint: a matrix or a batch of matrices, got shape ",
               self.sizes());
  Tensor swapped = self.dim() == 0 ? self : transpose(self, -2, -1);
  return self.is_complex() ? conj(swapped) : swapped;
}

Tensor linalg_diagonal(const Tensor& A, int64_t offset, int64_t dim1, int64_t dim2) {
  return diagonal(A, offset, dim1, dim2);
}

Tensor reshape_as(const Tensor& self, const Tensor& other) { return reshape(self, other.sizes()); }

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  int64_t first = wrap_dim(start_dim, self.dim(), "flatten"), last = wrap_dim(end_dim, self.dim(), "flatten");
  FACULA_CHECK(first <= last, ErrorKind::Runtime, "flatten: start_dim must not come after end_dim, got ", start_dim,
               " and ", end_dim);
  if (self.dim() == 0) return reshape(self, {1});
  if (first == last) return self;
  Dims shape;
  Checked joined = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d < first || d > last) {
      shape.push_back(self.size(d));
      continue;
    }
    joined *= self.size(d);
    if (d == last) shape.push_back(joined.get("flatten", "the joined size", "shape ", self.sizes()));
  }
  return reshape(self, shape);
}

Tensor unflatten(const Tensor& self, int64_t dim, IntList sizes) {
  FACULA_CHECK(!sizes.empty(), ErrorKind::Runtime, "unflatten: expected at least one size, got ", sizes);
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "unflatten: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "unflatten");
  Dims shape, parts = infer_shape(sizes, self.size(d), "unflatten");
  for (int64_t k = 0; k < self.dim(); ++k) {
    if (k != d) shape.push_back(self.size(k));
    else
      for (int64_t s : parts) shape.push_back(s);
  }
  return view(self, shape);
}

Tensor ravel(const Tensor& self) { return view(contiguous(self, MemoryFormat::Contiguous), {-1}); }

Tensor movedim(const Tensor& self, int64_t source, int64_t destination) {
  return movedim(self, IntList{source}, IntList{destination});
}

Tensor movedim(const Tensor& self, IntList source, IntList destination) {
  FACULA_CHECK(source.size() == destination.size(), ErrorKind::Runtime,
               "movedim: as many destinations as sources, got ", source, " and ", destination);
  size_t n = static_cast<size_t>(self.dim());
  Dims order(n, -1), moved(n, 0);
  for (size_t k = 0; k < source.size(); ++k) {
    int64_t from = wrap_dim(source[k], self.dim(), "movedim"), to = wrap_dim(destination[k], self.dim(), "movedim");
    if (n == 0) continue;
    FACULA_CHECK(!moved[from], ErrorKind::Runtime, "movedim: source must not repeat a dimension, got ", source);
    FACULA_CHECK(order[to] == -1, ErrorKind::Runtime, "movedim: destination must not repeat a dimension, got ",
                 destination);
    moved[from] = 1;
    order[to] = from;
  }
  size_t next = 0;
  for (size_t to = 0; to < n; ++to) {
    if (order[to] != -1) continue;
    while (moved[next]) ++next;
    order[to] = static_cast<int64_t>(next++);
  }
  return permute(self, order);
}

Tensor expand_as(const Tensor& self, const Tensor& other) { return expand(self, other.sizes()); }

Tensor broadcast_to(const Tensor& self, IntList size) { return expand(self, size); }

std::vector<Tensor> broadcast_tensors(TensorList tensors) {
  Dims shape;
  for (const Tensor& t : tensors) shape = broadcast(shape, t.sizes(), "broadcast_tensors");
  std::vector<Tensor> expanded;
  for (const Tensor& t : tensors) expanded.push_back(t.sizes() == IntList(shape) ? t : expand(t, shape));
  return expanded;
}

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "narrow: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "narrow"), size = self.size(d);
  FACULA_CHECK(length >= 0, ErrorKind::Runtime, "narrow: length must not be negative, got ", length);
  FACULA_CHECK(start >= -size && start <= size, ErrorKind::Index, "narrow: start must lie in [", -size, ", ", size,
               "], got ", start);
  if (start < 0) start += size;
  FACULA_CHECK(length <= size - start, ErrorKind::Runtime, "narrow: start + length must not exceed the size ", size,
               ", got ", start, " and ", length);
  return slice(self, d, start, start + length, 1);
}

Tensor narrow(const Tensor& self, int64_t dim, const Tensor& start, int64_t length) {
  FACULA_CHECK(start.dim() == 0 && is_integral(start.dtype()), ErrorKind::Runtime,
               "narrow: start must be an int or a 0-d integer tensor, got ", start.dtype(), " of shape ",
               start.sizes());
  return narrow(self, dim, start.item().to_int(), length);
}

// ---- at least so many dimensions

namespace {

std::vector<Tensor> each(TensorList tensors, Tensor (*change)(const Tensor&)) {
  std::vector<Tensor> results;
  for (const Tensor& t : tensors) results.push_back(change(t));
  return results;
}

}  // namespace

Tensor atleast_1d(const Tensor& self) { return self.dim() == 0 ? reshape(self, {1}) : self; }
Tensor atleast_2d(const Tensor& self) {
  if (self.dim() == 0) return reshape(self, {1, 1});
  return self.dim() == 1 ? unsqueeze(self, 0) : self;
}
Tensor atleast_3d(const Tensor& self) {
  if (self.dim() == 0) return reshape(self, {1, 1, 1});
  if (self.dim() == 1) return unsqueeze(unsqueeze(self, 0), -1);
  return self.dim() == 2 ? unsqueeze(self, -1) : self;
}
std::vector<Tensor> atleast_1d(TensorList tensors) { return each(tensors, atleast_1d); }
std::vector<Tensor> atleast_2d(TensorList tensors) { return each(tensors, atleast_2d); }
std::vector<Tensor> atleast_3d(TensorList tensors) { return each(tensors, atleast_3d); }

// ---- copies in which a view holds other values

namespace {

// `part` shows what src replaces in a copy of `self`.
template <class View>
Tensor scattered(const char* op, const Tensor& self, const Tensor& src, View&& part) {
  Tensor result = clone(self, MemoryFormat::Preserve);
  Tensor target = part(result);
  FACULA_CHECK(target.sizes() == src.sizes(), ErrorKind::Runtime, op, ": src must have shape ", target.sizes(),
               ", got ", src.sizes());
  copy_(target, src);
  return result;
}

}  // namespace

Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
  return scattered("select_scatter", self, src, [&](const Tensor& t) { return select(t, dim, index); });
}

Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim, std::optional<int64_t> start,
                     std::optional<int64_t> end, int64_t step) {
  FACULA_CHECK(step > 0, ErrorKind::Runtime, "slice_scatter: step must be positive, got ", step);
  return scattered("slice_scatter", self, src,
                   [&](const Tensor& t) { return slice(t, dim, start.value_or(0), end.value_or(INT64_MAX), step); });
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2) {
  return scattered("diagonal_scatter", self, src, [&](const Tensor& t) { return diagonal(t, offset, dim1, dim2); });
}

// ---- channels and pixels

Tensor pixel_shuffle(const Tensor& self, int64_t upscale_factor) {
  int64_t r = upscale_factor, n = self.dim();
  FACULA_CHECK(n >= 3, ErrorKind::Runtime, "pixel_shuffle: expected a tensor of at least three dimensions, got shape ",
               self.sizes());
  FACULA_CHECK(r > 0, ErrorKind::Runtime, "pixel_shuffle: upscale_factor must be positive, got ", r);
  FACULA_CHECK(r < (int64_t{1} << 31), ErrorKind::Value, "pixel_shuffle: upscale_factor must be below 2**31, got ", r);
  int64_t channels = self.size(-3), height = self.size(-2), width = self.size(-1);
  FACULA_CHECK(channels % r == 0 && channels / r % r == 0, ErrorKind::Runtime,
               "pixel_shuffle: the channels (dimension -3) must be divisible by the square of ", r, ", got ", channels);
  const int64_t tall = (Checked(height) * r).get("pixel_shuffle", "a size of the result", "upscale_factor ", r);
  const int64_t wide = (Checked(width) * r).get("pixel_shuffle", "a size of the result", "upscale_factor ", r);
  Dims batch(self.sizes().slice(0, static_cast<size_t>(n - 3))), split(batch), result(batch), order(batch);
  for (size_t i = 0; i < batch.size(); ++i) order[i] = static_cast<int64_t>(i);
  for (int64_t s : {channels / r / r, r, r, height, width}) split.push_back(s);
  for (int64_t k : {0, 3, 1, 4, 2}) order.push_back(n - 3 + k);
  for (int64_t s : {channels / r / r, tall, wide}) result.push_back(s);
  return contiguous(reshape(permute(reshape(self, split), order), result), self.suggest_memory_format());
}

Tensor pixel_unshuffle(const Tensor& self, int64_t downscale_factor) {
  int64_t r = downscale_factor, n = self.dim();
  FACULA_CHECK(n >= 3, ErrorKind::Runtime,
               "pixel_unshuffle: expected a tensor of at least three dimensions, got shape ", self.sizes());
  FACULA_CHECK(r > 0, ErrorKind::Runtime, "pixel_unshuffle: downscale_factor must be positive, got ", r);
  int64_t channels = self.size(-3), height = self.size(-2), width = self.size(-1);
  FACULA_CHECK(height % r == 0 && width % r == 0, ErrorKind::Runtime,
               "pixel_unshuffle: the last two sizes must be divisible by ", r, ", got ", height, " and ", width);
  if (self.numel() == 0) return clone(self);  // PyTorch's, of the input's shape
  Dims batch(self.sizes().slice(0, static_cast<size_t>(n - 3))), split(batch), result(batch), order(batch);
  for (size_t i = 0; i < batch.size(); ++i) order[i] = static_cast<int64_t>(i);
  for (int64_t s : {channels, height / r, r, width / r, r}) split.push_back(s);
  for (int64_t k : {0, 2, 4, 1, 3}) order.push_back(n - 3 + k);
  const int64_t more = (Checked(channels) * r * r).get("pixel_unshuffle", "the channels", "downscale_factor ", r);
  for (int64_t s : {more, height / r, width / r}) result.push_back(s);
  return contiguous(reshape(permute(reshape(self, split), order), result), self.suggest_memory_format());
}

Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  FACULA_CHECK(self.dim() > 2, ErrorKind::Runtime,
               "channel_shuffle: expected a tensor of more than two dimensions, got shape ", self.sizes());
  FACULA_CHECK(groups > 0, ErrorKind::Runtime, "channel_shuffle: groups must be positive, got ", groups);
  FACULA_CHECK(self.size(1) % groups == 0, ErrorKind::Runtime,
               "channel_shuffle: the channels (dimension 1) must be divisible by ", groups, ", got ", self.size(1));
  Dims split(self.sizes());
  split[1] = self.size(1) / groups;
  split.insert(1, groups);
  return contiguous(reshape(transpose(reshape(self, split), 1, 2), self.sizes()), self.suggest_memory_format());
}

}  // namespace facula
