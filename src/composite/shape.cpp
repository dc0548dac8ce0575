// Reshaping written with views.
#include "functions.h"

namespace facula {

Tensor reshape(const Tensor& self, IntList shape) {
  Dims target = infer_shape(shape, self.numel(), "reshape"), strides;
  if (view_strides(self.sizes(), self.strides(), target, strides)) return view(self, target);
  return view(clone(self, MemoryFormat::Contiguous), target);
}

Tensor view_as(const Tensor& self, const Tensor& other) { return view(self, other.sizes()); }

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "unbind: a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "unbind");
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < self.size(d); ++i) parts.push_back(select(self, d, i));
  return parts;
}

Tensor sum_to_size(const Tensor& self, IntList size) {
  FACULA_CHECK(broadcasts_to(size, self.sizes()), ErrorKind::Runtime, "sum_to_size: size must broadcast to the shape ", self.sizes(), ", got ", size);
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
  return select(view_as_real(resolve_conj(self)), -1, 0);
}

Tensor imag(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), ErrorKind::Runtime, "imag: a complex tensor, got ", self.dtype());
  return select(view_as_real(resolve_conj(self)), -1, 1);
}

}  // namespace facula
