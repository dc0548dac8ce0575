#include "autograd/inplace.h"

#include "autograd/copy_and_notify.h"
#include "core/checked.h"
#include "core/op_id.h"
#include "core/region_copies.h"
#include "core/several.h"
#include "core/sparse.h"
#include "functions.h"
#include "op_ids_create.h"
#include "ops/kernel_table.h"
#include "ops/out.h"

namespace facula {
namespace {

// Where the elements of a tensor lie in its storage, counted in elements. A real view of a complex base is described
// over the real and imaginary parts of that base; a dimension that runs backwards forwards, to be turned round by
// oriented().
struct Geometry {
  Dims sizes, strides, backwards;
  int64_t offset = 0;

  Geometry(const Tensor& t, bool as_parts) : sizes(t.sizes()), strides(t.strides()) {
    int64_t item = t.item_size();
    if (as_parts && t.is_complex()) {
      for (int64_t& s : strides) s = wrapping_mul(s, 2);
      sizes.push_back(2);
      strides.push_back(1);
      item /= 2;
    }
    offset = t.byte_offset() / item;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (strides[i] >= 0) continue;
      offset += (sizes[i] - 1) * strides[i];
      strides[i] = -strides[i];
      backwards.push_back(static_cast<int64_t>(i));
    }
  }

  /// From the tensor's own order of elements to forward strides, and back.
  Tensor oriented(Tensor t) const {
    for (int64_t d : backwards)
      t = negative_slice(t, d, sizes[static_cast<size_t>(d)] - 1, sizes[static_cast<size_t>(d)], -1);
    return t;
  }
};

constexpr size_t kStripes = 64;
SpinLock view_locks[kStripes];  // histories that views get from their bases
SpinLock& view_lock(const TensorImpl* view) { return view_locks[(reinterpret_cast<uintptr_t>(view) >> 6) % kStripes]; }

/// Returns whether one shows complex numbers where the other shows their parts: then places are counted in parts.
bool needs_parts(const TensorImpl* base, const TensorImpl* view) {
  return is_complex(base->dtype) != is_complex(view->dtype);
}

Tensor parts_of(const Tensor& t) { return t.is_complex() ? view_as_real(resolve_conj(t)) : t; }
Tensor numbers_of(const Tensor& parts) { return view_as_complex(contiguous(parts, MemoryFormat::Contiguous)); }

// Gradient of a tensor after a part of it (a view) was replaced: the part's gradient goes to the new value, the rest
// flows on to the old history.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, Edge old_base, Edge value)
      : parts_(needs_parts(base.impl(), view.impl())),
        complex_base_(base.is_complex()),
        conjugate_(base.is_conj() != view.is_conj()),
        base_(base, parts_),
        view_(view, parts_) {
    add_edge(std::move(old_base));
    add_edge(std::move(value));
    places_ = base.numel() == 0 ? 0 : 1;  // strides of a tensor without elements mean nothing
    for (size_t i = 0; places_ && i < base_.sizes.size(); ++i) places_ += (base_.sizes[i] - 1) * base_.strides[i];
    view_.offset -= base_.offset;
    base_.offset = 0;
  }
  std::string name() const override { return "CopySlices"; }

  void apply(const Tensor* grads, Tensor* results) override {
    if (!grads[0].defined()) return;
    Tensor grad = grads[0];
    if (parts_) grad = parts_of(grad);
    // The gradient in memory laid out as the base was, so that the view's geometry picks the same elements.
    Tensor places = zeros({places_}, grad.dtype(), grad.device());
    places = as_strided_scatter(places, base_.oriented(grad), base_.sizes, base_.strides, base_.offset);
    if (wants(1)) {
      Tensor part = view_.oriented(as_strided(places, view_.sizes, view_.strides, view_.offset));
      part = parts_ && !complex_base_ ? numbers_of(part) : contiguous(part, MemoryFormat::Contiguous);
      results[1] = conjugate_ ? conj(part) : part;
    }
    if (!wants(0)) return;
    Tensor none = zeros(view_.sizes, grad.dtype(), grad.device());
    places = as_strided_scatter(places, none, view_.sizes, view_.strides, view_.offset);
    Tensor rest = base_.oriented(as_strided(places, base_.sizes, base_.strides, base_.offset));
    results[0] = parts_ && complex_base_ ? numbers_of(rest) : rest;
  }

