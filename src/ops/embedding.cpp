// embedding: rows picked by index, and the gradient of the table they come from.
#include "ops/embedding.h"

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/index_support.h"
#include "ops/needs.h"
#include "raw_create.h"
#include "raw_elementwise.h"
#include "raw_index.h"

namespace facula::ops {
namespace {

Tensor flat(const Tensor& indices) {
  Tensor wide = as_contiguous(index_as_int64(indices, "embedding"));
  if (wide.dim() == 1) return wide;
  return make_view(wide, {wide.numel()}, {1}, 0, false);
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
  FACULA_CHECK(weight.dim() == 2, ErrorKind::Runtime, "embedding: 'weight' must be 2-D, got shape ", weight.sizes());
  Tensor rows = select_positions(weight, 0, flat(indices), {}, "embedding");
  if (indices.dim() == 1) return rows;
  Dims shape(indices.sizes());
  shape.push_back(weight.size(1));
  return make_view(rows, shape, contiguous_strides(shape), 0, false);
}

Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                int64_t padding_idx, bool scale_grad_by_freq) {
  need_dimensions("embedding", "the gradient", grad_output);
  need_at_least("embedding", "num_weights", num_weights, 0);
  int64_t n = indices.numel(), width = grad_output.size(-1);
  need_count("embedding", "the gradient", grad_output, (Checked(n) * width).value_or(-1));
  Tensor index = flat(indices);
  Tensor result = zeros({num_weights, width}, grad_output.dtype(), grad_output.device(), {});
  if (result.is_meta() || grad_output.numel() == 0) return result;
  Tensor rows = as_contiguous(grad_output);
  rows = make_view(rows, {n, width}, {width, 1}, 0, false);
  index_add_(result, 0, index, rows, Scalar(1));
  if (scale_grad_by_freq) {
    Tensor counts = zeros({num_weights, 1}, grad_output.dtype(), grad_output.device(), {});
    scatter_add_(counts, 0, make_view(index, {n, 1}, {1, 1}, 0, false),
                 make_view(scalar_tensor(Scalar(1), counts.dtype(), counts.device()), {n, 1}, {0, 0}, 0, false));
    Tensor unused = eq(counts, Operand(Scalar(0)));
    masked_fill_(counts, unused, Scalar(1));
    div_into(result, Into::Part, Operand(result), Operand(counts));
  }
  if (padding_idx >= 0 && padding_idx < num_weights)
    fill_(make_view(result, {width}, {1}, padding_idx * width, false), Scalar(0));
  return result;
}

std::tuple<Tensor, Tensor> _bag_members(const Tensor& indices, const Tensor& offsets, int64_t bags, int64_t rows,
                                        int64_t padding) {
  FACULA_CHECK(indices.dtype() == DType::Int64 && offsets.dtype() == DType::Int64 && indices.dim() == 1 &&
                   offsets.dim() == 1 && bags >= 0 && bags <= offsets.numel(),
               ErrorKind::Runtime,
               "embedding_bag: expected two int64 vectors and at most as many bags as offsets, got shapes ",
               indices.sizes(), " and ", offsets.sizes(), " and ", bags, " bags");
  Tensor bag_of = facula::empty(indices.sizes(), DType::Int64, indices.device());
  Tensor sizes = facula::empty({bags}, DType::Int64, indices.device());
  if (!indices.is_meta())
    bag_members_kernel(indices.device(), bag_of, sizes, as_contiguous(indices), as_contiguous(offsets), rows, padding);
  return {std::move(bag_of), std::move(sizes)};
}

Tensor _bag_sum(const Tensor& weight, const Tensor& indices, const Tensor& bag_of, const Tensor& per_sample_weights,
                int64_t bags, int64_t padding, bool) {
  FACULA_CHECK(weight.dim() == 2 && is_floating(weight.dtype()) && indices.dtype() == DType::Int64 &&
                   bag_of.dtype() == DType::Int64 && indices.numel() == bag_of.numel() && bags >= 0,
               ErrorKind::Runtime,
               "embedding_bag: a floating-point matrix and two int64 vectors of one length, got shapes ",
               weight.sizes(), ", ", indices.sizes(), " and ", bag_of.sizes());
  FACULA_CHECK(!per_sample_weights.defined() ||
                   (per_sample_weights.numel() == indices.numel() && per_sample_weights.dtype() == weight.dtype()),
               ErrorKind::Runtime, "embedding_bag: expected one weight of the table's dtype per index, got shape ",
               per_sample_weights.defined() ? per_sample_weights.sizes() : IntList());
  Tensor result = facula::empty({bags, weight.size(1)}, weight.dtype(), weight.device());
  if (result.is_meta()) return result;
  Tensor factors = per_sample_weights.defined() ? as_contiguous(per_sample_weights) : Tensor();
  bag_sum_kernel(weight.device(), result, weight.stride(1) == 1 ? weight : as_contiguous(weight),
                 as_contiguous(indices), as_contiguous(bag_of), factors, padding);
  return result;
}

Tensor _bag_argmax(const Tensor& weight, const Tensor& indices, const Tensor& bag_of, int64_t bags, int64_t padding) {
  FACULA_CHECK(weight.dim() == 2 && indices.dtype() == DType::Int64 && bag_of.dtype() == DType::Int64 &&
                   indices.numel() == bag_of.numel() && bags >= 0,
               ErrorKind::Runtime, "embedding_bag: a matrix and two int64 vectors of one length, got shapes ",
               weight.sizes(), ", ", indices.sizes(), " and ", bag_of.sizes());
  int64_t width = weight.size(1);
  Tensor result = zeros({bags, width}, DType::Int64, weight.device(), {});
  if (!result.is_meta())
    bag_argmax_kernel(weight.device(), result, weight, as_contiguous(indices), as_contiguous(bag_of), padding);
  return result;
}

}  // namespace facula::ops
