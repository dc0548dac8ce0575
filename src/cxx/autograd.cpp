// Gradients for programs in C++: passes, what tensors say of their history, functions with a derivative of one's own.
#include "torch/autograd.h"

#include <cxxabi.h>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "core/tensor_changes.h"
#include "functions.h"

namespace torch {

using facula::ErrorKind;

// ---- modes

void GradMode::set_enabled(bool enabled) { facula::thread_state.grad_enabled = enabled; }

InferenceMode::InferenceMode(bool enabled)
    : modes_(facula::thread_state.modes), grad_(facula::thread_state.grad_enabled) {
  if (enabled) facula::thread_state.modes |= facula::kModeInference;
  else facula::thread_state.modes &= ~static_cast<uint32_t>(facula::kModeInference);
  facula::thread_state.grad_enabled = !enabled;
}
InferenceMode::~InferenceMode() {
  facula::thread_state.modes = modes_;
  facula::thread_state.grad_enabled = grad_;
}
bool InferenceMode::is_enabled() { return facula::thread_state.modes & facula::kModeInference; }

// ---- values of several types

// ---- what tensors say of their history

bool Tensor::requires_grad() const { return facula::requires_grad(known()); }
const Tensor& Tensor::set_requires_grad(bool yes) const {
  if (yes != requires_grad()) {
    FACULA_CHECK(is_leaf(), ErrorKind::Runtime, "set_requires_grad: a leaf is expected, got a result of ",
                 facula::grad_fn(core_.impl())->name(), " (detach() gives a tensor that requires no gradient)");
    facula::set_requires_grad(core_, yes);
  }
  return *this;
}
bool Tensor::is_leaf() const { return !requires_grad() || !facula::grad_fn(core_.impl()); }
void Tensor::retain_grad() const { facula::retain_grad(known()); }
bool Tensor::retains_grad() const {
  const facula::AutogradMeta* meta = facula::autograd_meta(known().impl());
  return meta && meta->retains_grad;
}
Tensor Tensor::grad() const { return Tensor(facula::grad_of(known())); }
Tensor& Tensor::mutable_grad() const {
  return reinterpret_cast<Tensor&>(facula::make_autograd_meta(known().impl()).grad);
}
std::shared_ptr<autograd::Node> Tensor::grad_fn() const {
  auto node = facula::grad_fn(known().impl());
  return node ? std::make_shared<autograd::Node>(std::move(node)) : nullptr;
}
int64_t Tensor::output_nr() const { return facula::gradient_edge(known().impl()).slot; }
int64_t Tensor::_version() const { return known().storage()->current_version(); }
bool Tensor::is_view() const { return known().impl()->base != nullptr; }

Tensor Tensor::detach() const {
  facula::materialize(known());
  return Tensor(facula::alias(core_));
}
Tensor& Tensor::detach_() const {
  FACULA_CHECK(!is_view(), ErrorKind::Runtime, "detach_: got a view (detach() gives a tensor of its own)");
  facula::notify_tensor_changes(core_);
  facula::clear_history(core_);
  return const_cast<Tensor&>(*this);
}

// Its writes are counted apart: autograd does not see them. So it gets a storage of its own over the same bytes.
Tensor Tensor::data() const {
  facula::materialize(known());
  facula::Tensor made = facula::alias(core_);
  facula::Storage* shared = made.storage();
  facula::expose(shared);  // the reference that `made` holds becomes the new storage's
  made.impl()->storage = facula::borrow_storage(
      shared->data, shared->nbytes, shared->device,
      [](facula::Storage* own) {
        auto* owner = static_cast<facula::Storage*>(own->context);
        facula::conceal(owner);
        facula::release(owner);
      },
      shared);
  return Tensor(std::move(made));
}
void Tensor::set_data(const Tensor& source) const {
  facula::materialize(known());
  facula::materialize(detail_known(source));
  facula::TensorImpl* impl = core_.impl();
  const facula::Tensor& from = source.core_;
  facula::Storage* storage = from.storage();
  facula::notify_tensor_changes(core_);
  facula::retain(storage);
  facula::release(impl->storage);
  impl->storage = storage;
  impl->data = from.impl()->data;
  impl->dtype = from.dtype();
  impl->flags = (impl->flags & ~facula::kConjugate) | (from.flags() & facula::kConjugate);
  if (facula::AutogradMeta* meta = facula::autograd_meta(impl))
    if (facula::AccumulateGrad* node = meta->accumulator.load()) node->set_output(0, from);
  facula::set_sizes(impl, from.sizes(), from.strides());
}

namespace {

struct FunctionHook final : facula::TensorHook {
  explicit FunctionHook(std::function<Tensor(const Tensor&)> f) : function(std::move(f)) {}
  facula::Tensor call(const facula::Tensor& grad) override {
    if (!function) return grad;
    const Tensor changed = function(Tensor(grad));
    return changed.defined() ? changed.core() : grad;
  }
  std::function<Tensor(const Tensor&)> function;  // none once it was removed
};

}  // namespace

unsigned Tensor::add_hook(std::function<Tensor(const Tensor&)> hook) const {
  FACULA_CHECK(requires_grad(), ErrorKind::Runtime,
               "register_hook: a tensor that requires a gradient is expected, got one that does not");
  static std::atomic<unsigned> next{1};
  auto made = std::make_shared<FunctionHook>(std::move(hook));
  made->id = next++;
  const facula::Edge edge = facula::gradient_edge(core_.impl());
  if (edge.node) edge.node->extra().tensor_hooks.add({edge.slot, made});  // else none arrives: a view of what needs one
  return static_cast<unsigned>(made->id);
}
void Tensor::remove_hook(unsigned number) const {
  const facula::Edge edge = facula::gradient_edge(known().impl());
  facula::NodeExtra* extra = edge.node ? edge.node->extra_if_any() : nullptr;
  if (!extra) return;
  for (auto& [slot, hook] : extra->tensor_hooks.all())
    if (auto* mine = dynamic_cast<FunctionHook*>(hook.get()); mine && mine->id == number) mine->function = nullptr;
}

// ---- passes

namespace autograd {
namespace {

facula::Tensor gradient_of_root(const Tensor& root, const Tensor& given, size_t i, bool create_graph) {
  const facula::Tensor& t = torch::detail::in(root);
  if (given.defined()) {
    FACULA_CHECK(given.sizes().equals(root.sizes()), ErrorKind::Runtime, "backward: the gradient of output ", i,
                 " must have its shape ", root.sizes(), ", got ", given.sizes());
    return create_graph || !given.requires_grad() ? given.core() : facula::alias(given.core());
  }
  FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime,
               "backward: an output that is given no gradient has one element, got ", t.numel());
  FACULA_CHECK(!t.is_complex(), ErrorKind::Runtime, "backward: an output that is given no gradient is real, got ",
               root.dtype());
  return facula::ones(t.sizes(), t.dtype(), t.device());
}

variable_list run(const variable_list& outputs, const variable_list& grads, const variable_list& inputs,
                  facula::BackwardOptions options) {
  FACULA_CHECK(grads.empty() || grads.size() == outputs.size(), ErrorKind::Runtime,
               "backward: one gradient for each of ", outputs.size(), " outputs is expected, got ", grads.size());
  std::vector<facula::Edge> roots, wanted;
  std::vector<facula::Tensor> given;
  for (size_t i = 0; i < outputs.size(); ++i) {
    FACULA_CHECK(outputs[i].requires_grad(), ErrorKind::Runtime, "backward: output ", i,
                 " requires no gradient: nothing of its history was recorded");
    given.push_back(gradient_of_root(outputs[i], grads.empty() ? Tensor() : grads[i], i, options.create_graph));
    roots.push_back(facula::gradient_edge(outputs[i].core().impl()));
  }
  for (const Tensor& input : inputs) {
    FACULA_CHECK(input.requires_grad(), ErrorKind::Runtime,
                 "autograd::grad: an input is not part of the graph (allow_unused=true gives it no gradient)");
    wanted.push_back(facula::gradient_edge(input.core().impl()));
  }
  return torch::detail::out(facula::run_backward(roots, std::move(given), wanted, options));
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors, optional<bool> retain_graph,
              bool create_graph, const variable_list& inputs) {
  run(tensors, grad_tensors, inputs, {retain_graph.value_or(create_graph), create_graph, true});
}

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs,
                   optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  auto found = run(outputs, grad_outputs, inputs, {retain_graph.value_or(create_graph), create_graph, false});
  for (const Tensor& t : found)
    FACULA_CHECK(allow_unused || t.defined(), ErrorKind::Runtime,
                 "autograd::grad: an input is not part of the graph (allow_unused=true gives it no gradient)");
  return found;
}

}  // namespace autograd

