#include "ops/attention.h"

#include "raw_ops.h"

namespace facula::ops {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

void check_matrices(const Tensor& query, const Tensor& key, const Tensor& value, bool by_library) {
  const int64_t dim = query.dim();
  bool fits = dim >= 2 && key.dim() == dim && value.dim() == dim && query.size(-1) == key.size(-1) &&
              key.size(-2) == value.size(-2);
  const auto joins = [&](const Tensor& t, int64_t d) {
    const bool shared = by_library && d == dim - 3 && t.size(d) > 0 && query.size(d) % t.size(d) == 0;
    return shared || query.size(d) == t.size(d);
  };
  for (int64_t d = 0; fits && d < dim - 2; ++d) fits = joins(key, d) && joins(value, d);
  FACULA_CHECK(fits, ErrorKind::Runtime, kOp,
               ": expected a query (..., L, E), a key (..., S, E) and a value (..., S, V), got shapes ", query.sizes(),
               ", ", key.sizes(), " and ", value.sizes());
  FACULA_CHECK(is_floating(query.dtype()) && query.dtype() == key.dtype() && query.dtype() == value.dtype(),
               ErrorKind::Runtime, kOp, ": expected one floating dtype, got ", query.dtype(), ", ", key.dtype(),
               " and ", value.dtype());
}

void check_seed(const Tensor& seed, double p) {
  FACULA_CHECK(p >= 0 && p < 1, ErrorKind::Runtime, kOp, ": expected a dropout probability from 0 to below 1, got ", p);
  FACULA_CHECK(seed.defined() == (p > 0) && (!seed.defined() || (seed.numel() == 1 && seed.dtype() == DType::Int64)),
               ErrorKind::Runtime, kOp, ": dropout needs a seed, one int64, and nothing else does, got ",
               seed.defined() ? seed.numel() : 0, " elements for p = ", p);
}

/// The sizes but the last, then `last`.
Dims with_last(IntList sizes, int64_t last) {
  Dims result(sizes);
  result.back() = last;
  return result;
}

/// The mask as the kernels want it: as many elements as scores, by its strides.
Tensor prepared_mask(const Tensor& mask, IntList scores, DType dtype, bool by_library) {
  if (!mask.defined()) return mask;
  const DType compute = compute_dtype(dtype);
  FACULA_CHECK(IntList(broadcast(mask.sizes(), scores, kOp)) == scores, ErrorKind::Runtime, kOp,
               ": expected a mask that broadcasts to ", scores, ", got shape ", mask.sizes());
  const bool is_read_so =
      by_library || mask.dtype() == DType::Bool || (mask.device().is_cuda() && mask.dtype() == dtype);
  Tensor given = is_read_so ? mask : to_dtype(mask, compute);
  return make_view(given, scores, broadcast_strides(given.sizes(), given.strides(), scores), 0, false);
}

/// Fresh memory for (batch, heads, length, size), in the order (batch, length, heads, size): what follows joins heads.
/// Heads may be two dimensions: groups, and those that share a key.
Tensor empty_joined(IntList sizes, DType dtype, Device device, bool are_grouped = false) {
  const size_t dim = sizes.size();
  if (dim != (are_grouped ? 5 : 4)) return facula::empty(sizes, dtype, device);
  Dims strides(sizes);
  int64_t step = 1;
  const auto next = [&](size_t d) { strides[d] = step, step *= sizes[d]; };
  next(dim - 1);
  for (size_t d = dim - 3; d > 0; --d) next(d);
  next(dim - 2);
  next(0);
  return facula::empty_strided(sizes, strides, dtype, device);
}
bool shares_keys(const Tensor& query, const Tensor& key) {
  return query.device().is_cuda() && query.dim() == 5 && key.size(2) > 1 && key.stride(2) == 0;
}

/// Return fresh memory for the result. On the CPU it lies in memory as the query does, where that has whole rows and
/// the result its shape, and in the order of its dimensions otherwise. So views of it are possible where they are in
/// PyTorch.
Tensor empty_result(const Tensor& query, const Tensor& key, int64_t size) {
  const Dims sizes = with_last(query.sizes(), size);
  if (query.device().is_cuda()) return empty_joined(sizes, query.dtype(), query.device(), shares_keys(query, key));
  return size == query.size(-1) && query.stride(-1) == 1 ? facula::empty_like(query, query.dtype())
                                                         : facula::empty(sizes, query.dtype(), query.device());
}

}  // namespace

