// Derivatives of indexing.
#include "autograd/formulas.h"
#include "autograd/function_support.h"
#include "functions.h"

namespace facula {
namespace {

// Places of `grad_self`-shaped zeros that `part` (smaller, in the leading corner) fills.
Tensor in_corner(const Tensor& part, IntList sizes) {
  if (part.sizes() == sizes) return part;
  // an index without positions goes with tensors of any rank
  if (part.numel() == 0 || part.sizes().size() != sizes.size()) return new_zeros(part, sizes);
  Dims pad;
  for (int64_t d = part.dim() - 1; d >= 0; --d) {
    pad.push_back(0);
    pad.push_back(sizes[static_cast<size_t>(d)] - part.size(d));
  }
  return constant_pad_nd(part, pad, Scalar(0));
}

/// In place where nothing records or batches it: the op itself would copy the zeros first.
template <class InPlace, class Op>
Tensor added_to_zeros(const Tensor& values, IntList sizes, uint32_t index_flags, InPlace in_place, Op op) {
  Tensor zeros = new_zeros(values, sizes);
  if ((values.flags() | index_flags) & kSlowFlags & ~kDeferred) return op(zeros);
  in_place(zeros);
  return zeros;
}

// What each of two gradients of a reduction into places gets; how the op reads and reduces differs.
struct Indexed {
  const Tensor& self;
  const Tensor& source;
  std::function<Tensor(const Tensor&)> read;                // the places' values, per element of source
  std::function<Tensor(const Tensor&, const Tensor&)> add;  // base with values per element of source added
  std::function<Tensor(const Tensor&)> product;             // self reduced with other elements by product
  std::function<Tensor(const Tensor&)> erase;               // zeros at the places
};

Tensor mean_backward(const Tensor& grad, const Indexed& at, bool include_self, bool of_self) {
  Tensor base = include_self ? ones_like(alias(grad)) : zeros_like(alias(grad));
  Tensor count = at.add(base, ones_like(alias(at.source)));
  count = masked_fill(count, count == 0, Scalar(1));
  return of_self ? grad / count : at.read(grad / count);
}

Tensor extreme_backward(const Tensor& grad, const Indexed& at, const Tensor& result, bool include_self, bool of_self) {
  Tensor own = to_dtype(at.self == result, grad.dtype()), taken = to_dtype(at.source == at.read(result), grad.dtype());
  Tensor count = at.add(include_self ? own : zeros_like(alias(grad)), taken);
  Tensor share = grad / masked_fill(count, count == 0, Scalar(1));
  return of_self ? own * share : taken * at.read(share);
}

Tensor product_backward(const Tensor& grad, const Indexed& at, const Tensor& result, bool of_self) {
  if (of_self) {
    Tensor nonzero_self = masked_fill(at.self, at.self == 0, Scalar(1));
    return grad * conj(at.product(nonzero_self) / nonzero_self);
  }
  // A single zero factor gets the product of the others, which is found with that factor left out.
  Tensor zero = at.source == 0;
  Tensor zeros_there = at.read(at.add(zeros_like(alias(at.self)), to_dtype(zero, at.self.dtype())));
  Tensor only_zero = zero & (zeros_there == 1);
  Tensor without = masked_fill(at.source, only_zero, Scalar(1));
  Tensor others = at.read(at.product(without));
  Tensor plain = at.read(result) / masked_fill(at.source, zero, Scalar(1));
  return at.read(grad) * conj(where(only_zero, others, plain));
}

Tensor reduction_backward(const Tensor& grad, const Indexed& at, const std::string& reduce, bool include_self,
                          const Tensor& result, bool of_self) {
  Tensor g = reduce == "sum"    ? (of_self ? grad : at.read(grad))
             : reduce == "mean" ? mean_backward(grad, at, include_self, of_self)
             : reduce == "prod" ? product_backward(grad, at, result, of_self)
                                : extreme_backward(grad, at, result, include_self, of_self);
  return of_self && !include_self ? at.erase(g) : g;
}

}  // namespace

Tensor scattered(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index) {
  return added_to_zeros(
      values, sizes, index.flags(), [&](const Tensor& to) { scatter_add_(to, dim, index, values); },
      [&](const Tensor& to) { return scatter_add(to, dim, index, values); });
}

Tensor index_added(const Tensor& values, IntList sizes, int64_t dim, const Tensor& index) {
  return added_to_zeros(
      values, sizes, index.flags(), [&](const Tensor& to) { index_add_(to, dim, index, values); },
      [&](const Tensor& to) { return index_add(to, dim, index, values, Scalar(1)); });
}

Tensor index_put_added(const Tensor& values, IntList sizes, TensorList indices) {
  return added_to_zeros(
      values, sizes, flags_of(indices), [&](const Tensor& to) { index_put_(to, indices, values, true); },
      [&](const Tensor& to) { return index_put(to, indices, values, true); });
}

Tensor scatter_src_backward(const Tensor& grad, int64_t dim, const Tensor& index, IntList src_sizes) {
  return in_corner(gather(grad, dim, index), src_sizes);
}

Tensor scatter_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& src, const std::string& reduce, bool include_self, const Tensor& result,
                               bool of_self) {
  if (index.numel() == 0) return of_self ? grad : zeros_like(src);
  // only the part of src that the index reaches takes part
  Tensor part = src;
  for (int64_t d = 0; d < src.dim(); ++d) {
    if (src.size(d) != index.size(d)) part = slice(part, d, 0, index.size(d), 1);
  }
  Indexed at{self,
             part,
             [&](const Tensor& t) { return gather(t, dim, index); },
             [&](const Tensor& base, const Tensor& values) { return scatter_add(base, dim, index, values); },
             [&](const Tensor& t) {
               bool as_self = t.sizes() == self.sizes() && of_self;
               return as_self ? scatter_reduce(t, dim, index, part, "prod", include_self)
                              : scatter_reduce(self, dim, index, t, "prod", include_self);
             },
             [&](const Tensor& t) { return scatter(t, dim, index, Scalar(0)); }};
  Tensor g = reduction_backward(grad, at, reduce, include_self, result, of_self);
  return of_self ? g : in_corner(g, src.sizes());
}

