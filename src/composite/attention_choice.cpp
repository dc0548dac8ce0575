// The policy. A program allows backends, by PyTorch's names, and may give their order (facula.backends.cuda,
// facula.nn.attention). "flash" and "mem_efficient" are attention in one pass, each device's own kernel: they are two
// names of one implementation. "math" is attention written with ops, on every device. "cudnn" is cuDNN's, on CUDA.
// The first backend that is allowed and can compute the call does. Where the program gave no order, it is PyTorch's
// (flash, mem_efficient, math, cudnn), but cudnn comes first for float16 and bfloat16, whose products it has hardware
// for, and math before one pass where it takes less time: on CUDA by prediction, if all scores fit into a small part of
// memory; on the CPU for very few queries, as when text is generated: they are not worth packing the keys.
#include "composite/attention_choice.h"

#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "core/host.h"
#include "ops/attention.h"

namespace facula {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";
constexpr int64_t kFewestQueries = 4;
constexpr AttentionBackend kOrder[] = {AttentionBackend::Flash, AttentionBackend::Efficient, AttentionBackend::Math,
                                       AttentionBackend::Library, AttentionBackend::Other};
constexpr const char* kNames[kAttentionBackends] = {"math", "flash", "mem_efficient", "cudnn", "overrideable"};

const char* name_of(AttentionBackend backend) { return kNames[static_cast<size_t>(backend)]; }

bool is_first_for_half(const AttentionCall& call) {
  return call.query.device().is_cuda() && is_half(call.query.dtype());
}

uint32_t flags_of_call(const AttentionCall& call) {
  uint32_t flags = 0;
  for (const Tensor* t : {&call.query, &call.key, &call.value, &call.mask})
    if (t->defined()) flags |= live_flags(t->impl());
  return flags;
}

/// What neither attention in one pass nor a library can do.
std::string why_not_fused(const AttentionCall& call) {
  if (flags_of_call(call) & kBatched) return "nothing is a batch of vmap there";
  if (call.mask.defined() && (live_flags(call.mask.impl()) & kRecorded))
    return "the mask requires a gradient, and gets none there";
  if (!(call.dropout < 1)) return "dropout must be below 1, got " + std::to_string(call.dropout);
  return {};
}

LibraryAttention for_device(const AttentionCall& call) {
  const bool with_gradients = (flags_of_call(call) & kRecorded) != 0;
  return {call.query,    call.key,       call.value,      call.mask,     call.dropout,
          call.factor(), call.is_causal, call.enable_gqa, with_gradients};
}

/// Whether ops take less time than one pass.
bool is_worth_ops(const AttentionCall& call) {
  if (!call.query.device().is_cuda()) return call.query.size(-2) < kFewestQueries;
  if (!predicted_attention_times || !why_not_fused(call).empty() || !is_floating(call.query.dtype())) return false;
  const AttentionTimes times = predicted_attention_times(for_device(call));
  return times.scores_fit && times.in_ops < times.one_pass;
}

std::string why_not_library(const AttentionCall& call) {
  if (std::string why = why_not_fused(call); !why.empty()) return why;
  if (!call.query.device().is_cuda()) return "it computes on CUDA devices";
  if (!why_no_library_attention) return "it is not there";
  return why_no_library_attention(for_device(call));
}

[[noreturn, gnu::cold]] void refuse(const AttentionCall& call) {
  std::string all;
  for (const AttentionBackend backend : kOrder) {
    if (backend == AttentionBackend::Other) continue;
    const std::string why =
        std::string(name_of(backend)) + " attention is not used: " + why_not_attention(backend, call);
    if (host.warn) host.warn((std::string(kOp) + ": " + why).c_str());
    all += (all.empty() ? "" : "; ") + why;
  }
  throw_error(ErrorKind::Runtime, kOp, ": no backend that is allowed can compute it (", all, ")");
}

}  // namespace

AttentionBackend attention_backend(const AttentionCall& call) {
  const AttentionSettings& said = attention_settings();
  const auto can = [&](AttentionBackend backend) { return why_not_attention(backend, call).empty(); };
  if (!said.is_ordered) {
    if (is_first_for_half(call) && can(AttentionBackend::Library)) return AttentionBackend::Library;
    if (is_worth_ops(call) && can(AttentionBackend::Math)) return AttentionBackend::Math;
  }
  for (const auto& backend : said.order)
    if (can(backend)) return backend;
  refuse(call);
}

std::string why_not_attention(AttentionBackend backend, const AttentionCall& call) {
  if (!attention_settings().allowed[static_cast<size_t>(backend)]) return "it is switched off";
  switch (backend) {
    case AttentionBackend::Flash:
    case AttentionBackend::Efficient: return why_not_fused(call);
    case AttentionBackend::Library: return why_not_library(call);
    case AttentionBackend::Math: return {};
    default: return "nothing overrides attention";
  }
}

double AttentionCall::factor() const { return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))); }

AttentionSettings::AttentionSettings() {
  for (auto& each : allowed) each = true;
  std::copy(std::begin(kOrder), std::end(kOrder), order.begin());
}
AttentionSettings& attention_settings() {
  static AttentionSettings settings;
  return settings;
}

}  // namespace facula
