#include "autograd/inplace.h"

#include "core/op_id.h"
#include "functions.h"
#include "ops/kernel_table.h"
#include "ops/out.h"

namespace facula {
namespace {

// Gradient of a tensor after a part of it (a view) was replaced: the part's gradient goes to the new value, the rest flows
// on to the old history.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, Edge old_base, Edge value)
      : base_sizes_(base.sizes()), base_strides_(base.strides()), view_sizes_(view.sizes()), view_strides_(view.strides()),
        offset_(view.storage_offset() - base.storage_offset()) {
    add_edge(std::move(old_base));
    add_edge(std::move(value));
  }
  std::string name() const override { return "CopySlices"; }

  void apply(const Tensor* grads, Tensor* results) override {
    if (!grads[0].defined()) return;
    // A dense copy in the base's own memory order, so that the view's geometry picks the same elements.
    Tensor grad = empty_strided_grad(grads[0]);
    grad = copy(grad, grads[0]);
    Tensor part = as_strided(grad, view_sizes_, view_strides_, grad.storage_offset() + offset_);
    if (wants(1)) results[1] = clone(part);
    if (wants(0)) {
      GradMode off(GradMode::enabled());
      results[0] = as_strided_scatter(grad, zeros_like(part), view_sizes_, view_strides_, grad.storage_offset() + offset_);
    }
  }

 private:
  Tensor empty_strided_grad(const Tensor& grad) const {
    return empty_strided(base_sizes_, base_strides_, grad.dtype(), grad.device());
  }
  Dims base_sizes_, base_strides_, view_sizes_, view_strides_;
  int64_t offset_;
};

class ErasedBackward final : public Node {
 public:
  void apply(const Tensor*, Tensor*) override {}
  std::string name() const override { return "ErasedBackward"; }
};

Edge history_edge(TensorImpl* impl) {
  if (!(impl->flags & kRequiresGrad)) return {};
  return gradient_edge(impl);
}

void rebase(const Tensor& self, Edge value_edge) {
  TensorImpl* impl = self.impl();
  AutogradMeta& meta = make_autograd_meta(impl);
  if (!impl->base) {
    if (!value_edge.node) {
      auto node = Ref<Node>::adopt(new ErasedBackward);
      uint32_t slot = node->add_output(self);
      value_edge = {node, slot};
    }
    meta.grad_fn = value_edge.node;
    meta.slot = value_edge.slot;
    ++meta.generation;
    impl->flags |= kRequiresGrad;
    return;
  }
  Tensor base = Tensor::share(impl->base);
  auto node = Ref<Node>::adopt(new CopySlices(base, self, history_edge(impl->base), std::move(value_edge)));
  AutogradMeta& base_meta = make_autograd_meta(impl->base);
  base_meta.slot = node->add_output(base);
  base_meta.grad_fn = node;
  ++base_meta.generation;
  impl->base->flags |= kRequiresGrad;
  regenerate_view_history(impl);
}

}  // namespace

void check_writable(const Tensor& self, const char* op) {
  if (!GradMode::enabled()) return;
  auto is_wanting_leaf = [](TensorImpl* t) {
    AutogradMeta* meta = autograd_meta(t);
    return (t->flags & kRequiresGrad) && !(meta && meta->grad_fn);
  };
  FACULA_CHECK(!is_wanting_leaf(self.impl()), ErrorKind::Runtime, op,
               ": a leaf that requires grad cannot be used in an in-place operation (use torch.no_grad(), or work on a copy), got shape ",
               self.sizes());
  FACULA_CHECK(!self.impl()->base || !is_wanting_leaf(self.impl()->base), ErrorKind::Runtime, op,
               ": a view of a leaf that requires grad cannot be used in an in-place operation (use torch.no_grad(), or work on a copy), got shape ",
               self.sizes());
}

void assign(const Tensor& self, const Tensor& value, uint16_t op) {
  FACULA_CHECK(broadcasts_to(value.sizes(), self.sizes()), ErrorKind::Runtime, op_name(op), "_: the result has shape ",
               value.sizes(), " and does not fit in place into shape ", self.sizes());
  FACULA_CHECK(can_cast(value.dtype(), self.dtype()), ErrorKind::Runtime, op_name(op), "_: a result of ", value.dtype(),
               " cannot be written into ", self.dtype());
  check_no_internal_overlap(self, op_name(op));
  Tensor fitted = value;
  if (fitted.dtype() != self.dtype()) fitted = to_dtype(fitted, self.dtype());
  if (fitted.sizes() != self.sizes()) fitted = expand(fitted, self.sizes());
  if (!self.is_meta()) copy_kernel(self.device(), self, fitted);
  self.storage()->bump_version(op);
  rebase(self, history_edge(fitted.impl()));
}

void erase_history(const Tensor& self, const char* op) {
  if (!GradMode::enabled()) return;
  uint32_t base_flags = self.impl()->base ? self.impl()->base->flags : 0;
  if (!((self.flags() | base_flags) & kRequiresGrad)) return;
  check_writable(self, op);
  rebase(self, Edge{});
}

Ref<Node> regenerate_view_history(TensorImpl* view) {
  Tensor base = Tensor::share(view->base);
  AutogradMeta& meta = make_autograd_meta(view);
  AutogradMeta& base_meta = make_autograd_meta(view->base);
  int64_t offset = (view->data - base.storage()->data) / item_size(view->dtype);
  GradMode on(true);
  Tensor fresh = as_strided(base, view->sizes(), view->strides(), offset);
  meta.grad_fn = autograd_meta(fresh.impl())->grad_fn;
  meta.slot = autograd_meta(fresh.impl())->slot;
  meta.base_generation = base_meta.generation;
  view->flags |= kRequiresGrad;
  return meta.grad_fn;
}

void become_view(const Tensor& self, const Tensor& view) {
  TensorImpl* impl = self.impl();
  bool history = view.requires_grad();
  if (history) {
    AutogradMeta* from = autograd_meta(view.impl());
    AutogradMeta& meta = make_autograd_meta(impl);
    Ref<Node> node = from->grad_fn;
    meta.slot = from->slot;
    meta.grad_fn = node;
  }
  impl->data = view.impl()->data;
  set_sizes(impl, view.sizes(), view.strides());
}

}  // namespace facula