 private:
  bool parts_, complex_base_, conjugate_;
  Geometry base_, view_;
  int64_t places_ = 0;
};

// Hands the gradient on; the history of a tensor that was filled with the values of another one. A second edge, where
// there is one, leads to the values that were overwritten: their gradient is zero, and not missing.
class CopyBackwards final : public Node {
 public:
  explicit CopyBackwards(Device source) : source_(source) {}
  void apply(const Tensor* grads, Tensor* results) override {
    if (edge_count() > 1 && wants(1) && grads[0].defined()) results[1] = _zero_like(grads[0]);
    if (wants(0))
      results[0] = grads[0].device() == source_ ? grads[0] : _to_device(grads[0], source_, grads[0].dtype());
  }
  std::string name() const override { return "CopyBackwards"; }

 private:
  Device source_;
};

// The history of a tensor that was overwritten without one: what was there before has the gradient zero.
class ErasedBackward final : public Node {
 public:
  void apply(const Tensor* grads, Tensor* results) override {
    if (edge_count() > 0 && wants(0) && grads[0].defined()) results[0] = _zero_like(grads[0]);
  }
  std::string name() const override { return "ErasedBackward"; }
};

bool is_wanting_leaf(TensorImpl* t) {
  AutogradMeta* meta = autograd_meta(t);
  return (t->flags & kRequiresGrad) && !(meta && meta->grad_fn);
}

/// Others may be reading: what they know already is not written again.
void add_flags(TensorImpl* impl, uint32_t flags) {
  if ((impl->flags & flags) != flags) impl->flags |= flags;
}

uint32_t recorded_flags_of(const Tensor& value) { return recorded(live_flags(value.impl())); }

}  // namespace

void check_castable(const Tensor& result, const Tensor& written, const std::string& op) {
  FACULA_CHECK(can_cast(result.dtype(), written.dtype()), ErrorKind::Runtime, op,
               ": the result cannot be written into the tensor, since result type ", result.dtype(),
               " can't be cast to ", written.dtype());
}

void check_writable(const Tensor& self, const char* op) {
  if (self.storage()->asks_first()) will_write(self.storage(), op, self.sizes());
  check_not_inference(self, op);
  if (!GradMode::enabled()) return;
  FACULA_CHECK(!is_wanting_leaf(self.impl()), ErrorKind::Runtime, op,
               ": a leaf that requires grad is not written in place while gradients are "
               "recorded (write under no_grad(), or work on a copy), got a tensor of shape ",
               self.sizes());
  FACULA_CHECK(!self.impl()->base || !is_wanting_leaf(self.impl()->base), ErrorKind::Runtime, op,
               ": a view of a leaf that requires grad is not "
               "written in place while gradients are recorded (write under no_grad(), or work on a copy), got a tensor "
               "of shape ",
               self.sizes());
  FACULA_CHECK(
      !(self.flags() & kOneOfSeveral), ErrorKind::Runtime, op,
      ": a view made by an op that returns multiple views (unbind, split, chunk), which are not "
      "written in place where gradients are recorded (work on a copy, or index the tensor instead), got a view of "
      "shape ",
      self.sizes());
  // Its elements have a history that it does not know.
  bool unrecorded = self.impl()->base && (self.impl()->base->flags & kRequiresGrad) && is_inexact(self.dtype()) &&
                    !grad_fn(self.impl());
  FACULA_CHECK(!unrecorded, ErrorKind::Runtime, op,
               ": a view made under no_grad() is not written in place "
               "while gradients are recorded (make the view while they are, or write under no_grad()), got a "
               "view of shape ",
               self.sizes());
  // A view of a leaf that was made a leaf while it showed another tensor, whose history is not the leaf's.
  bool foreign = self.impl()->base && !(live_flags(self.impl()->base) & kRecorded) && is_inexact(self.dtype()) &&
                 grad_fn(self.impl()) && !(self.flags() & kConjugate);
  FACULA_CHECK(!foreign, ErrorKind::Runtime, op,
               ": a view of a view made under no_grad() is not written in place while gradients are recorded "
               "(work on a copy, or write under no_grad()), got a view of shape ",
               self.sizes());
}

