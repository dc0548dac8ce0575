// Scaled dot-product attention: in one pass, or written with matrix products and softmax (see attention_choice.cpp).
#include "autograd/node.h"
#include "composite/attention_choice.h"
#include "core/error.h"
#include "functions.h"

namespace facula {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, bool is_causal) {
  FACULA_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, ErrorKind::Runtime, kOp,
               ": expected tensors with at least two dimensions, got shapes ", query.sizes(), ", ", key.sizes(),
               " and ", value.sizes());
  FACULA_CHECK(query.dtype() == key.dtype() && query.dtype() == value.dtype(), ErrorKind::Runtime, kOp,
               ": expected one dtype, got ", query.dtype(), ", ", key.dtype(), " and ", value.dtype());
  if (!mask.defined()) return;
  FACULA_CHECK(!is_causal, ErrorKind::Runtime, kOp, ": attn_mask and is_causal=True exclude each other, got both");
  FACULA_CHECK(mask.dtype() == DType::Bool || mask.dtype() == query.dtype() || mask.dtype() == DType::Float32,
               ErrorKind::Runtime, kOp, ": expected a mask of dtype bool, float32 or the query's, got ", mask.dtype());
}

/// `heads` of `t` (..., heads, length, size) so often that there is one for every head of the query.
Tensor repeat_heads(const Tensor& t, const Tensor& query) {
  FACULA_CHECK(query.dim() >= 3 && t.dim() >= 3 && t.size(-3) > 0 && query.size(-3) % t.size(-3) == 0,
               ErrorKind::Runtime, kOp,
               ": enable_gqa needs query heads that are a multiple of the key and value heads, got shapes ",
               query.sizes(), " and ", t.sizes());
  int64_t times = query.size(-3) / t.size(-3);
  if (times == 1) return t;
  int64_t at = t.dim() - 2;  // a new dimension after the heads
  Dims wide(t.sizes()), joined(t.sizes());
  wide.insert(static_cast<size_t>(at), times);
  joined[static_cast<size_t>(at - 1)] *= times;
  return reshape(expand(unsqueeze(t, at), wide), joined);
}

/// Whether heads of keys and values are shared by as many heads of the query each, so that no copies of them are
/// needed.
bool shares_heads(const Tensor& query, const Tensor& key, const Tensor& value) {
  return query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3 && key.size(-3) == value.size(-3) && key.size(-3) > 1 &&
         query.size(-3) > key.size(-3) && query.size(-3) % key.size(-3) == 0;
}
/// The heads of a query or its mask, as groups of those that share a key.
Tensor in_groups(const Tensor& t, int64_t groups) {
  if (!t.defined() || t.dim() < 3) return t;
  if (t.size(-3) == 1) return unsqueeze(t, -3);
  Dims sizes(t.sizes());
  const auto at = sizes.size() - 3;
  sizes[at] /= groups;
  sizes.insert(at, groups);
  return reshape(t, sizes);
}

/// `t` with the batch dimensions `batch` in front of its last two.
Tensor with_batch(const Tensor& t, IntList batch) {
  Dims sizes(batch);
  sizes.push_back(t.size(-2));
  sizes.push_back(t.size(-1));
  return t.sizes() == IntList(sizes) ? t : expand(t, sizes);
}

IntList batch_of(const Tensor& t) { return IntList(t.sizes().data(), t.sizes().size() - 2); }

}  // namespace

Tensor _attention_in_ops(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                         const Tensor& seed, double dropout_p, bool is_causal, double scale) {
  if (is_half(query.dtype())) {  // products and softmax are too coarse in narrow dtypes
    auto wide = [](const Tensor& t) { return to_dtype(t, DType::Float32); };
    const Tensor bias = mask.defined() && mask.dtype() != DType::Bool ? wide(mask) : mask;
    return to_dtype(_attention_in_ops(wide(query), wide(key), wide(value), bias, seed, dropout_p, is_causal, scale),
                    query.dtype());
  }
  Tensor scores = matmul(mul(query, scale), transpose(key, -2, -1)), kept = mask;
  bool recorded =
      mask.defined() && (live_flags(mask.impl()) & (kRecorded | kBatched));  // the op gives masks no gradient
  if (recorded && mask.dtype() != DType::Bool) {
    scores = scores + to_dtype(mask, scores.dtype());
    kept = Tensor();
  }
  Tensor weights = _attention_weights(scores, kept, is_causal);
  if (dropout_p > 0)
    weights = seed.defined() ? weights * _attention_kept(weights, seed, dropout_p) : dropout(weights, dropout_p, true);
  return matmul(weights, value);
}

Tensor scaled_dot_product_attention_uncast(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const Tensor& attn_mask, double dropout_p, bool is_causal,
                                           std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, is_causal);
  const AttentionCall call{query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale};
  const AttentionBackend backend = attention_backend(call);
  const double factor = call.factor();
  // On the CPU weights are dropped as dropout drops them, so that the same seed gives the same mask as in PyTorch.
  const bool in_ops = backend == AttentionBackend::Math || (dropout_p > 0 && query.is_cpu());
  const bool by_library = backend == AttentionBackend::Library;
  Tensor seed, q = query, k = key, v = value, mask = attn_mask;
  const bool shares =
      enable_gqa && !in_ops && !by_library && query.device().is_cuda() && shares_heads(query, key, value);
  if (shares) {
    const int64_t groups = key.size(-3);
    q = in_groups(query, groups), mask = in_groups(attn_mask, groups);
    k = unsqueeze(key, -3), v = unsqueeze(value, -3);
  } else if (enable_gqa && !by_library) {
    k = repeat_heads(key, query), v = repeat_heads(value, query);
  }
  if (in_ops) return _attention_in_ops(query, k, v, attn_mask, seed, dropout_p, is_causal, factor);
  if (dropout_p > 0) seed = random_(facula::empty({1}, DType::Int64, query.device()));
  if (by_library) return _attention_in_one(query, key, value, attn_mask, seed, dropout_p, is_causal, factor, true);
  const Dims keys = broadcast(batch_of(k), batch_of(v), kOp), batch = broadcast(batch_of(q), keys, kOp);
  const Tensor out = _attention_in_one(with_batch(q, batch), with_batch(k, batch), with_batch(v, batch), mask, seed,
                                       dropout_p, is_causal, factor, false);
  if (!shares) return out;
  Dims sizes(out.sizes());  // groups of heads are heads again
  const auto at = sizes.size() - 4;
  sizes[at + 1] *= sizes[at];
  sizes.erase(at);
  return reshape(out, sizes);
}

}  // namespace facula
