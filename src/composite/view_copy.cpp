// The *_copy forms: what a view op shows, in memory of its own.
#include <cstdint>

#include "autograd/function_support.h"
#include "functions.h"

namespace facula {
namespace {

Tensor fresh(const Tensor& view) { return clone(view, MemoryFormat::Contiguous); }

std::vector<Tensor> fresh(std::vector<Tensor> views) {
  for (Tensor& view : views) view = fresh(view);
  return views;
}

// Writes every part to the tensor that the caller gave for it.
std::vector<Tensor> into(const char* op, const std::vector<Tensor>& parts, TensorList out) {
  FACULA_CHECK(parts.size() == out.size(), ErrorKind::Runtime, op, ": out= must hold a tensor for each of the ",
               parts.size(), " parts, got ", out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    check_out(op, flags_of(parts[i]), OutHistory::Recorded, {&out[i]});
    Out(op, 0, out[i], Out::Cast::None).finish(fresh(parts[i]));
  }
  return out.vec();
}

}  // namespace

Tensor alias_copy(const Tensor& self) { return clone(self); }
Tensor as_strided_copy(const Tensor& self, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  return fresh(as_strided(self, size, stride, storage_offset));
}
Tensor detach_copy(const Tensor& self) { return clone(alias(self)); }
Tensor diagonal_copy(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  return fresh(diagonal(self, offset, dim1, dim2));
}
Tensor expand_copy(const Tensor& self, IntList size, bool implicit) { return fresh(expand(self, size, implicit)); }
Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return fresh(narrow(self, dim, start, length));
}
Tensor permute_copy(const Tensor& self, IntList dims) { return fresh(permute(self, dims)); }
Tensor select_copy(const Tensor& self, int64_t dim, int64_t index) { return fresh(select(self, dim, index)); }
Tensor slice_copy(const Tensor& self, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                  int64_t step) {
  return fresh(slice(self, dim, start.value_or(0), end.value_or(INT64_MAX), step));
}
Tensor squeeze_copy(const Tensor& self) { return fresh(squeeze(self)); }
Tensor squeeze_copy(const Tensor& self, int64_t dim) { return fresh(squeeze(self, dim)); }
Tensor squeeze_copy(const Tensor& self, IntList dim) { return fresh(squeeze(self, dim)); }
Tensor t_copy(const Tensor& self) { return fresh(t(self)); }
Tensor transpose_copy(const Tensor& self, int64_t dim0, int64_t dim1) { return fresh(transpose(self, dim0, dim1)); }
Tensor unfold_copy(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return fresh(unfold(self, dimension, size, step));
}
Tensor unsqueeze_copy(const Tensor& self, int64_t dim) { return fresh(unsqueeze(self, dim)); }
Tensor view_copy(const Tensor& self, IntList size) { return fresh(reshape(self, size)); }
Tensor view_copy(const Tensor& self, DType dtype) { return fresh(view(self, dtype)); }
Tensor view_as_complex_copy(const Tensor& self) { return fresh(view_as_complex(self)); }
Tensor view_as_real_copy(const Tensor& self) { return fresh(view_as_real(self)); }
std::vector<Tensor> split_copy(const Tensor& self, int64_t split_size, int64_t dim) {
  return fresh(split(self, split_size, dim));
}
std::vector<Tensor> split_with_sizes_copy(const Tensor& self, IntList split_sizes, int64_t dim) {
  return fresh(split_with_sizes(self, split_sizes, dim));
}
std::vector<Tensor> unbind_copy(const Tensor& self, int64_t dim) { return fresh(unbind(self, dim)); }

std::vector<Tensor> split_copy(const Tensor& self, int64_t split_size, int64_t dim, TensorList out) {
  return into("split_copy", split(self, split_size, dim), out);
}
std::vector<Tensor> split_with_sizes_copy(const Tensor& self, IntList split_sizes, int64_t dim, TensorList out) {
  return into("split_with_sizes_copy", split_with_sizes(self, split_sizes, dim), out);
}
std::vector<Tensor> unbind_copy(const Tensor& self, int64_t dim, TensorList out) {
  return into("unbind_copy", unbind(self, dim), out);
}

}  // namespace facula
