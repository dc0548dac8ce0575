#include "autograd/node.h"

#include <atomic>
#include <thread>

#include "autograd/inplace.h"
#include "functions.h"
#include "observe/observer.h"

namespace facula {
namespace {

// Later nodes run first in backward; one counter per thread keeps the hot path free of contention.
thread_local uint64_t next_sequence __attribute__((tls_model("initial-exec"))) = 0;

// A lock held for a few instructions: never while an op or Python code runs.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};
class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

constexpr size_t kStripes = 64;
SpinLock leaf_locks[kStripes];  // accumulators coming to life and to rest
SpinLock grad_locks[kStripes];  // .grad of leaves
SpinLock retained_lock;         // NodeExtra::retained of all nodes
SpinLock& stripe(SpinLock* locks, const void* p) { return locks[(reinterpret_cast<uintptr_t>(p) >> 6) % kStripes]; }

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
  if (!node->refs.decrement()) return;
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

Node::Node(bool recorded) : sequence_(next_sequence++) {
  if (__builtin_expect(thread_state.modes & kModeAnomaly, 0) && on_node_created) on_node_created(this);
  if (__builtin_expect(recorded && watching() != 0, 0)) tell_node_made(*this);
}

Node::~Node() {
  if (__builtin_expect(pyobj || (extra_ && extra_->metadata), 0) && on_node_destroyed) on_node_destroyed(this);
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

// A gradient nobody else refers to becomes `.grad` itself.
bool can_steal(const Tensor& grad, const Tensor& leaf) {
  return grad.impl()->refs.load() == 1 && grad.storage()->refs.load() == 1 && grad.is_dense() &&
         grad.sizes() == leaf.sizes() && grad.strides() == leaf.strides() && !grad.is_conj() && !grad.impl()->base;
}

Tensor first_gradient(Tensor grad, const Tensor& leaf) {
  if (GradMode::enabled()) return grad.impl()->refs.load() == 1 ? grad : clone(grad);
  if (can_steal(grad, leaf)) return grad;
  Tensor copied = leaf.is_dense() ? empty_strided(leaf.sizes(), preserved_strides(leaf.sizes(), leaf.strides()),
                                                  grad.dtype(), grad.device())
                                  : empty(leaf.sizes(), grad.dtype(), grad.device());
  copy_(copied, grad, false);
  return copied;
}

}  // namespace

void AccumulateGrad::apply(const Tensor* grads, Tensor*) {
  if (!grads[0].defined()) return;
  AutogradMeta& meta = make_autograd_meta(leaf_.impl());
  Tensor grad = std::move(const_cast<Tensor&>(grads[0]));  // the engine's reference: the gradient may be stolen
  // Passes in several threads may end at this leaf: the one that finds no gradient puts its own there, others add.
  SpinLock& lock = stripe(grad_locks, &meta);
  for (;;) {
    Tensor before;
    {
      Locked guard(lock);
      before = std::move(meta.grad);
    }
    if (!before.defined()) {
      grad = first_gradient(std::move(grad), leaf_);
    } else if (GradMode::enabled() || before.requires_grad()) {
      grad = add(before, grad);
    } else {
      add_(before, grad);
      grad = std::move(before);
    }
    Locked guard(lock);
    if (!meta.grad.defined()) {
      meta.grad = std::move(grad);
      break;
    }
  }
  for (auto& hook : std::vector<std::shared_ptr<TensorHook>>(after_accumulate)) hook->call(leaf_);
}

Ref<Node> accumulator_of(TensorImpl* impl) {
  AutogradMeta& meta = make_autograd_meta(impl);
  for (;;) {
    AccumulateGrad* seen = meta.accumulator.load();
    if (seen && seen->refs.increment_if_alive()) return Ref<Node>::adopt(seen);
    {
      Locked guard(stripe(leaf_locks, seen ? static_cast<void*>(seen) : static_cast<void*>(impl)));
      if (!seen && !meta.accumulator.load()) meta.accumulator.store(seen = new AccumulateGrad);
      else if (meta.accumulator.load() != seen || seen->leaf_.defined() || seen->refs.load() != 0)
        continue;  // another thread is at it
      AccumulateGrad* node = seen;
      node->leaf_ = Tensor::share(impl);
      if (node->output_count() == 0) node->add_output(node->leaf_);
      else node->set_output(0, node->leaf_);
      node->refs.set(1);
      return Ref<Node>::adopt(node);
    }
  }
}

// ---- history of tensors

uint32_t live_flags(TensorImpl* impl) {
  if (!(impl->flags & kWatchBase) || !(impl->base->flags & kRecorded)) return impl->flags;
  AutogradMeta* base = autograd_meta(impl->base);
  if (base && base->grad_fn) {
    impl->flags &= ~kWatchBase;
    regenerate_view_history(impl);
  }
  return impl->flags;
}

Ref<Node> grad_fn(TensorImpl* impl) {
  AutogradMeta* meta = autograd_meta(impl);
  if (impl->base) {
    AutogradMeta* base = autograd_meta(impl->base);
    if (base && base->grad_fn && meta && meta->grad_fn && meta->base_generation != base->generation)
      return regenerate_view_history(impl);
  }
  return meta ? meta->grad_fn : Ref<Node>();
}

Edge gradient_edge(TensorImpl* impl) {
  if (!(live_flags(impl) & kRecorded)) return {};
  if (Ref<Node> node = grad_fn(impl)) return {std::move(node), autograd_meta(impl)->slot};
  return {accumulator_of(impl), 0};
}

Tensor grad_of(const Tensor& tensor) {
  AutogradMeta* meta = autograd_meta(tensor.impl());
  return meta ? meta->grad : Tensor();
}

void set_grad_of(const Tensor& tensor, const Tensor& grad) {
  if (!grad.defined() && !tensor.impl()->autograd) return;
  make_autograd_meta(tensor.impl()).grad = grad;
}

void set_requires_grad(const Tensor& tensor, bool requires_grad) {
  FACULA_CHECK(!requires_grad || is_inexact(tensor.dtype()), ErrorKind::Runtime,
               "requires_grad_: only Tensors of floating point and complex dtype can require gradients, got ",
               tensor.dtype());
  if (requires_grad) {
    FACULA_CHECK(!(tensor.flags() & kInference) || (thread_state.modes & kModeInference), ErrorKind::Runtime,
                 "requires_grad_: a tensor made in inference mode cannot require gradients outside of it (clone it "
                 "first), got shape ",
                 tensor.sizes());
    tensor.impl()->flags |= kRequiresGrad;
  } else {
    AutogradMeta* meta = autograd_meta(tensor.impl());
    FACULA_CHECK(!meta || !meta->grad_fn, ErrorKind::Runtime,
                 "requires_grad_: you can only change requires_grad flags of leaf variables (use detach() for the "
                 "result of an op), "
                 "got a result of ",
                 meta && meta->grad_fn ? meta->grad_fn->name() : "");
    tensor.impl()->flags &= ~kRequiresGrad;
  }
}

void retain_grad(const Tensor& tensor) {
  FACULA_CHECK(tensor.requires_grad(), ErrorKind::Runtime,
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
  for (AutogradMeta* meta : wanting) {
    Tensor before;
    {
      Locked guard(retained_lock);
      before = meta->grad;
    }
    Tensor now = before.defined() ? add(before, grad) : clone(grad);
    Locked guard(retained_lock);
    bool alive =
        std::any_of(extra.retained.begin(), extra.retained.end(), [&](const auto& e) { return e.second == meta; });
    if (alive) std::swap(meta->grad, now);
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
  meta.grad_fn = std::move(node);
  meta.slot = slot;
}

void set_history(const Tensor& result, Node* node) {
  if (!result.defined()) return;
  uint32_t slot = node->add_output(result);
  if (!is_inexact(result.dtype())) return;
  TensorImpl* impl = result.impl();
  AutogradMeta& meta = make_autograd_meta(impl);
  set_grad_fn(meta, Ref<Node>::share(node), slot);
  if (impl->base) {
    AutogradMeta* base = autograd_meta(impl->base);
    meta.base_generation = base ? base->generation : 0;
  }
  impl->flags = (impl->flags & ~kWatchBase) | node->marks;
}

void clear_history(const Tensor& tensor) {
  if (AutogradMeta* meta = autograd_meta(tensor.impl())) set_grad_fn(*meta, nullptr, 0);
  tensor.impl()->flags &= ~kRecorded;
}

}  // namespace facula