void Tensor::backward(const Tensor& gradient, optional<bool> retain_graph, bool create_graph,
                      optional<TensorList> inputs) const {
  autograd::backward({*this}, gradient.defined() ? autograd::variable_list{gradient} : autograd::variable_list{},
                     retain_graph, create_graph, inputs ? inputs->vec() : autograd::variable_list{});
}

// ---- functions with a derivative of one's own

namespace autograd {
namespace detail {

class FunctionNode final : public facula::Node {
 public:
  FunctionNode(std::string name, FunctionCall::Backward backward) : name_(std::move(name)), backward_(backward) {
    context.node_ = this;
  }
  std::string name() const override { return name_; }
  void release_saved() override { saved_.clear(); }
  void apply(const facula::Tensor* grads, facula::Tensor* results) override;

  void argument(const Tensor& t) {
    argument_edges_.push_back(static_cast<int>(edge_count()));
    add_edge(t.defined() ? facula::gradient_edge(t.core().impl()) : facula::Edge());
  }
  void other_argument() { argument_edges_.push_back(-1); }
  variable_list saved() const;
  void keep(const variable_list& results, bool recorded);
  const variable_list& dirty() const { return context.dirty_; }
  const variable_list& non_differentiable() const { return context.non_differentiable_; }
  bool needs(size_t edge) const { return edge < edge_count() && wants(edge); }

