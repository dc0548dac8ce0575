#include "autograd/saved.h"

#include <mutex>
#include <unordered_map>

#include "core/op_id.h"
#include "core/recipe.h"
#include "core/tensor_changes.h"

namespace facula {
namespace {

std::mutex writes_lock;
std::unordered_map<const Storage*, WriteRecord> writes;  // of storages written to in anomaly mode
constexpr size_t kMaxWrites = 1 << 16;

std::string lines_of_write(const Storage* storage, uint32_t version) {
  std::lock_guard<std::mutex> guard(writes_lock);
  auto found = writes.find(storage);
  return found != writes.end() && found->second.version == version ? found->second.traceback : std::string();
}

// The op a node differentiates: "MulBackward0" -> "mul".
std::string op_of(const Node& node) {
  std::string text = node.name(), op;
  text = text.substr(0, text.find("Backward"));
  for (char c : text) {
    if (c >= 'A' && c <= 'Z' && !op.empty()) op += '_';
    op += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return op;
}

std::string in_place_name(uint16_t op) {
  std::string text = op_name(op);
  return op == 0 || text.ends_with('_') ? text : text + "_";
}

[[noreturn, gnu::cold]] void report_overwritten(const Node& node, const Tensor& tensor, uint32_t saved,
                                                bool is_output) {
  uint32_t now = tensor.storage()->current_version();
  std::ostringstream text;
  text << "backward of " << op_of(node) << " (" << node.name() << "): needs its " << (is_output ? "output" : "input")
       << " of shape " << tensor.sizes() << " and dtype " << name(tensor.dtype())
       << ", which has been modified by an inplace operation after it was saved: "
       << in_place_name(tensor.storage()->last_writer()) << " wrote to it in place (version " << saved
       << " when saved, now " << now << "). Remedy: write y = op(y) in place of the op that "
       << "ends in an underscore, or clone() before writing";
  NodeExtra* extra = node.extra_if_any();
  std::string written = lines_of_write(tensor.storage(), now);
  if (!written.empty()) text << ".\nThe write ran here:\n" << written;
  if (extra && !extra->traceback.empty()) text << "\nThe saving op ran here:\n" << extra->traceback;
  else text << "; autograd.set_detect_anomaly(True) shows the source lines";
  throw Error(ErrorKind::Runtime, text.str());
}

// What a user's hooks give back stands for the value that was saved: the history of that value is its own.
class PackedWithHistory final : public PackedTensor {
 public:
  PackedWithHistory(std::unique_ptr<PackedTensor> packed, Edge origin, uint32_t recorded_flags, bool in_cell)
      : packed_(std::move(packed)), origin_(std::move(origin)), flags_(recorded_flags), in_cell_(in_cell) {}
  Tensor unpack() override {
    Tensor value = packed_->unpack();
    if (in_cell_ && (value.flags() & kSavedInCell)) return value;  // the tensor itself, whose history is what it is now
    if (!in_cell_ && !(GradMode::enabled() || (flags_ & kDual))) return value;
    Tensor fresh = in_cell_ ? value : alias(value);
    set_grad_fn(own_autograd_meta(fresh.impl()), origin_.node, origin_.slot);
    fresh.impl()->flags |= flags_;
    return fresh;
  }

 private:
  std::unique_ptr<PackedTensor> packed_;
  Edge origin_;
  uint32_t flags_;
  bool in_cell_;  // a fresh tensor each time, which looks as it did: functions of the program look at it in passes, too
};

/// A tensor that waits for its bytes, or may wait again: counted, so that it is known when only nodes hold it.
class SavedWaiting final : public PackedTensor {
 public:
  explicit SavedWaiting(const Tensor& tensor) : hold_(tensor) {}
  Tensor unpack() override { return hold_.get(); }

 private:
  SavedHold hold_;
};

}  // namespace

std::unique_ptr<PackedTensor> (*save_in_cell)(const Tensor& tensor) = nullptr;
ChangeHooks change_hooks;

void record_write(const Tensor& written) {
  if (!host.current_traceback) return;
  std::string lines = host.current_traceback();
  std::lock_guard<std::mutex> guard(writes_lock);
  if (writes.size() >= kMaxWrites) writes.clear();
  writes[written.storage()] = {written.storage()->current_version(), std::move(lines)};
}

void SavedTensor::save_special(const Tensor& tensor, bool is_output) {
  FACULA_CHECK(
      !(tensor.flags() & kInference), ErrorKind::Runtime,
      "autograd: Inference tensors cannot be saved for backward (clone it outside of inference mode), got shape ",
      tensor.sizes());
  version_ = tensor.storage()->current_version();
  is_output_ = is_output;
  flags_ = live_flags(tensor.impl()) & kRecorded;
  reattach_ = is_output && flags_;
  if (reattach_) slot_ = autograd_meta(tensor.impl())->slot;
  tensor_ =
      reattach_ ? alias(tensor) : tensor;  // an output without history: else node and tensor keep each other alive
  if (!(thread_state.modes & kModeSavedHooks)) {
    waits_ = tensor.flags() & (kDeferred | kMayWait);
    if (waits_) packed_ = std::make_unique<SavedWaiting>(std::exchange(tensor_, Tensor()));
    else if ((tensor.flags() & kInCell) && save_in_cell) save_cell(tensor);
    return;
  }
  {
    GradMode off(false);  // what a hook makes of the value is not recorded
    packed_ = host.pack_saved_tensor(tensor_);
  }
  if (!packed_) return;
  if (flags_ && !reattach_)
    packed_ = std::make_unique<PackedWithHistory>(std::move(packed_), gradient_edge(tensor.impl()), flags_, false);
  tensor_ = Tensor();
}

void SavedTensor::save_cell(const Tensor& tensor) {
  Edge origin;
  if (flags_ && !reattach_) {
    if ((flags_ & kDual) || !grad_fn(tensor.impl())) return;  // a leaf stays itself: its gradient is looked for there
    origin = gradient_edge(tensor.impl());
  }
  packed_ = save_in_cell(tensor);
  if (!packed_) return;
  if (!reattach_) change_hooks.watch(*packed_, tensor);
  waits_ = true;
  if (origin.node) packed_ = std::make_unique<PackedWithHistory>(std::move(packed_), std::move(origin), flags_, true);
  tensor_ = Tensor();
}

Tensor SavedTensor::reattached(const Tensor& tensor, const Node& node) const {
  if (!reattach_ || !(GradMode::enabled() || (flags_ & kDual))) return tensor;
  Tensor fresh = alias(tensor);
  set_grad_fn(own_autograd_meta(fresh.impl()), Ref<Node>::share(const_cast<Node*>(&node)), slot_);
  fresh.impl()->flags |= flags_;
  return fresh;
}

Tensor SavedTensor::unpack_special(const Node& node) const {
  FACULA_CHECK(
      !node.freed, ErrorKind::Runtime,
      "backward: an earlier pass freed the values that this graph saved, so it cannot go through the graph a second "
      "time (give retain_graph=True to the first pass, or compute the loss anew), got a second pass through ",
      node.name());
  if (packed_ && !waits_) return reattached(packed_->unpack(), node);
  const Tensor saved = packed_ ? packed_->unpack() : tensor_;
  if (!saved.defined()) return Tensor();
  if (saved.storage()->current_version() != version_) report_overwritten(node, saved, version_, is_output_);
  return reattached(saved, node);
}

}  // namespace facula
