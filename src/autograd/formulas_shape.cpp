// Derivatives of views.
#include "autograd/formulas.h"
#include "functions.h"

namespace facula {

Tensor permute_backward(const Tensor& grad, IntList dims) {
  Dims inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) inverse[dims[i] < 0 ? dims[i] + dims.size() : dims[i]] = static_cast<int64_t>(i);
  return permute(grad, inverse);
}

// The gradient scattered over a flat copy of the storage, then read with the input's own geometry. Where the input itself
// shows a place several times, each showing gets its share.
Tensor as_strided_backward(const Tensor& grad, const TensorInfo& self, IntList size, IntList stride, std::optional<int64_t> offset) {
  int64_t places = self.storage_size();
  auto positions = [&](IntList sizes, IntList strides, int64_t start) {
    Tensor flat = empty({places}, DType::Int64);
    for (int64_t i = 0; i < places; ++i) flat.data<int64_t>()[i] = i;
    return reshape(contiguous(as_strided(flat, sizes, strides, start), MemoryFormat::Contiguous), {-1});
  };
  Tensor where_out = positions(size, stride, offset.value_or(self.storage_offset()));
  Tensor storage = index_put(zeros({places}, grad.dtype(), grad.device()), {where_out}, reshape(grad, {-1}), true);
  Tensor where_in = positions(self.sizes(), self.strides(), self.storage_offset());
  Tensor result = index(storage, {where_in});
  if (may_self_overlap(self.sizes(), self.strides())) {
    Tensor ones_here = ones_like(alias(result));
    Tensor shown = index_put(zeros({places}, grad.dtype(), grad.device()), {where_in}, ones_here, true);
    result = result / index(shown, {where_in});
  }
  return reshape(result, self.sizes());
}

Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index) {
  Tensor result = zeros(sizes, grad.dtype(), grad.device());
  copy_(select(result, dim, index), grad, false);
  return result;
}

Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  Tensor result = zeros(sizes, grad.dtype(), grad.device());
  copy_(slice(result, dim, start, end, step), grad, false);
  return result;
}

Tensor negative_slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t count, int64_t step) {
  Tensor result = zeros(sizes, grad.dtype(), grad.device());
  copy_(negative_slice(result, dim, start, count, step), grad, false);
  return result;
}

}  // namespace facula
