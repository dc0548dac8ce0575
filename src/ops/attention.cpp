#include "ops/attention.h"

#include "raw_ops.h"

namespace facula::ops {

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
