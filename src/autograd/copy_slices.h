// Defines the node of a tensor of which a part was replaced through a view.
#pragma once

#include "autograd/view_geometry.h"

namespace facula {

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
  ViewGeometry base_, view_;
  int64_t places_ = 0;
};

}  // namespace facula
