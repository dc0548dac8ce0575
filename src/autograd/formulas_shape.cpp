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
  Tensor storage = index_put(new_zeros(grad, {places}), {where_out}, reshape(grad, {-1}), true);
  Tensor where_in = positions(self.sizes(), self.strides(), self.storage_offset());
  Tensor result = index(storage, {where_in});
  if (may_self_overlap(self.sizes(), self.strides())) {
    Tensor ones_here = ones_like(alias(result));
    Tensor shown = index_put(new_zeros(grad, {places}), {where_in}, ones_here, true);
    result = result / index(shown, {where_in});
  }
  return reshape(result, self.sizes());
}

Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index) {
  Tensor result = new_zeros(grad, sizes);
  copy_(select(result, dim, index), grad, false);
  return result;
}

Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  Tensor result = new_zeros(grad, sizes);
  copy_(slice(result, dim, start, end, step), grad, false);
  return result;
}

Tensor negative_slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t count, int64_t step) {
  Tensor result = new_zeros(grad, sizes);
  copy_(negative_slice(result, dim, start, count, step), grad, false);
  return result;
}

Tensor diagonal_backward(const Tensor& grad, IntList sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  Tensor result = new_zeros(grad, sizes);
  copy_(diagonal(result, offset, dim1, dim2), grad, false);
  return result;
}

// Windows may overlap: the k-th elements of all windows lie `step` apart and are added in one go.
Tensor unfold_backward(const Tensor& grad, IntList sizes, int64_t dimension, int64_t size, int64_t step) {
  Tensor result = new_zeros(grad, sizes);
  if (sizes.empty()) return reshape(grad, {});
  int64_t d = dimension < 0 ? dimension + static_cast<int64_t>(sizes.size()) : dimension;
  if (step >= size) {
    copy_(unfold(result, d, size, step), grad, false);
    return result;
  }
  int64_t windows = grad.size(d);
  for (int64_t k = 0; k < size; ++k) {
    Tensor target = slice(result, d, k, k + (windows - 1) * step + 1, step);
    copy_(target, add(target, select(grad, -1, k)), false);
  }
  return result;
}

std::vector<Tensor> cat_backward(const Tensor& grad, const std::vector<TensorInfo>& tensors, int64_t dim) {
  int64_t d = wrap_dim(dim, grad.dim(), "cat"), at = 0;
  std::vector<Tensor> grads;
  for (const TensorInfo& t : tensors) {
    if (t.dim() == 1 && t.size(0) == 0) {  // left out of the result
      grads.push_back(zeros({0}, grad.dtype(), grad.device()));
      continue;
    }
    grads.push_back(slice(grad, d, at, at + t.size(d), 1));
    at += t.size(d);
  }
  return grads;
}

Tensor roll_backward(const Tensor& grad, IntList shifts, IntList dims) {
  Dims back(shifts);
  for (int64_t& s : back) s = -s;
  return roll(grad, back, dims);
}

// The gradient with every dimension seen as (copies, elements), summed over the copies.
Tensor repeat_backward(const Tensor& grad, IntList sizes, IntList repeats) {
  Dims split, copies;
  size_t shift = repeats.size() - sizes.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == 0) return new_zeros(grad, sizes);
    if (repeats[i] != 1 || i < shift) {
      copies.push_back(static_cast<int64_t>(split.size()));
      split.push_back(repeats[i]);
    }
    if (i >= shift) split.push_back(sizes[i - shift]);
  }
  Tensor seen = reshape(grad, split);
  return copies.empty() ? seen : sum(seen, std::optional<IntList>(copies), false, std::nullopt);
}

Tensor constant_pad_backward(const Tensor& grad, IntList pad) {
  Dims back(pad);
  for (int64_t& p : back) p = -p;
  return constant_pad_nd(grad, back, Scalar(0));
}

}  // namespace facula
