// Differentiable mutation: how an in-place write changes history, also through views.
#pragma once

#include "autograd/node.h"

namespace facula {

/// Throws when autograd forbids writing to `self` now: a leaf that requires a gradient, in grad mode.
void check_writable(const Tensor& self, const char* op);

/// Gives `self` the values and the history of `value` (same shape, any dtype that casts). The storage stays.
void assign(const Tensor& self, const Tensor& value, uint16_t op);

/// After a raw write whose result does not depend on the old values (fill_, normal_, ...): the old history ends here.
void erase_history(const Tensor& self, const char* op);

/// A view whose base was written to differentiably gets its history from the base.
Ref<Node> regenerate_view_history(TensorImpl* view);

/// The in-place form of an op. `raw` writes without history; `functional` computes the result with history.
template <class Functional, class Raw>
const Tensor& run_inplace(const Tensor& self, const char* op, uint16_t id, bool any_requires_grad, Functional&& functional, Raw&& raw) {
  if (GradMode::enabled() && any_requires_grad) {
    check_writable(self, op);
    assign(self, functional(), id);
  } else {
    raw();
  }
  return self;
}

/// A view op applied in place (unsqueeze_, t_, ...): `self` takes the shape and the history of `view`.
void become_view(const Tensor& self, const Tensor& view);

}  // namespace facula
