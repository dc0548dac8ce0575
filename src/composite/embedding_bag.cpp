// embedding_bag: rows of a table summed, averaged or maximized bag by bag.
#include "autograd/batching.h"
#include "autograd/function_support.h"
#include "functions.h"

namespace facula {
namespace {

enum Mode { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  Tensor indices, offsets;  // int64, contiguous
  int64_t count;            // of bags
  int64_t padding;          // index that does not count, or -1
};

Tensor as_int64(const Tensor& t) { return contiguous(to_dtype(t, DType::Int64), MemoryFormat::Contiguous); }

void check_arguments(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
                     const Tensor& per_sample_weights) {
  const char* op = "embedding_bag";
  auto is_index = [](const Tensor& t) { return t.dtype() == DType::Int64 || t.dtype() == DType::Int32; };
  FACULA_CHECK(weight.dim() == 2, ErrorKind::Runtime, op, ": the weight must be two-dimensional, got shape ",
               weight.sizes());
  FACULA_CHECK(is_index(indices) && is_index(offsets), ErrorKind::Runtime, op,
               ": indices and offsets must be int64 or int32, got ", indices.dtype(), " and ", offsets.dtype());
  FACULA_CHECK(indices.dim() == 1 && offsets.dim() == 1, ErrorKind::Runtime, op,
               ": indices and offsets must be one-dimensional, got shapes ", indices.sizes(), " and ", offsets.sizes());
  FACULA_CHECK(mode >= kSum && mode <= kMax, ErrorKind::Runtime, op,
               ": mode must be 0 (sum), 1 (mean) or 2 (max), got ", mode);
  if (!per_sample_weights.defined()) return;
  FACULA_CHECK(mode == kSum, ErrorKind::Runtime, op, ": per_sample_weights go with mode 0 (sum) only, got mode ", mode);
  FACULA_CHECK(per_sample_weights.dtype() == weight.dtype() && per_sample_weights.sizes() == indices.sizes(),
               ErrorKind::Runtime, op, ": expected per_sample_weights to have the same type as the weight, ",
               weight.dtype(), ", and the shape of the indices, got ", per_sample_weights.dtype(), " of shape ",
               per_sample_weights.sizes());
}

Bags read_bags(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool include_last_offset,
               std::optional<int64_t> padding_idx) {
  Bags b{as_int64(indices), as_int64(offsets), offsets.numel() - include_last_offset, -1};
  FACULA_CHECK(b.count >= 0, ErrorKind::Runtime,
               "embedding_bag: include_last_offset needs at least one offset, got none");
  FACULA_CHECK(offsets.numel() > 0 || indices.numel() == 0, ErrorKind::Runtime,
               "embedding_bag: indices without a bag to belong to, got ", indices.numel(), " indices and no offsets");
  const int64_t rows = weight.size(0);
  if (padding_idx) {
    FACULA_CHECK(*padding_idx >= -rows && *padding_idx < rows, ErrorKind::Runtime,
                 "embedding_bag: padding_idx must be one of the embeddings, of which there are ", rows, ", got ",
                 *padding_idx);
    b.padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  }
  return b;
}

// Indices past the last offset belong to no bag: they are gathered in one behind the bags, which is then left out.
int64_t bags_with_rest(const Bags& b) { return b.count + (b.count < b.offsets.numel()); }
Tensor without_rest(const Tensor& t, const Bags& b) {
  return b.count < b.offsets.numel() ? slice(t, 0, 0, b.count, 1) : t;
}

Tensor largest_rows(const Tensor& weight, const Bags& b, const Tensor& bag_of, const Tensor& sizes, Tensor& chosen) {
  chosen = without_rest(_bag_argmax(weight, b.indices, bag_of, bags_with_rest(b), b.padding), b);
  Tensor values = gather(weight, 0, chosen);
  return masked_fill(values, unsqueeze(sizes == 0, 1), Scalar(0));
}

Tensor bag_sums(const Tensor& weight, const Bags& b, const Tensor& bag_of, const Tensor& per_sample_weights,
                bool scale_grad_by_freq, bool sparse) {
  const int64_t bags = bags_with_rest(b);
  const bool at_once = !sparse || !requires_grad(weight);
  if (at_once && is_floating(weight.dtype()) && !is_float8(weight.dtype()))
    return _bag_sum(weight, b.indices, bag_of, per_sample_weights, bags, b.padding, scale_grad_by_freq);
  Tensor rows = embedding(weight, b.indices, b.padding, scale_grad_by_freq, sparse);
  if (per_sample_weights.defined()) rows = rows * unsqueeze(per_sample_weights, 1);
  if (b.padding >= 0) rows = masked_fill(rows, unsqueeze(b.indices == b.padding, 1), Scalar(0));
  return index_add(zeros({bags, weight.size(1)}, weight.dtype(), weight.device()), 0, bag_of, rows);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag(const Tensor& weight, const Tensor& indices,
                                                         const Tensor& offsets, bool scale_grad_by_freq, int64_t mode,
                                                         bool sparse, const Tensor& per_sample_weights,
                                                         bool include_last_offset, std::optional<int64_t> padding_idx) {
  if (is_batched(indices) || is_batched(offsets)) {  // values of each example's own
    Batch batch("embedding_bag", weight, indices, offsets, per_sample_weights);
    return batch.loop([&](const Batch::Example& e) {
      return embedding_bag(e(weight), e(indices), e(offsets), scale_grad_by_freq, mode, false, e(per_sample_weights),
                           include_last_offset, padding_idx);
    });
  }
  check_arguments(weight, indices, offsets, mode, per_sample_weights);
  check_one_device("embedding_bag", weight, indices, offsets, per_sample_weights);
  FACULA_CHECK(!weight.is_meta(), ErrorKind::NotImplemented,
               "embedding_bag: not implemented for meta tensors, got a meta weight");
  Bags b = read_bags(weight, indices, offsets, include_last_offset, padding_idx);
  auto [bag_of, sizes] = _bag_members(b.indices, b.offsets, b.count, weight.size(0), b.padding);
  if (mode == kMax) {
    Tensor chosen;
    Tensor result = largest_rows(weight, b, bag_of, sizes, chosen);
    return {result, bag_of, sizes, chosen};
  }
  Tensor result = without_rest(bag_sums(weight, b, bag_of, per_sample_weights, scale_grad_by_freq, sparse), b);
  if (mode == kMean) {
    Tensor divisor = to_dtype(masked_fill(sizes, sizes == 0, Scalar(1)), weight.dtype());
    result = result / unsqueeze(divisor, 1);
  }
  return {result, bag_of, sizes, sizes};
}

}  // namespace facula