  AutogradContext context;

 private:
  std::string name_;
  FunctionCall::Backward backward_;
  std::vector<int> argument_edges_;
  std::vector<facula::SavedTensor> saved_;
  variable_list unrecorded_;  // of a call without history: as they are
};

void FunctionNode::apply(const facula::Tensor* grads, facula::Tensor* results) {
  variable_list given;
  for (size_t i = 0; i < output_count(); ++i) {
    Tensor grad(grads[i]);
    if (!grad.defined() && context.materialize_ && output(i).ndim() >= 0)
      grad = Tensor(facula::zeros(output(i).sizes(), output(i).dtype, output(i).device));
    given.push_back(std::move(grad));
  }
  variable_list made = backward_(&context, std::move(given));
  while (made.size() > argument_edges_.size() && !made.back().defined()) made.pop_back();
  FACULA_CHECK(made.size() == argument_edges_.size(), ErrorKind::Runtime, name_, ": backward must give ",
               argument_edges_.size(), " gradients, one for each argument, got ", made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].defined()) continue;
    const int edge = argument_edges_[i];
    FACULA_CHECK(edge >= 0, ErrorKind::Runtime, name_, ": backward gave a gradient for argument ", i + 1,
                 ", which is no tensor");
    if (wants(static_cast<size_t>(edge))) results[edge] = made[i].core();
  }
}

variable_list FunctionNode::saved() const {
  if (!unrecorded_.empty()) return unrecorded_;
  FACULA_CHECK(
      !freed, ErrorKind::Runtime, name_,
      ": an earlier pass of backward freed the tensors that this graph saved, so it cannot go through the graph a "
      "second time (give retain_graph=true to the first pass, or compute the loss anew)");
  variable_list list;
  for (const facula::SavedTensor& each : saved_) list.emplace_back(each.unpack(*this));
  return list;
}

void FunctionNode::keep(const variable_list& results, bool recorded) {
  if (!recorded) unrecorded_ = context.to_save_;
  for (const Tensor& t : context.to_save_) {
    if (!recorded) break;
    const bool is_result =
        t.defined() && std::any_of(results.begin(), results.end(), [&](const Tensor& r) { return r.is_same(t); });
    const bool mine = is_result && facula::grad_fn(t.core().impl()).get() == this;
    saved_.emplace_back(t.core(), mine);
  }
  for (variable_list* list : {&context.to_save_, &context.dirty_, &context.non_differentiable_}) list->clear();
}

namespace {

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string found = text ? text : name;
  std::free(text);
  return found;
}

bool holds(const variable_list& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& each) { return each.is_same(t); });
}

}  // namespace

FunctionCall::FunctionCall(const char* name, Backward backward)
    : function_(new FunctionNode("torch::autograd::CppNode<" + readable(name) + ">", backward)) {
  node_ = facula::Ref<facula::Node>::adopt(function_);
}
FunctionCall::~FunctionCall() = default;
AutogradContext* FunctionCall::context() { return &function_->context; }
void FunctionCall::argument(const Tensor& t) {
  function_->argument(t);
  inputs_.push_back(t);
}
void FunctionCall::other_argument() { function_->other_argument(); }

variable_list FunctionCall::finish(variable_list results) {
  uint32_t recorded_flags = 0;
  for (const Tensor& t : inputs_)
    if (t.defined()) recorded_flags |= facula::recorded(facula::live_flags(t.core().impl()));
  function_->flags = recorded_flags;
  for (const Tensor& t : function_->dirty()) facula::count_write(t.core());
  for (Tensor& t : results) {
    if (!t.defined()) {
      function_->add_output();
      continue;
    }
    const facula::Tensor& core = t.core();
    const bool input = holds(inputs_, t), written = holds(function_->dirty(), t);
    if (!recorded_flags) {
      if (input && !written) t = Tensor(facula::alias_view(core));
    } else if (written) {
      facula::check_writable(core, function_->name().c_str());
      facula::set_history_in_place(core, function_);
    } else if (holds(function_->non_differentiable(), t) || !facula::is_inexact(core.dtype())) {
      function_->add_output(core);
      if (input || t.requires_grad()) t = Tensor(facula::alias(core));
    } else {
      if (input || core.impl()->base || t.requires_grad()) t = Tensor(facula::alias(core));
      facula::set_history(t.core(), function_);
    }
  }
  function_->keep(results, recorded_flags != 0);
  return results;
}

}  // namespace detail

variable_list AutogradContext::get_saved_variables() const {
  FACULA_CHECK(node_, ErrorKind::Runtime,
               "get_saved_variables: the context of a function's call is expected, got none");
  return node_->saved();
}
bool AutogradContext::needs_input_grad(size_t edge) const { return node_ && node_->needs(edge); }

}  // namespace autograd
}  // namespace torch