Tensor index_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& source, const std::string& reduce, bool include_self, const Tensor& result,
                             bool of_self) {
  if (index.numel() == 0) return of_self ? grad : zeros_like(source);
  Indexed at{self,
             source,
             [&](const Tensor& t) { return reshape(index_select(t, dim, index), source.sizes()); },
             [&](const Tensor& base, const Tensor& values) { return index_add(base, dim, index, values); },
             [&](const Tensor& t) {
               return of_self ? index_reduce(t, dim, index, source, "prod", include_self)
                              : index_reduce(self, dim, index, t, "prod", include_self);
             },
             [&](const Tensor& t) { return index_fill(t, dim, index, Scalar(0)); }};
  return reduction_backward(grad, at, reduce, include_self, result, of_self);
}

// Positions that the index names twice count once.
Tensor index_fill_value_backward(const Tensor& grad, int64_t dim, const Tensor& index) {
  Tensor filled = index_fill(zeros(grad.sizes(), DType::Bool, grad.device()), dim, index, Scalar(true));
  return sum(masked_select(grad, filled), std::optional<DType>());
}

Tensor masked_select_backward(const Tensor& grad, IntList sizes, const Tensor& mask) {
  return masked_scatter(zeros(broadcast(sizes, mask.sizes(), "masked_select"), grad.dtype(), grad.device()), mask,
                        grad);
}

Tensor masked_scatter_backward(const Tensor& grad, const Tensor& mask, IntList source_sizes) {
  Tensor picked = masked_select(grad, mask);
  int64_t count = count_elements(source_sizes, "masked_scatter");
  return reshape(in_corner(picked, {count}), source_sizes);
}

Tensor bag_rows(const Tensor& grad, const Tensor& bag_of, const Tensor& factors) {
  Tensor rows = index_select(grad, 0, bag_of);
  return factors.defined() ? rows * unsqueeze(factors, 1) : rows;
}

Tensor bag_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices, const Tensor& bag_of,
                            int64_t padding) {
  Tensor products = index_select(grad, 0, bag_of) * index_select(weight, 0, indices);
  Tensor sums = sum(products, std::optional<IntList>(IntList{1}), false, std::nullopt);
  return padding < 0 ? sums : masked_fill(sums, indices == padding, Scalar(0));
}

Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                                 bool scale_grad_by_freq) {
  Tensor weight = grad;
  if (scale_grad_by_freq) {
    Tensor index = reshape(to_dtype(indices, DType::Int64), {-1, 1});
    Tensor count = scatter_add(zeros({grad.size(0), 1}, grad.dtype(), grad.device()), 0, index,
                               ones_like(to_dtype(index, grad.dtype())));
    weight = weight / masked_fill(count, count == 0, Scalar(1));
  }
  Tensor rows = embedding(weight, indices);
  return padding_idx >= 0 ? masked_fill(rows, unsqueeze(indices == padding_idx, -1), Scalar(0)) : rows;
}

}  // namespace facula
