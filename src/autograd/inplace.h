// Implements differentiable mutation: how an in-place write changes history, also through views.
#pragma once

#include "autograd/saved.h"
#include "core/write.h"

namespace facula {

/// Throws when autograd forbids writing to `self` now: a leaf that requires a gradient, in grad mode, or a tensor of
/// inference mode outside of it.
void check_writable(const Tensor& self, const char* op);

/// Throws where a result has a dtype that does not go into that of the written tensor.
void check_castable(const Tensor& result, const Tensor& written, const std::string& op);

/// Gives `self` the values and the history of `value` (same shape, any dtype that casts). The storage stays.
void assign(const Tensor& self, const Tensor& value, uint16_t op);

/// Makes output `slot` of `node` the history of `self` after a write in place; of a view, of its base as well.
void set_history_in_place(const Tensor& self, Node* node, uint32_t slot);
/// The same for a node with one output, which it does not know yet.
inline void set_history_in_place(const Tensor& self, Node* node) {
  set_history_in_place(self, node, node->add_output(self));
}

/// After a raw write whose result does not depend on the old values (fill_, normal_, ...): the old history ends here.
void erase_history(const Tensor& self, const char* op);

/// A view whose base was written to differentiably gets its history from the base. Threads that meet here get the same
/// history.
/// `written`: also one that was made without recording, because it is the view written to.
Ref<Node> regenerate_view_history(TensorImpl* view, bool written = false);

/// The value and the history of a tensor that is about to be written, as a tensor of its own.
Tensor before_write(const Tensor& self);

/// The in-place form of an op. `raw` writes without history; `functional` computes the result from the old value, with
/// history.
template <class Functional, class Raw>
const Tensor& run_inplace(const Tensor& self, const char* op, uint16_t id, uint32_t recorded_flags,
                          Functional&& functional, Raw&& raw) {
  check_not_inference(self, op);
  if (recorded_flags) {
    check_writable(self, op);
    assign(self, functional(before_write(self)), id);
  } else {
    raw();
  }
  note_write(self);
  return self;
}

/// A view op applied in place (unsqueeze_, t_, ...): `self` takes the shape and the history of `view`.
void become_view(const Tensor& self, const Tensor& view);

}  // namespace facula
