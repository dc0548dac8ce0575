#include "autograd/node.h"

#include <pthread.h>

#include <algorithm>

#include "autograd/formulas.h"
#include "autograd/inplace.h"
#include "autograd/node_lock.h"
#include "autograd/sharing.h"
#include "core/recipe.h"
#include "core/sparse.h"
#include "functions.h"
#include "observe/observer.h"

namespace facula {

constinit std::atomic<bool> histories_are_shared{false};

thread_local constinit RequestedEdges requested __attribute__((tls_model("initial-exec")));

namespace {

// Later nodes run first in backward; one counter per thread keeps the hot path free of contention.
thread_local uint64_t next_sequence __attribute__((tls_model("initial-exec"))) = 0;

constexpr size_t kStripes = 64;
SpinLock leaf_locks[kStripes];     // accumulators coming to life and to rest
SpinLock grad_locks[kStripes];     // .grad of leaves
SpinLock retained_lock;            // NodeExtra::retained of all nodes
SpinLock history_locks[kStripes];  // grad_fn and slot of tensors

/// The child of a fork finds them open: nobody else lives there to open them. In the order in which they are nested.
template <class F>
void for_all_locks(F&& f) {
  f(retained_lock);
  for (SpinLock* locks : {leaf_locks, history_locks, grad_locks}) std::for_each_n(locks, kStripes, f);
}
void lock_all() {
  for_all_locks([](SpinLock& lock) { lock.lock(); });
}
void unlock_all() {
  for_all_locks([](SpinLock& lock) { lock.unlock(); });
}
[[maybe_unused]] const int watched_forks = pthread_atfork(lock_all, unlock_all, unlock_all);

SpinLock& stripe(SpinLock* locks, const void* p) { return locks[(reinterpret_cast<uintptr_t>(p) >> 6) % kStripes]; }

/// Around the history of a tensor, where others may exchange it.
class HistoryLock {
 public:
  explicit HistoryLock(const AutogradMeta& meta) {
    if (__builtin_expect(!histories_are_shared.load(std::memory_order_relaxed), 1)) return;
    lock_ = &stripe(history_locks, &meta);
    lock_->lock();
  }
  ~HistoryLock() {
    if (lock_) lock_->unlock();
  }
  HistoryLock(const HistoryLock&) = delete;

 private:
  SpinLock* lock_ = nullptr;
};

// A chain of nodes is taken apart in a loop, not by nested destructors.
thread_local std::vector<Node*>* pending_deletes __attribute__((tls_model("initial-exec"))) = nullptr;

[[gnu::noinline]] void delete_chain(Node* node) {
  std::vector<Node*> pending;
  pending_deletes = &pending;
  delete node;
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    delete next;
  }
  pending_deletes = nullptr;
}

}  // namespace

void retain(Node* node) { node->refs.increment(); }

void release(Node* node) {
  if (__builtin_expect(node->is_accumulator, 0)) {
    if (!node->refs.decrement_to_zero()) return;
    // Nobody refers to it: it rests, and the leaf may go.
    auto* accumulator = static_cast<AccumulateGrad*>(node);
    Tensor leaf;
    {
      Locked guard(stripe(leaf_locks, node));
      leaf = std::move(accumulator->leaf_);
    }
    return;
  }
  // who knows of a node by its context asks whether it is alive still
  const bool has_object = std::atomic_ref(node->pyobj).load(std::memory_order_relaxed) != nullptr;
  if (!(__builtin_expect(has_object, 0) ? node->refs.decrement_to_zero() : node->refs.decrement())) return;
  if (pending_deletes) pending_deletes->push_back(node);
  else delete_chain(node);
}

OutputInfo::OutputInfo(const Tensor& t)
    : dtype(t.dtype()), device(t.device()), ndim_(static_cast<int8_t>(t.impl()->ndim)) {
  int64_t* to = inline_;
  if (__builtin_expect(ndim_ > kInline, 0)) {
    more_ = std::make_unique<int64_t[]>(t.impl()->ndim);
    to = more_.get();
  }
  const int64_t* from = t.impl()->dims;
  for (int i = 0; i < ndim_; ++i) to[i] = from[i];
}

Node::Node(bool recorded) : compiled(recorded ? thread_state.compiled : uint16_t{0}), sequence_(next_sequence++) {
  if (__builtin_expect(thread_state.modes & kModeAnomaly, 0) && host.node_created) host.node_created(this);
  if (__builtin_expect(recorded && watching() != 0, 0)) notify_node_made(*this);
}

