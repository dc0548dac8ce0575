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
  thread_local Casts* kept[2] = {};  // never freed: a thread that ends inside a region may end after the interpreter
  Casts*& chosen = kept[recorded];
  if (!chosen) chosen = new Casts;
  return *chosen;
}

bool eligible(const Tensor& t) { return t.defined() && t.is_cpu() && t.is_floating() && t.dtype() != DType::Float64; }

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

DType wider(const char* op, DType widest, const Tensor& t) {
  if (!eligible(t) || widest == DType::Float32) return widest;
  FACULA_CHECK(t.dtype() == DType::Float32 || t.dtype() == autocast_lower(), ErrorKind::Runtime, op,
               ": expected float32 or ", autocast_lower(), " inside an autocast region of ", autocast_lower(), ", got ",
               t.dtype());
  return t.dtype();
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

DType autocast_widest(const char* op, std::initializer_list<const Tensor*> tensors) {
  DType widest = autocast_lower();
  for (const Tensor* t : tensors) widest = wider(op, widest, *t);
  return widest;
}
DType autocast_widest(const char* op, TensorList tensors) {
  DType widest = autocast_lower();
  for (const Tensor& t : tensors) widest = wider(op, widest, t);
  return widest;
}

Tensor autocast_tensor(const Tensor& t, DType dtype) {
  if (!eligible(t) || t.dtype() == dtype) return t;
  const AutocastState& state = autocast_state();
  bool keep = state.cache_enabled && state.nesting > 0 && dtype == state.dtype && is_weight(t);
  return keep ? cached_cast(t, dtype) : to_dtype(t, dtype);
}

}  // namespace facula
