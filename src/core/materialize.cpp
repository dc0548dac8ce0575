// Policy: memory of a private layout is exchanged under one mutex, after it was copied without it (the copy may let
// other threads of the interpreter run). Who copied looks whether somebody has written meanwhile, and copies again; who
// has written looks whether the memory was exchanged meanwhile, and writes again, to the new one. The version is
// counted between the two: so one of them sees the other.
#include <mutex>

#include "core/budget_hooks.h"
#include "core/held.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/sparse.h"

namespace facula {
namespace {

std::mutex exchanging;  // held for some loads and stores only

}  // namespace

Tensor hold_now(const Tensor& t) {
  std::lock_guard<std::mutex> guard(exchanging);
  Tensor held = make_view(t, t.sizes(), t.strides(), 0, false);
  held.impl()->flags |= (t.flags() & kPrivateLayout) | kHeld;
  return held;
}

void materialize_layout_now(const Tensor& t) {
  TensorImpl* impl = t.impl();
  for (;;) {
    const Tensor before = hold_now(t);
    if (!(before.flags() & kPrivateLayout)) return;  // another thread was faster
    const uint32_t version = before.storage()->current_version();
    const Tensor plain = empty(before.sizes(), before.dtype(), before.device());
    copy_elements(plain, before);
    if (__builtin_expect((before.flags() & kInCell) && budget_hooks.layout_materialized, 0))
      budget_hooks.layout_materialized(before, plain);
    TensorImpl* from = plain.impl();
    std::lock_guard<std::mutex> guard(exchanging);
    if (!(impl->flags & kPrivateLayout)) return;
    if (before.storage()->current_version() != version) continue;
    from->storage->version.store(version, std::memory_order_relaxed);
    from->storage->writer.store(before.storage()->last_writer(), std::memory_order_relaxed);
    std::swap(impl->storage, from->storage);
    impl->data = impl->storage->data;
    std::copy(from->strides().begin(), from->strides().end(), impl->mutable_strides());
    impl->flags = (impl->flags & ~(kLayoutFlags | kPrivateLayout | kHeld)) | (from->flags & kLayoutFlags);
    return;
  }
}

void materialize_now(const Tensor& t) {
  if (t.flags() & kSparse) report_no_elements(t);
  materialize_bytes(t);
  materialize_layout(t);
}

void end_held_write(const Tensor& self, const Tensor& held, uint16_t op) noexcept {
  held.storage()->bump_version(op);
  {
    std::lock_guard<std::mutex> guard(exchanging);
    if (self.storage() == held.storage()) return;
  }
  const Uninterrupted whole;
  copy_elements(self, held);
  self.storage()->bump_version(op);
}

}  // namespace facula