Node::~Node() {
  NodeExtra* extra = extra_if_any();
  if (__builtin_expect(pyobj || (extra && extra->metadata), 0) && host.node_destroyed) host.node_destroyed(this);
  delete extra;
}

NodeExtra& Node::make_extra() {
  auto made = std::make_unique<NodeExtra>();
  NodeExtra* found = nullptr;
  return extra_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel) ? *made.release() : *found;
}

AutogradMeta& new_autograd_meta(TensorImpl* impl) {
  auto* made = new AutogradMeta;
  AutogradMetaBase* found = nullptr;
  if (std::atomic_ref(impl->autograd).compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *static_cast<AutogradMeta*>(found);
}

AutogradMeta::~AutogradMeta() {
  if (retains_grad && grad_fn) {
    Locked guard(retained_lock);
    std::erase_if(grad_fn->extra().retained, [this](const auto& entry) { return entry.second == this; });
  }
  delete accumulator.load();
}

// ---- leaves

AccumulateGrad::AccumulateGrad() : Node(false) {
  is_accumulator = true;
  set_sequence(UINT64_MAX);  // as soon as its gradient is complete
}

namespace {

// Whether nobody else can see the memory of `grad`: a view may be the last one to hold what it is a view of.
bool is_alone(const Tensor& grad) {
  const TensorImpl* impl = grad.impl();
  if (impl->refs.load() != 1) return false;
  if (__builtin_expect(impl->storage->asks_first(), 0))
    materialize_storage(impl->storage);  // recipes hold what they read
  if (!impl->base) return impl->storage->refs.load() == 1;
  const bool plain = !GradMode::enabled() && !(impl->flags & (kBatched | kPythonDispatch));
  return plain && impl->base->refs.load() == 1 && impl->storage->refs.load() == 2 &&
         static_cast<int64_t>(impl->storage->nbytes) == grad.numel() * grad.item_size();
}

// A gradient that is alone becomes `.grad` itself.
bool can_steal(const Tensor& grad, const Tensor& leaf) {
  return is_alone(grad) && grad.is_dense() && grad.sizes() == leaf.sizes() && grad.strides() == leaf.strides() &&
         !grad.is_conj();
}

// Memory of its own, laid out as the leaf's where that is dense: later gradients are added in place.
Tensor first_gradient(Tensor grad, const Tensor& leaf) {
  if (is_sparse(grad)) return GradMode::enabled() ? clone(grad) : copy_of_parts(grad);
  if (is_sparse(leaf)) return GradMode::enabled() || !is_alone(grad) ? clone(grad) : grad;
  materialize_layout(leaf);
  if (can_steal(grad, leaf)) {
    if (grad.impl()->base) grad = alias(grad);
    grad.impl()->flags &= ~static_cast<uint32_t>(kPrivateLayout);  // channels-last as the leaf is
    return grad;
  }
  materialize_layout(grad);
  if (can_steal(grad, leaf)) return grad.impl()->base ? alias(grad) : grad;
  if (GradMode::enabled()) {
    bool plain = leaf.is_contiguous() || !leaf.is_dense();
    return plain ? clone(grad, MemoryFormat::Contiguous) : clone(laid_out(grad, TensorInfo(leaf)));
  }
  Tensor copied = leaf.is_dense() ? empty_strided(leaf.sizes(), preserved_strides(leaf.sizes(), leaf.strides()),
                                                  grad.dtype(), grad.device())
                                  : empty(leaf.sizes(), grad.dtype(), grad.device());
  copy_(copied, grad, false);
  return copied;
}

}  // namespace

namespace {

/// What `.grad` of the leaf becomes: `before` itself where that takes the gradient in.
Tensor accumulated(const Tensor& before, Tensor grad, const Tensor& leaf) {
  if (!before.defined()) return first_gradient(std::move(grad), leaf);
  if (is_sparse(before) && !is_sparse(grad)) return add(grad, before);
  if (GradMode::enabled()) return add(before, grad);
  add_(before, grad);
  return before;
}

}  // namespace

void AccumulateGrad::apply(const Tensor* grads, Tensor*) {
  if (!grads[0].defined()) return;
  AutogradMeta& meta = make_autograd_meta(leaf_.impl());
  Tensor grad = std::move(const_cast<Tensor&>(grads[0]));  // the engine's reference: the gradient may be stolen
  {
    // Passes in several threads may end at this leaf: one at a time adds. `.grad` stays where it is meanwhile, since
    // others may look at it, and since what is added may fail or be interrupted.
    NodeLock adding(*this);
    const Tensor before = grad_of(leaf_);
    Tensor now = accumulated(before, std::move(grad), leaf_);
    if (__builtin_expect((watching() & kWatchBudget) && !before.defined(), 0)) cell_hooks.gradient(now);
    if (!now.is_same(before)) {
      Locked guard(stripe(grad_locks, &meta));
      std::swap(meta.grad, now);  // and what was there dies outside of the lock
    }
  }
  if (after_accumulate.empty()) return;
  for (auto& hook : after_accumulate.all()) hook->call(leaf_);
}

Ref<Node> accumulator_of(TensorImpl* impl) {
  AutogradMeta& meta = make_autograd_meta(impl);
  for (;;) {
    AccumulateGrad* seen = meta.accumulator.load();
    if (seen && seen->refs.increment_if_alive()) return Ref<Node>::adopt(seen);
    Locked guard(stripe(leaf_locks, seen ? static_cast<void*>(seen) : static_cast<void*>(impl)));
    if (!seen) {
      if (meta.accumulator.load()) continue;  // another thread was faster
      auto* made = new AccumulateGrad;        // with the one reference that is given back
      made->leaf_ = Tensor::share(impl);
      made->add_output(made->leaf_);
      meta.accumulator.store(made);  // whole, because others may take it now
      return Ref<Node>::adopt(made);
    }
    if (seen->leaf_.defined() || seen->refs.load() != 0) continue;  // another thread is at it
    seen->leaf_ = Tensor::share(impl);
    seen->set_output(0, seen->leaf_);
    seen->refs.set(1);
    return Ref<Node>::adopt(seen);
  }
}

// ---- history of tensors

uint32_t watched_flags(const TensorImpl* view) {
  const uint32_t history = view->base->flags & kRecorded;
  // Of other bytes than the base's elements or their real parts there is no derivative.
  const bool elements = real_dtype(view->dtype) == real_dtype(view->base->dtype);
  if (!history || !is_inexact(view->dtype) || !elements) return view->flags;
  return view->flags | history;  // also of one that was made before the base required a gradient, or without recording
}

Ref<Node> grad_fn(TensorImpl* impl) {
  AutogradMeta* meta = autograd_meta(impl);
  if (impl->base && (impl->flags & (kWatchBase | kRecorded))) {
    AutogradMeta* base = autograd_meta(impl->base);
    uint32_t known = meta ? meta->base_generation.load(std::memory_order_acquire) : 0;
    if (base && base->grad_fn && known != base->generation) return regenerate_view_history(impl);
  }
  if (!meta) return {};
  HistoryLock guard(*meta);
  return meta->grad_fn;
}

Edge gradient_edge(TensorImpl* impl) {
  if (!(live_flags(impl) & kRecorded)) return {};
  if (Ref<Node> node = grad_fn(impl)) {
    const AutogradMeta& meta = *autograd_meta(impl);
    HistoryLock guard(meta);
    if (__builtin_expect(meta.grad_fn == node, 1)) return {std::move(node), meta.slot};
    if (meta.grad_fn) return {meta.grad_fn, meta.slot};  // exchanged by another thread meanwhile
  }
  // A view that requires a gradient only because its base does has no place for one, as in PyTorch.
  return impl->flags & kRecorded ? Edge{accumulator_of(impl), 0} : Edge{};
}

Tensor grad_of(const Tensor& tensor) {
  AutogradMeta* meta = autograd_meta(tensor.impl());
  if (!meta) return Tensor();
  Locked guard(stripe(grad_locks, meta));
  return meta->grad;
}

void set_grad_of(const Tensor& tensor, const Tensor& grad) {
  if (!grad.defined() && !autograd_meta(tensor.impl())) return;
  AutogradMeta& meta = make_autograd_meta(tensor.impl());
  Tensor now = grad;  // and then the old one, which dies outside of the lock
  Locked guard(stripe(grad_locks, &meta));
  std::swap(meta.grad, now);
}

void set_requires_grad(const Tensor& tensor, bool requires_grad) {
  FACULA_CHECK(!requires_grad || is_inexact(tensor.dtype()), ErrorKind::Runtime,
               "requires_grad_: a gradient needs a floating or complex dtype, got ", tensor.dtype());
  if (requires_grad) {
    FACULA_CHECK(!(tensor.flags() & kInference) || (thread_state.modes & kModeInference), ErrorKind::Runtime,
                 "requires_grad_: a tensor made in inference mode cannot require gradients outside of it (clone it "
                 "first), got shape ",
                 tensor.sizes());
    tensor.impl()->flags |= kRequiresGrad;
  } else {
    AutogradMeta* meta = autograd_meta(tensor.impl());
    FACULA_CHECK(!meta || !meta->grad_fn, ErrorKind::Runtime,
                 "requires_grad_: only a leaf can stop requiring a gradient (use detach() for the result of an op), "
                 "got a result of ",
                 meta && meta->grad_fn ? meta->grad_fn->name() : "");
    tensor.impl()->flags &= ~kRequiresGrad;
  }
}

void retain_grad(const Tensor& tensor) {
  FACULA_CHECK(requires_grad(tensor), ErrorKind::Runtime,
               "retain_grad: can't retain_grad on Tensor that has requires_grad=False, got shape ", tensor.sizes());
  Ref<Node> node = grad_fn(tensor.impl());
  AutogradMeta& meta = make_autograd_meta(tensor.impl());
  if (!node || meta.retains_grad) return;
  meta.retains_grad = true;
  Locked guard(retained_lock);
  node->extra().retained.emplace_back(meta.slot, &meta);
}

void fill_retained(NodeExtra& extra, uint32_t slot, const Tensor& grad) {
  std::vector<AutogradMeta*> wanting;
  {
    Locked guard(retained_lock);
    for (auto& [at, meta] : extra.retained) {
      if (at == slot) wanting.push_back(meta);
    }
  }
  auto alive = [&](AutogradMeta* meta) {
    return std::any_of(extra.retained.begin(), extra.retained.end(), [&](const auto& e) { return e.second == meta; });
  };
  for (AutogradMeta* meta : wanting) {
    Tensor before;
    {
      Locked guard(retained_lock);
      if (!alive(meta)) continue;
      Locked reading(stripe(grad_locks, meta));
      before = meta->grad;
    }
    Tensor now = before.defined() ? add(before, grad) : clone(grad);
    Locked guard(retained_lock);
    if (!alive(meta)) continue;
    Locked writing(stripe(grad_locks, meta));
    std::swap(meta->grad, now);
  }
}

void set_grad_fn(AutogradMeta& meta, Ref<Node> node, uint32_t slot) {
  if (__builtin_expect(meta.retains_grad, 0)) {
    Locked guard(retained_lock);
    if (meta.grad_fn)
      std::erase_if(meta.grad_fn->extra().retained, [&](const auto& entry) { return entry.second == &meta; });
    if (node) node->extra().retained.emplace_back(slot, &meta);
    else meta.retains_grad = false;
  }
  if (__builtin_expect(!histories_are_shared.load(std::memory_order_relaxed), 1)) {
    meta.grad_fn = std::move(node);
    meta.slot = slot;
    return;
  }
  // In one step: who only asks whether there is a history does not find none in between.
  static_assert(std::is_standard_layout_v<Ref<Node>> && sizeof(Ref<Node>) == sizeof(Node*));
  HistoryLock guard(meta);
  Node* before = std::atomic_ref(reinterpret_cast<Node*&>(meta.grad_fn)).exchange(node.detach());
  node = Ref<Node>::adopt(before);  // dies with the argument, outside of the lock
  meta.slot = slot;
}

void set_history(const Tensor& result, Node* node) {
  if (!result.defined()) return;
  uint32_t slot = node->add_output(result);
  if (!is_inexact(result.dtype())) return;
  TensorImpl* impl = result.impl();
  AutogradMeta& meta = own_autograd_meta(impl);
  set_grad_fn(meta, Ref<Node>::share(node), slot);
  if (impl->base) {
    AutogradMeta* base = autograd_meta(impl->base);
    meta.base_generation.store(base ? base->generation : 0, std::memory_order_relaxed);
  }
  impl->flags = (impl->flags & ~kWatchBase) | node->flags;
}

void clear_history(const Tensor& tensor) {
  if (AutogradMeta* meta = autograd_meta(tensor.impl())) set_grad_fn(*meta, nullptr, 0);
  tensor.impl()->flags &= ~kRecorded;
}

}  // namespace facula