std::tuple<Tensor, Tensor> _attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                      const Tensor& seed, double dropout_p, bool is_causal, double scale,
                                      bool by_library) {
  check_matrices(query, key, value, by_library);
  check_seed(seed, dropout_p);
  const DType compute = compute_dtype(query.dtype());
  const Tensor given = prepared_mask(mask, with_last(query.sizes(), key.size(-2)), query.dtype(), by_library);
  // PyTorch has the usual order where it composes attention from other ops.
  const bool composed = query.dim() != 4 || dropout_p != 0 || value.size(-1) != query.size(-1);
  const bool joined = !composed || query.device().is_cuda();
  Tensor out = joined ? empty_result(query, key, value.size(-1))
                      : facula::empty(with_last(query.sizes(), value.size(-1)), query.dtype(), query.device());
  Tensor sums = facula::empty(IntList(query.sizes().data(), query.sizes().size() - 1), compute, query.device());
  if (!out.is_meta() && sums.numel())
    attention_kernel(out.device(), out, sums, AttentionInputs{query, key, value, given, seed},
                     AttentionOptions{scale, dropout_p, is_causal, by_library});
  return {std::move(out), std::move(sums)};
}

std::tuple<Tensor, Tensor, Tensor> _attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                       const Tensor& value, const Tensor& mask, const Tensor& seed,
                                                       const Tensor& result, const Tensor& logsumexp, double dropout_p,
                                                       bool is_causal, double scale, bool by_library) {
  check_matrices(query, key, value, by_library);
  check_seed(seed, dropout_p);
  const DType compute = compute_dtype(query.dtype());
  const Dims sizes = with_last(query.sizes(), value.size(-1));
  FACULA_CHECK(grad.sizes() == IntList(sizes) && result.sizes() == IntList(sizes) && grad.dtype() == query.dtype() &&
                   result.dtype() == query.dtype(),
               ErrorKind::Runtime, kOp, ": expected a result and a gradient of shape ", IntList(sizes), " and dtype ",
               query.dtype(), ", got ", result.sizes(), " and ", grad.sizes(), " of dtypes ", result.dtype(), " and ",
               grad.dtype());
  FACULA_CHECK(logsumexp.numel() * query.size(-1) == query.numel() && logsumexp.dtype() == compute, ErrorKind::Runtime,
               kOp, ": expected a sum of dtype ", compute, " for every query, got shape ", logsumexp.sizes(),
               " and dtype ", logsumexp.dtype());
  const Tensor sums = logsumexp.is_contiguous() ? logsumexp : clone(logsumexp, MemoryFormat::Contiguous);
  const Tensor given = prepared_mask(mask, with_last(query.sizes(), key.size(-2)), query.dtype(), by_library);
  auto like = [](const Tensor& t, bool grouped) { return empty_joined(t.sizes(), t.dtype(), t.device(), grouped); };
  Tensor grads[] = {like(query, shares_keys(query, key)), like(key, false), like(value, false)};
  if (!query.is_meta() && (query.numel() || key.numel() || value.numel()))
    attention_backward_kernel(query.device(), AttentionGradients{grads[0], grads[1], grads[2]},
                              AttentionInputs{query, key, value, given, seed}, AttentionResults{grad, result, sums},
                              AttentionOptions{scale, dropout_p, is_causal, by_library});
  return {grads[0], grads[1], grads[2]};
}

Tensor _attention_kept(const Tensor& scores, const Tensor& seed, double dropout_p) {
  check_seed(seed, dropout_p);
  FACULA_CHECK(scores.dtype() == DType::Float32 || scores.dtype() == DType::Float64, ErrorKind::NotImplemented, kOp,
               ": not implemented for dtype ", scores.dtype());
  FACULA_CHECK(seed.defined(), ErrorKind::Runtime, kOp, ": what dropout keeps follows from a seed, got none");
  Tensor out = facula::empty(scores.sizes(), scores.dtype(), scores.device());
  if (!out.is_meta() && out.numel()) attention_kept_kernel(out.device(), out, seed, dropout_p);
  return out;
}

Tensor _attention_weights(const Tensor& scores, const Tensor& mask, bool is_causal) {
  const char* op = "scaled_dot_product_attention";
  FACULA_CHECK(scores.dtype() == DType::Float32 || scores.dtype() == DType::Float64, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", scores.dtype());
  Tensor out = facula::empty(scores.sizes(), scores.dtype(), scores.device());
  Tensor given;
  if (mask.defined()) {
    FACULA_CHECK(IntList(broadcast(mask.sizes(), scores.sizes(), op)) == scores.sizes(), ErrorKind::Runtime, op,
                 ": expected a mask that broadcasts to ", scores.sizes(), ", got shape ", mask.sizes());
    given = mask.dtype() == DType::Bool ? mask : to_dtype(mask, scores.dtype());
    given =
        make_view(given, scores.sizes(), broadcast_strides(given.sizes(), given.strides(), scores.sizes()), 0, false);
    if (given.stride(-1) != 1) given = clone(given, MemoryFormat::Contiguous);
  }
  if (out.is_meta() || out.numel() == 0) return out;
  attention_weights_kernel(out.device(), out, scores.is_contiguous() ? scores : clone(scores, MemoryFormat::Contiguous),
                           given, is_causal);
  return out;
}

}  // namespace facula::ops
