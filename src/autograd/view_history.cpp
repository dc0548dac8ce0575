// How views follow the history of their bases, and what an in-place view op makes of a tensor.
#include "autograd/inplace.h"
#include "autograd/view_geometry.h"
#include "core/sparse.h"

namespace facula {
namespace {

constexpr size_t kStripes = 64;
SpinLock view_locks[kStripes];  // histories that views get from their bases
SpinLock& view_lock(const TensorImpl* view) { return view_locks[(reinterpret_cast<uintptr_t>(view) >> 6) % kStripes]; }

}  // namespace

Ref<Node> regenerate_view_history(TensorImpl* view, bool written) {
  Tensor base = Tensor::share(view->base);
  AutogradMeta& meta = make_autograd_meta(view);
  uint32_t generation = autograd_meta(view->base)->generation;
  auto known = [&] { return meta.base_generation.load(std::memory_order_relaxed) == generation; };
  {
    Locked guard(view_lock(view));
    bool follows = written || (view->flags & kWatchBase) || meta.grad_fn;  // the base's history, not its own
    if (known() || !follows) return meta.grad_fn;
  }
  bool parts = needs_parts(view->base, view);
  ViewGeometry place(Tensor::share(view), parts);
  GradMode on(true);
  Tensor source = parts ? parts_of(base) : base;
  Tensor fresh = place.oriented(as_strided(source, place.sizes, place.strides, place.offset));
  if (parts && !base.is_complex()) fresh = view_as_complex(fresh);
  if (fresh.is_complex() && (view->flags & kConjugate) != (view->base->flags & kConjugate)) fresh = conj(fresh);
  AutogradMeta* made = autograd_meta(fresh.impl());
  Ref<Node> before;  // dies outside of the lock
  Locked guard(view_lock(view));
  if (known()) return meta.grad_fn;  // another thread was faster
  before = meta.grad_fn;
  if (made) set_grad_fn(meta, made->grad_fn, made->slot);
  meta.base_generation.store(generation, std::memory_order_release);
  return meta.grad_fn;
}

void become_view(const Tensor& self, const Tensor& view) {
  TensorImpl* impl = self.impl();
  if (recorded(live_flags(view.impl()))) {  // else the history stays as it is
    Edge edge = gradient_edge(view.impl());
    AutogradMeta& meta = make_autograd_meta(impl);
    set_grad_fn(meta, std::move(edge.node), edge.slot);
    ++meta.generation;
  }
  if (is_sparse(view)) {
    take_parts(self, view);
    return;
  }
  impl->data = view.impl()->data;
  impl->flags = (impl->flags & ~kConjugate) | (view.flags() & kConjugate);
  set_sizes(impl, view.sizes(), view.strides());
}

}  // namespace facula
