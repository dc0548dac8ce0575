#include "autograd/saved.h"

#include "core/op_id.h"

namespace facula {

SavedTensor::SavedTensor(const Tensor& tensor, bool is_output) : is_output_(is_output) {
  if (!tensor.defined()) return;
  version_ = tensor.storage()->current_version();
  if (pack_saved_tensor) {
    packed_.reset(pack_saved_tensor(is_output ? alias(tensor) : tensor));
    if (packed_) {
      if (is_output) slot_ = autograd_meta(tensor.impl()) ? autograd_meta(tensor.impl())->slot : 0;
      reattach_ = is_output && tensor.requires_grad();
      return;
    }
  }
  if (is_output && tensor.requires_grad()) {
    tensor_ = alias(tensor);  // without history, or node and tensor would keep each other alive
    slot_ = autograd_meta(tensor.impl())->slot;
    reattach_ = true;
  } else {
    tensor_ = tensor;
  }
}

namespace {

[[noreturn, gnu::cold]] void report_overwritten(const Node& node, const Tensor& tensor, uint32_t saved, uint32_t now, bool is_output) {
  std::ostringstream text;
  text << "backward of " << node.name() << ": needs its " << (is_output ? "result" : "input") << " of shape " << tensor.sizes()
       << " (" << name(tensor.dtype()) << "), which has been modified by an inplace operation since it was saved: "
       << op_name(tensor.storage()->writer) << " wrote to it (version " << saved << " when saved, now " << now
       << "). Remedy: use the form of that op that makes a new tensor, or clone() before writing";
  if (!node.traceback.empty()) text << ".\nThe saving op ran here:\n" << node.traceback;
  else text << "; facula.autograd.set_detect_anomaly(True) shows the lines";
  throw Error(ErrorKind::Runtime, text.str());
}

}  // namespace

Tensor SavedTensor::unpack(const Node& node) const {
  FACULA_CHECK(!node.freed, ErrorKind::Runtime, "backward: the graph has been used already and its saved values are freed "
               "(give retain_graph=True to the first backward to use it again), got a second pass through ", node.name());
  if (packed_) {
    Tensor tensor = packed_->unpack();
    if (reattach_ && GradMode::enabled()) {
      tensor = alias(tensor);
      AutogradMeta& meta = make_autograd_meta(tensor.impl());
      meta.grad_fn = Ref<Node>::share(const_cast<Node*>(&node));
      meta.slot = slot_;
      tensor.impl()->flags |= kRequiresGrad;
    }
    return tensor;
  }
  if (!tensor_.defined()) return Tensor();
  uint32_t now = tensor_.storage()->current_version();
  if (now != version_) report_overwritten(node, tensor_, version_, now, is_output_);
  if (!reattach_ || !GradMode::enabled()) return tensor_;
  Tensor tensor = alias(tensor_);
  AutogradMeta& meta = make_autograd_meta(tensor.impl());
  meta.grad_fn = Ref<Node>::share(const_cast<Node*>(&node));
  meta.slot = slot_;
  tensor.impl()->flags |= kRequiresGrad;
  return tensor;
}

void SavedTensor::reset() {
  tensor_ = Tensor();
  packed_.reset();
}

}  // namespace facula
