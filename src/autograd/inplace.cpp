#include "autograd/inplace.h"

#include "autograd/copy_and_notify.h"
#include "autograd/copy_slices.h"
#include "autograd/function_support.h"
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
  FACULA_CHECK(broadcasts_to(value.sizes(), self.sizes()), ErrorKind::Runtime, op_name(op),
               "_: the result must fit in place into shape ", self.sizes(), ", got ", value.sizes());
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

}  // namespace facula