void set_history_in_place(const Tensor& self, Node* node, uint32_t slot) {
  TensorImpl* impl = self.impl();
  if (!impl->base) {
    AutogradMeta& meta = make_autograd_meta(impl);
    set_grad_fn(meta, Ref<Node>::share(node), slot);
    ++meta.generation;
    add_flags(impl, node->flags);
    return;
  }
  Tensor base = Tensor::share(impl->base);
  auto whole = Ref<Node>::adopt(new CopySlices(base, self, gradient_edge(impl->base), {Ref<Node>::share(node), slot}));
  whole->flags = node->flags;
  AutogradMeta& base_meta = make_autograd_meta(impl->base);
  set_grad_fn(base_meta, whole, whole->add_output(base));
  ++base_meta.generation;
  add_flags(impl->base, node->flags);
  regenerate_view_history(impl, true);
  add_flags(impl, node->flags);
}

Tensor before_write(const Tensor& self) {
  Edge edge = gradient_edge(self.impl());
  Tensor copy = self.flags() & kSparse ? copy_of_parts(self) : empty_like(self, self.dtype());
  if (!is_sparse(copy)) copy_and_notify(copy, hold(self));
  if (self.flags() & kPrivateLayout) keep_private(copy);
  if (!edge.node || edge.node->is_accumulator) return copy;
  set_grad_fn(own_autograd_meta(copy.impl()), std::move(edge.node), edge.slot);
  copy.impl()->flags |= live_flags(self.impl()) & kRecorded;
  return copy;
}

void assign(const Tensor& self, const Tensor& value, uint16_t op) {
  FACULA_CHECK(broadcasts_to(value.sizes(), self.sizes()), ErrorKind::Runtime, op_name(op), "_: the result has shape ",
               value.sizes(), " and does not fit in place into shape ", self.sizes());
  check_castable(value, self, op_name(op) + std::string("_"));
  auto node = Ref<Node>::adopt(new CopyBackwards(value.device()));
  node->flags = recorded_flags_of(value);
  node->add_edge(gradient_edge(value.impl()));
  const bool forgets = op == op_id::copy_ || !node->edge(0).node;  // the old values take no part in the new ones
  if (forgets && !self.impl()->base) node->add_edge(gradient_edge(self.impl()));
  if (copied_by_region(self, value)) {
    count_write(self, op);
  } else {
    const WriteScope write(self, op_name(op), op);
    copy_and_notify(write.target(), value.sizes() == self.sizes() ? hold(value) : expand(alias(value), self.sizes()));
  }
  if (is_inexact(self.dtype())) set_history_in_place(self, node.get());
}

void erase_history(const Tensor& self, const char* op) {
  uint32_t base_flags = self.impl()->base ? self.impl()->base->flags : 0;
  uint32_t recorded_flags = recorded(live_flags(self.impl()) | base_flags);
  if (!recorded_flags) return;
  check_writable(self, op);
  auto node = Ref<Node>::adopt(new ErasedBackward);
  node->flags = recorded_flags;
  if (!self.impl()->base) node->add_edge(gradient_edge(self.impl()));
  set_history_in_place(self, node.get());
}

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
  Geometry place(Tensor::share(view), parts);
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
