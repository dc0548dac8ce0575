#include "autograd/node.h"

#include <mutex>

#include "autograd/inplace.h"
#include "functions.h"

namespace facula {
namespace {

// Later nodes run first in backward; one counter per thread keeps the hot path free of contention.
thread_local uint64_t next_sequence = 0;

// Guards the weak pointers from leaves to their accumulators.
std::mutex accumulator_lock;

// A chain of nodes is taken apart in a loop, not by nested destructors.
thread_local std::vector<Node*>* pending_deletes = nullptr;

}  // namespace

void retain(Node* node) { node->refs.increment(); }

void release(Node* node) {
  if (!node->refs.decrement()) return;
  if (pending_deletes) {
    pending_deletes->push_back(node);
    return;
  }
  std::vector<Node*> pending{node};
  pending_deletes = &pending;
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    delete next;
  }
  pending_deletes = nullptr;
}

Node::Node() : sequence_(next_sequence++) {
  if (thread_state.modes & kModeAnomaly && on_node_created) on_node_created(this);
}

Node::~Node() {
  if (pyobj && on_node_destroyed) on_node_destroyed(this);
}

uint32_t Node::add_output(const Tensor& tensor) {
  outputs_.push_back({Dims(tensor.sizes()), tensor.dtype(), tensor.device()});
  return static_cast<uint32_t>(outputs_.size() - 1);
}

void Node::set_output(uint32_t slot, const Tensor& tensor) {
  if (outputs_.size() <= slot) outputs_.resize(slot + 1);
  outputs_[slot] = {Dims(tensor.sizes()), tensor.dtype(), tensor.device()};
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  add_output(leaf);
  set_sequence(UINT64_MAX);  // as soon as its gradient is complete
}

AccumulateGrad::~AccumulateGrad() {
  std::lock_guard<std::mutex> guard(accumulator_lock);
  AutogradMeta* meta = autograd_meta(leaf_.impl());
  if (meta && meta->accumulator == this) meta->accumulator = nullptr;
}

namespace {

bool can_steal(const Tensor& grad, const Tensor& leaf) {
  return !GradMode::enabled() && grad.impl()->refs.load() == 1 && grad.storage()->refs.load() == 1 && grad.is_dense() &&
         grad.sizes() == leaf.sizes() && grad.strides() == leaf.strides() && !grad.is_conj();
}

}  // namespace

void AccumulateGrad::apply(const Tensor* grads, Tensor*) {
  if (!grads[0].defined()) return;
  AutogradMeta& meta = make_autograd_meta(leaf_.impl());
  Tensor grad = grads[0];
  for (auto& hook : meta.hooks) {
    Tensor replaced = hook->call(grad);
    if (replaced.defined()) grad = replaced;
  }
  if (!meta.grad.defined()) {
    // `grads` and `grad` both hold a reference: compare against what the engine handed over
    const_cast<Tensor&>(grads[0]) = Tensor();
    meta.grad = can_steal(grad, leaf_) ? grad : clone(grad);
  } else if (GradMode::enabled()) {
    meta.grad = add(meta.grad, grad);
  } else {
    add_(meta.grad, grad);
  }
  for (auto& hook : meta.accumulate_hooks) hook->call(leaf_);
}

namespace {

Ref<Node> accumulator_of(TensorImpl* impl) {
  AutogradMeta& meta = make_autograd_meta(impl);
  std::lock_guard<std::mutex> guard(accumulator_lock);
  if (meta.accumulator && meta.accumulator->refs.increment_if_alive()) return Ref<Node>::adopt(meta.accumulator);
  auto* made = new AccumulateGrad(Tensor::share(impl));
  meta.accumulator = made;
  return Ref<Node>::adopt(made);
}

}  // namespace

Ref<Node> grad_fn(TensorImpl* impl) {
  AutogradMeta* meta = autograd_meta(impl);
  if (impl->base) {
    AutogradMeta* base = autograd_meta(impl->base);
    if (base && base->grad_fn && (!meta || meta->base_generation != base->generation)) return regenerate_view_history(impl);
  }
  return meta ? meta->grad_fn : Ref<Node>();
}

Edge gradient_edge(TensorImpl* impl) {
  if (!(impl->flags & kRequiresGrad)) return {};
  Ref<Node> node = grad_fn(impl);
  if (node) return {std::move(node), autograd_meta(impl)->slot};
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
               "requires_grad_: only floating point and complex tensors can require gradients, got ", tensor.dtype());
  if (requires_grad) {
    tensor.impl()->flags |= kRequiresGrad;
  } else {
    AutogradMeta* meta = autograd_meta(tensor.impl());
    FACULA_CHECK(!meta || !meta->grad_fn, ErrorKind::Runtime,
                 "requires_grad_: only a leaf can stop requiring gradients (use detach() for the result of an op), got a result of ",
                 meta && meta->grad_fn ? meta->grad_fn->name() : "");
    tensor.impl()->flags &= ~kRequiresGrad;
  }
}

void set_history(const Tensor& result, Node* node) {
  if (!result.defined()) return;
  uint32_t slot = node->add_output(result);
  if (!is_inexact(result.dtype())) return;
  TensorImpl* impl = result.impl();
  AutogradMeta& meta = make_autograd_meta(impl);
  meta.grad_fn = Ref<Node>::share(node);
  meta.slot = slot;
  if (impl->base) {
    AutogradMeta* base = autograd_meta(impl->base);
    meta.base_generation = base ? base->generation : 0;
  }
  impl->flags |= kRequiresGrad;
}

void clear_history(const Tensor& tensor) {
  if (AutogradMeta* meta = autograd_meta(tensor.impl())) {
    meta->grad_fn = nullptr;
    meta->slot = 0;
  }
  tensor.impl()->flags &= ~kRequiresGrad;
}

}  // namespace facula
