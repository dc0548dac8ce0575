// Scaled dot-product attention, written with matrix products and softmax.
#include <cmath>

#include "autograd/node.h"
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
  FACULA_CHECK(!is_causal, ErrorKind::Runtime, kOp, ": attn_mask and is_causal exclude each other, got both");
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

}  // namespace

Tensor scaled_dot_product_attention_uncast(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const Tensor& attn_mask, double dropout_p, bool is_causal,
                                           std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, is_causal);
  if (is_half(query.dtype())) {  // products and softmax are too coarse in narrow dtypes
    auto wide = [](const Tensor& t) { return to_dtype(t, DType::Float32); };
    Tensor mask = attn_mask.defined() && attn_mask.dtype() != DType::Bool ? wide(attn_mask) : attn_mask;
    Tensor result = scaled_dot_product_attention(wide(query), wide(key), wide(value), mask, dropout_p, is_causal, scale,
                                                 enable_gqa);
    return to_dtype(result, query.dtype());
  }
  Tensor k = enable_gqa ? repeat_heads(key, query) : key, v = enable_gqa ? repeat_heads(value, query) : value;
  double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  Tensor scores = matmul(mul(query, factor), transpose(k, -2, -1));
  Tensor mask = attn_mask;
  bool recorded =
      mask.defined() && (live_flags(mask.impl()) & (kRecorded | kBatched));  // the op gives masks no gradient
  if (recorded && mask.dtype() != DType::Bool) {
    scores = scores + to_dtype(mask, scores.dtype());
    mask = Tensor();
  }
  Tensor weights = _attention_weights(scores, mask, is_causal);
  if (dropout_p > 0) weights = dropout(weights, dropout_p, true);
  return matmul(weights, v);
}

}  // namespace facula
