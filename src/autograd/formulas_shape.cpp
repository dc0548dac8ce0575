// Derivatives of views.
#include <algorithm>

#include "autograd/engine.h"
#include "autograd/formulas.h"
#include "core/mode.h"
#include "core/sparse.h"
#include "functions.h"

namespace facula {

Tensor permute_backward(const Tensor& grad, IntList dims) {
  Dims inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[dims[i] < 0 ? dims[i] + dims.size() : dims[i]] = static_cast<int64_t>(i);
  return permute(grad, inverse);
}

// The gradient scattered over a flat copy of the storage, then read with the input's own geometry. Where the input
// itself shows a place several times, each showing gets its share.
Tensor as_strided_backward(const Tensor& grad, const TensorInfo& self, IntList size, IntList stride,
                           std::optional<int64_t> offset) {
  int64_t places = self.storage_size();
  auto positions = [&](IntList sizes, IntList strides, int64_t start) {
    Tensor flat = arange(Scalar(places), DType::Int64, grad.device());
    return reshape(contiguous(as_strided(flat, sizes, strides, start), MemoryFormat::Contiguous), {-1});
  };
  Tensor where_out = positions(size, stride, offset.value_or(self.storage_offset()));
  Tensor storage = index_put(new_zeros(grad, {places}), {where_out}, reshape(grad, {-1}), true);
  Tensor where_in = positions(self.sizes(), self.strides(), self.storage_offset());
  Tensor result = index(storage, {where_in});
  if (may_self_overlap(self.sizes(), self.strides())) {
    Tensor ones_here = ones_like(alias(result));
    Tensor counts = index_put(new_zeros(grad, {places}), {where_in}, ones_here, true);
    result = result / index(counts, {where_in});
  }
  return reshape(result, self.sizes());
}

Tensor laid_out(const Tensor& grad, const TensorInfo& like) {
  Dims order, back(like.sizes().size());
  for (int64_t d = 0; d < like.dim(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return like.strides()[static_cast<size_t>(a)] > like.strides()[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return permute(contiguous(permute(grad, order), MemoryFormat::Contiguous), back);
}

// The inverses of views: zeros with the gradient written into the view or, where the write itself would have to be
// differentiated, the gradient padded with zeros.
namespace {

/// Zeros before and after one dimension; negative numbers cut.
Tensor padded(const Tensor& t, int64_t dim, int64_t before, int64_t after) {
  Dims pad(static_cast<size_t>(2 * (t.dim() - dim)), 0);
  pad[pad.size() - 2] = before;
  pad.back() = after;
  return constant_pad_nd(t, pad, Scalar(0));
}

/// The elements of a dimension `step` apart, from `start` on in a dimension of `size`.
Tensor spaced(const Tensor& grad, int64_t dim, int64_t start, int64_t step, int64_t size) {
  Tensor t = grad;
  if (step > 1 && grad.size(dim) > 1) {  // one element has no neighbor, however large the step
    Dims shape(grad.sizes());
    shape[static_cast<size_t>(dim)] *= step;
    t = reshape(padded(unsqueeze(grad, dim + 1), dim + 1, 0, step - 1), shape);
  }
  return padded(t, dim, start, size - start - t.size(dim));
}

/// Zeros with `grad` in the places that `view` shows, no two of which are one. Views of one tensor add to one gradient.
template <class View>
Tensor placed(const Tensor& grad, IntList sizes, View view) {
  if (!(grad.flags() & kSlowFlags & ~kDeferred)) {
    if (Tensor sum = take_partial_sum(0, sizes, grad.dtype()); sum.defined()) {
      add_(view(sum), grad);
      return sum;
    }
  }
  Tensor result = new_zeros(grad, sizes);
  copy_(view(result), grad, false);
  return result;
}

/// A sparse part, which has dimension d, beside nothing: COO.
Tensor beside_nothing(const Tensor& part, IntList sizes, int64_t d, int64_t start) {
  const auto nothing = [&](int64_t count) {
    Dims shape(sizes);
    shape[static_cast<size_t>(d)] = count;
    return _sparse_zeros(shape, part.dtype(), part.device(), Layout::SparseCoo);
  };
  const Tensor parts[] = {nothing(start), part, nothing(sizes[static_cast<size_t>(d)] - start - part.size(d))};
  return cat(TensorList(parts, 3), d);
}

}  // namespace

Tensor select_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t index) {
  int64_t d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "select"), size = sizes[static_cast<size_t>(d)];
  if (is_sparse(grad))
    return beside_nothing(unsqueeze(in_layout(grad, Layout::SparseCoo), d), sizes, d, index < 0 ? index + size : index);
  if (GradMode::enabled()) return spaced(unsqueeze(grad, d), d, index < 0 ? index + size : index, 1, size);
  return placed(grad, sizes, [&](const Tensor& t) { return select(t, dim, index); });
}

Tensor slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (GradMode::enabled()) {
    int64_t d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "slice"), size = sizes[static_cast<size_t>(d)];
    return spaced(grad, d, std::clamp<int64_t>(start < 0 ? start + size : start, 0, size), step, size);
  }
  return placed(grad, sizes, [&](const Tensor& t) { return slice(t, dim, start, end, step); });
}

