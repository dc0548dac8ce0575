#include "autograd/autocast.h"

#include <unordered_map>

#include "autograd/function_support.h"

namespace facula {
namespace {

/// A cast weight. `source` keeps the key's address from being taken by another tensor.
struct CachedCast {
  Tensor source, value;
  uint32_t version = 0;
};
/// Casts made while gradients were recorded, and others: a cast without history must not stand for one with it.
using Casts = std::unordered_map<const TensorImpl*, CachedCast>;
Casts& casts(bool recorded) {
  thread_local Casts* caches[2] = {};  // never freed: a thread that ends inside a region may end after the interpreter
  Casts*& chosen = caches[recorded];
  if (!chosen) chosen = new Casts;
  return *chosen;
}

constexpr uint32_t kRegions[] = {kModeAutocast, kModeAutocastCuda};

/// The number of the region whose policies are for `t`; -1 for tensors that no region touches.
int region_of(const Tensor& t) {
  if (!t.defined() || !t.is_floating() || t.dtype() == DType::Float64) return -1;
  return t.is_cpu() ? 0 : t.device().is_cuda() ? 1 : -1;
}
/// The same, -1 also where that region is not on.
int region_around(const Tensor& t) {
  const int region = region_of(t);
  return region >= 0 && autocasting(kRegions[region]) ? region : -1;
}

bool is_weight(const Tensor& t) {
  constexpr uint32_t kinds = kRequiresGrad | kDual | kBatched;
  if (t.dtype() != DType::Float32 || (t.flags() & kinds) != kRequiresGrad || t.impl()->base) return false;
  const AutogradMeta* meta = autograd_meta(t.impl());
  return !meta || !meta->grad_fn;
}

Tensor cached_cast(const Tensor& t, DType dtype) {
  CachedCast& cast = casts(GradMode::enabled())[t.impl()];
  uint32_t version = t.storage()->current_version();
  if (!cast.value.defined() || cast.version != version || cast.value.dtype() != dtype)
    cast = CachedCast{t, to_dtype(t, dtype), version};
  return cast.value;
}

Tensor cast_in(int region, const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const AutocastState& state = autocast_state();
  const bool keep =
      state.cache_enabled && state.nesting > 0 && dtype == state.dtypes[static_cast<size_t>(region)] && is_weight(t);
  return keep ? cached_cast(t, dtype) : to_dtype(t, dtype);
}

}  // namespace

AutocastState& autocast_state() {
  thread_local AutocastState state;
  return state;
}

void clear_autocast_cache() {
  casts(true).clear();
  casts(false).clear();
}

AutocastCall::AutocastCall(const char* op, AutocastPolicy cpu, AutocastPolicy cuda)
    : op_(op), policies_{cpu, cuda}, dtypes_(autocast_state().dtypes) {
  for (size_t region = 0; region < policies_.size(); ++region)
    if (policies_[region] == AutocastPolicy::Float32) dtypes_[region] = DType::Float32;
}

void AutocastCall::see(const Tensor& t) {
  const int region = region_around(t);
  if (region < 0) return;
  const auto at = static_cast<size_t>(region);
  const DType lower = autocast_state().dtypes[at];
  FACULA_CHECK(policies_[at] != AutocastPolicy::Refused, ErrorKind::Runtime, op_, ": its results overflow in ", lower,
               ", so it is not run inside an autocast region of CUDA (", op_,
               "_with_logits and the loss modules made of it are safe), got a tensor of ", t.dtype());
  if (policies_[at] != AutocastPolicy::Promote || dtypes_[at] == DType::Float32) return;
  FACULA_CHECK(t.dtype() == DType::Float32 || t.dtype() == lower, ErrorKind::Runtime, op_, ": expected float32 or ",
               lower, " inside an autocast region of ", lower, ", got ", t.dtype());
  dtypes_[at] = t.dtype();
}

Tensor AutocastCall::cast(const Tensor& t) const {
  const int region = region_around(t);
  if (region < 0 || policies_[static_cast<size_t>(region)] <= AutocastPolicy::Unchanged) return t;
  return cast_in(region, t, dtypes_[static_cast<size_t>(region)]);
}

Tensor autocast_tensor(const Tensor& t, DType dtype) {
  const int region = region_around(t);
  return region < 0 ? t : cast_in(region, t, dtype);
}

std::optional<DType> autocast_lower(const Tensor& t) {
  const int region = region_around(t);
  if (region < 0) return std::nullopt;
  return autocast_state().dtypes[static_cast<size_t>(region)];
}

}  // namespace facula