Tensor negative_slice_backward(const Tensor& grad, IntList sizes, int64_t dim, int64_t start, int64_t count,
                               int64_t step) {
  if (GradMode::enabled()) {
    int64_t d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "slice"), size = sizes[static_cast<size_t>(d)];
    if (count == 0) return new_zeros(grad, sizes);
    return spaced(flip(grad, IntList(&d, 1)), d, start + (count - 1) * step, -step, size);
  }
  return placed(grad, sizes, [&](const Tensor& t) { return negative_slice(t, dim, start, count, step); });
}

Tensor diagonal_backward(const Tensor& grad, IntList sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  auto rank = static_cast<int64_t>(sizes.size());
  if (GradMode::enabled()) {
    int64_t d1 = wrap_dim(dim1, rank, "diagonal"), d2 = wrap_dim(dim2, rank, "diagonal");
    Tensor square = diag_embed(grad, offset, d1, d2);
    int64_t side = square.size(d1);
    return padded(padded(square, d1, 0, sizes[static_cast<size_t>(d1)] - side), d2, 0,
                  sizes[static_cast<size_t>(d2)] - side);
  }
  return placed(grad, sizes, [&](const Tensor& t) { return diagonal(t, offset, dim1, dim2); });
}

// Windows that overlap are cut into pieces of `step` elements: the k-th pieces of all windows do not overlap, and are
// added in one go.
Tensor unfold_backward(const Tensor& grad, IntList sizes, int64_t dimension, int64_t size, int64_t step) {
  Tensor result = new_zeros(grad, sizes);
  if (sizes.empty()) return reshape(grad, {});
  int64_t d = dimension < 0 ? dimension + static_cast<int64_t>(sizes.size()) : dimension;
  if (step >= size) {
    copy_(unfold(result, d, size, step), grad, false);
    return result;
  }
  int64_t span = (grad.size(d) - 1) * step;
  for (int64_t k = 0; k < size; k += step) {
    int64_t count = std::min(step, size - k);
    Tensor pieces = unfold(slice(result, d, k, k + span + count, 1), d, count, step);
    add_(pieces, slice(grad, -1, k, k + count, 1));
  }
  return result;
}

// A copy of `length` positions, which keeps a private layout; a view would show the plain one.
static Tensor cut_out(const Tensor& t, int64_t dim, int64_t from, int64_t length) {
  Dims pad(static_cast<size_t>(2 * (t.dim() - dim)), 0);
  pad[pad.size() - 2] = -from;
  pad[pad.size() - 1] = from + length - t.size(dim);
  return constant_pad_nd(t, pad, Scalar(0));
}

std::vector<Tensor> cat_backward(const Tensor& grad, const std::vector<TensorInfo>& tensors, int64_t dim) {
  const bool nothing = grad.dim() == 1 && grad.numel() == 0;  // of empty vectors, which any dimension joins
  int64_t d = nothing ? 0 : wrap_dim(dim, grad.dim(), "cat"), at = 0;
  std::vector<Tensor> grads;
  for (const TensorInfo& t : tensors) {
    if (t.dim() == 1 && t.size(0) == 0) {  // left out of the result
      grads.push_back(zeros({0}, grad.dtype(), grad.device()));
      continue;
    }
    grads.push_back(grad.flags() & kPrivateLayout ? cut_out(grad, d, at, t.size(d))
                                                  : slice(grad, d, at, at + t.size(d), 1));
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
