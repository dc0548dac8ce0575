#include "autograd/pass.h"

#include <iterator>

#include "autograd/node_lock.h"
#include "core/host.h"
#include "core/recipe.h"
#include "functions.h"
#include "observe/observer.h"
#include "raw_ops.h"

namespace facula {

std::atomic<bool> anomaly_checks_nan = true;

namespace {

using pass_tasks::Buffers;

// A thread keeps the lists of its last pass for the next one.
constexpr size_t kMostCachedTasks = 1024;
thread_local std::unique_ptr<Buffers> spare_buffers;

std::unique_ptr<Buffers> take_buffers() {
  return spare_buffers ? std::move(spare_buffers) : std::make_unique<Buffers>();
}

constexpr int kNodesPerInterruptCheck = 64;
constexpr int64_t kLongNode = 1 << 20;  // elements: after such a node Ctrl-C is looked for at once

// Says to the node that runs what the pass needs of it.
class RequestScope {
 public:
  RequestScope(const Node* node, const int32_t* edges)
      : before_(std::exchange(requested, RequestedEdges{node, edges})) {}
  ~RequestScope() { requested = before_; }
  RequestScope(const RequestScope&) = delete;

 private:
  RequestedEdges before_;
};

// Notifies observers (src/observe) of a node, from its formula until its gradients fit where they go.
struct NodeNote {
  explicit NodeNote(const Node& n) : node(__builtin_expect(watching() != 0, 0) ? &n : nullptr) {
    if (__builtin_expect(node != nullptr, 0)) notify_node_begins(*node);
  }
  ~NodeNote() {
    if (__builtin_expect(node != nullptr, 0)) notify_node_ends(*node);
  }
  NodeNote(const NodeNote&) = delete;
  const Node* node;
};

}  // namespace

Pass::Pass(const BackwardOptions& options, const std::vector<Edge>& inputs)
    : options_(options), restricted_(!inputs.empty()), buffers_(take_buffers()), captured_(inputs.size()) {}

Pass::~Pass() {
  buffers_->clear();
  if (buffers_->tasks.capacity() <= kMostCachedTasks) spare_buffers = std::move(buffers_);
}

void Pass::discover(const std::vector<Edge>& roots) {
  for (const Edge& root : roots) {
    if (root.node) discover_from(root.node.get());
  }
}

void Pass::restrict_to(const std::vector<Edge>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    int32_t number = inputs[i].node ? numbers_.find(inputs[i].node.get()) : -1;
    if (number < 0) continue;
    captures_.push_back({number, inputs[i].slot, i});
    tasks_[number].captured = true;
  }
  for (int32_t number : finished_) {  // a node comes after all that it leads to
    Task& task = tasks_[number];
    task.leads_on = false;
    for (size_t i = 0; i < task.node->edge_count(); ++i) {
      int32_t& child = children_[task.first_child + i];
      if (child >= 0 && !tasks_[child].needed) child = -1;  // which the node sees in wants()
      task.leads_on |= child >= 0;
    }
    task.needed = task.leads_on || task.captured;
  }
}

void Pass::seed(const Edge& root, Tensor grad) {
  add_gradient(tasks_[numbers_.find(root.node.get())], root.slot, std::move(grad));
}

void Pass::run(const std::vector<Edge>& roots) {
  for (const Edge& root : roots) {
    if (!root.node) continue;
    int32_t number = numbers_.find(root.node.get());
    if (tasks_[number].dependencies == 0 && !tasks_[number].queued) push(number);
  }
  run_ready();
}

void Pass::run_ready() {
  GradMode mode(options_.create_graph);
  RequestScope everything(nullptr, nullptr);  // a pass inside a node of another one
  int until_check = kNodesPerInterruptCheck;
  while (!ready_.empty()) {
    int32_t number = pop();
    bool long_one = run_task(tasks_[number]);
    if ((--until_check == 0 || long_one) && host.check_interrupt) {
      until_check = kNodesPerInterruptCheck;
      host.check_interrupt();
    }
  }
}

void Pass::arrive(const Edge& root, Tensor grad) {
  const int32_t number = numbers_.find(root.node.get());
  if (grad.defined()) add_gradient(tasks_[number], root.slot, std::move(grad));
  if (--tasks_[number].dependencies == 0) push(number);
}

bool Pass::reaches(Node* node) const {
  int32_t number = numbers_.find(node);
  return number >= 0 && tasks_[number].needed;
}

Tensor Pass::take_partial_sum(size_t edge, IntList sizes, DType dtype) {
  if (applied_ < 0 || options_.create_graph) return {};
  const Task& task = tasks_[applied_];
  const int32_t child = edge < task.node->edge_count() ? children_[task.first_child + edge] : -1;
  if (child < 0 || !tasks_[child].needed || tasks_[child].grads.size() != tasks_[child].node->output_count()) return {};
  Tensor& sum = tasks_[child].grads.data()[task.node->edge(edge).slot];
  const bool fits = sum.defined() && is_ours(sum) && sum.is_contiguous() && !(sum.flags() & kPrivateLayout) &&
                    sum.dtype() == dtype && sum.sizes() == sizes;
  return fits ? std::move(sum) : Tensor();
}

int32_t Pass::enter(Node* node, std::vector<Frame>& stack) {
  auto next = static_cast<int32_t>(tasks_.size());
  int32_t number = numbers_.find_or_add(node, next);
  if (number == next) {
    if (__builtin_expect(node->compiled != 0, 0)) compiled_ = node->compiled;
    Task& task = tasks_.emplace_back(node);
    task.first_child = static_cast<int32_t>(children_.size());
    children_.resize(children_.size() + node->edge_count(), -1);
    stack.push_back({number, 0});
  }
  return number;
}

void Pass::discover_from(Node* root) {
  std::vector<Frame>& stack = buffers_->stack;
  enter(root, stack);
  while (!stack.empty()) {
    Frame& frame = stack.back();
    Node* node = tasks_[frame.task].node;
    if (frame.next_edge == node->edge_count()) {
      if (restricted_) finished_.push_back(frame.task);
      stack.pop_back();
      continue;
    }
    uint32_t edge = frame.next_edge++;
    Node* next = node->edge(edge).node.get();
    // a node without flags ends a history: both kinds of passes get the zeros it makes
    if (!next || (next->flags && !(next->flags & options_.follows))) continue;
    int32_t place = tasks_[frame.task].first_child + static_cast<int32_t>(edge);
    int32_t number = enter(next, stack);
    children_[place] = number;
    ++tasks_[number].dependencies;
  }
}

void Pass::push(int32_t number) {
  tasks_[number].queued = true;
  ready_.push_back({tasks_[number].node->sequence(), number});
  if (ready_.size() > 1) std::push_heap(ready_.begin(), ready_.end());
}

int32_t Pass::pop() {
  if (ready_.size() > 1) std::pop_heap(ready_.begin(), ready_.end());
  int32_t number = ready_.back().task;
  ready_.pop_back();
  return number;
}

Tensor Pass::fit(const Node& node, uint32_t slot, Tensor grad) {
  const OutputInfo& info = node.output(slot);
  if (__builtin_expect(!(grad.sizes() == info.sizes()), 0)) {
    FACULA_CHECK(broadcasts_to(info.sizes(), grad.sizes()), ErrorKind::Runtime, "backward: the gradient for output ",
                 slot, " of ", node.name(), " has the wrong shape, expected ", info.sizes(), ", got ", grad.sizes());
    // sums of one element each are the elements
    const bool as_many = grad.numel() == count_elements(info.sizes(), "backward");
    grad = as_many && !(grad.flags() & kSparse) && !are_ops_seen() ? reshape(grad, info.sizes())
                                                                   : sum_to_size(grad, info.sizes());
  }
  if (__builtin_expect(grad.dtype() != info.dtype, 0)) {
    if (grad.is_complex() && !is_complex(info.dtype)) grad = real(grad);
    if (grad.dtype() != info.dtype) grad = to_dtype(grad, info.dtype);
  }
  return grad;
}

bool Pass::is_ours(const Tensor& t) {
  if (t.impl()->refs.load() != 1) return false;
  if (__builtin_expect(t.storage()->asks_first(), 0)) materialize_storage(t.storage());
  return t.storage()->refs.load() == 1 && t.is_dense() && !(t.flags() & kSlowFlags & ~(kPrivateLayout | kDeferred));
}

void Pass::add_gradient(Task& task, uint32_t slot, Tensor incoming) {
  if (!task.needed) return;
  task.grads.prepare(task.node->output_count());
  Tensor grad = fit(*task.node, slot, std::move(incoming));
  Tensor& sum = task.grads.data()[slot];
  if (!sum.defined()) {
    sum = std::move(grad);
    return;
  }
  if (!options_.create_graph && !is_ours(sum) && is_ours(grad)) std::swap(sum, grad);
  const bool in_place = !options_.create_graph && is_ours(sum) && !grad.is_conj() && !(grad.flags() & kSparse);
  const bool noted = ((sum.flags() | grad.flags()) & kDeferred) || (watching() & kWatchRegion);
  if (in_place && noted) add_(sum, grad);  // which may wait
  else if (in_place) ops::add_into(sum, ops::Into::InPlace, sum, grad, Scalar(1));
  else if (sum.flags() & kSparse) sum = add(grad, sum);  // a dense one takes a sparse one in, not the other way
  else sum = add(sum, grad);
}

bool Pass::run_task(Task& task) {
  Gradients grads = std::move(task.grads);
  Node& node = *task.node;
  if (!task.needed || !grads.any()) {
    deliver_nothing(task);
    return false;
  }
  if (__builtin_expect(node.extra_if_any() != nullptr, 0)) run_tensor_hooks(node, grads);
  if (task.captured) capture(task, grads);
  if (keeps_leaves_ && node.is_accumulator) {
    if (grads.any()) leaves_.push_back({static_cast<AccumulateGrad&>(node).leaf(), std::move(grads.data()[0])});
    return false;
  }
  bool wanted = node.is_accumulator ? options_.accumulate && (!restricted_ || task.captured) : task.leads_on;
  if (!wanted || !grads.any()) {
    deliver_nothing(task);
    return false;
  }
  const NodeNote note(node);
  size_t count = node.edge_count();
  bool long_one = grads.data()[0].defined() && grads.data()[0].numel() >= kLongNode;
  if (__builtin_expect(count <= 4, 1)) {
    Tensor results[4];
    call(task, grads, results);
    for (size_t i = 0; i < count; ++i) deliver(task, i, std::move(results[i]));
  } else {
    std::vector<Tensor> results(count);
    call(task, grads, results.data());
    for (size_t i = 0; i < count; ++i) deliver(task, i, std::move(results[i]));
  }
  return long_one;
}

void Pass::capture(const Task& task, Gradients& grads) {
  auto number = static_cast<int32_t>(&task - tasks_.data());
  for (const auto& c : captures_) {
    if (c.task == number && c.slot < grads.size()) captured_[c.input] = grads.data()[c.slot];
  }
}

void Pass::run_tensor_hooks(Node& node, Gradients& grads) {
  NodeExtra& extra = *node.extra_if_any();
  if (!extra.tensor_hooks.empty()) {
    for (auto& [slot, hook] : extra.tensor_hooks.all()) {
      if (slot >= grads.size() || !grads.data()[slot].defined()) continue;
      Tensor replaced = hook->call(grads.data()[slot]);
      if (replaced.defined()) grads.data()[slot] = fit(node, slot, replaced);
    }
  }
  for (uint32_t slot = 0; slot < grads.size(); ++slot) {
    if (grads.data()[slot].defined()) fill_retained(extra, slot, grads.data()[slot]);
  }
}

void Pass::call(Task& task, Gradients& grads, Tensor* results) {
  Node& node = *task.node;
  if (node.is_accumulator) {
    call_locked(task, grads, results);
  } else if (restricted_) {
    NodeLock lock(node);
    RequestScope needed(&node, &children_[task.first_child]);
    call_locked(task, grads, results);
  } else {
    NodeLock lock(node);
    call_locked(task, grads, results);
  }
}

void Pass::apply_alone(const Task& task, Gradients& grads, Tensor* results) {
  const NodeExtra* extra = task.node->extra_if_any();
  applied_ = extra && !extra->after.empty() ? -1 : static_cast<int32_t>(&task - tasks_.data());
  task.node->apply(grads.data(), results);
  applied_ = -1;
}

void Pass::call_locked(const Task& task, Gradients& grads, Tensor* results) {
  Node& node = *task.node;
  grads.prepare(node.output_count());
  NodeExtra* extra = node.extra_if_any();
  if (__builtin_expect(extra && !extra->before.empty(), 0)) run_before(*extra, grads);
  std::vector<Tensor> outputs;  // for the hooks after the node
  if (__builtin_expect(extra && !extra->after.empty(), 0)) outputs.assign(grads.data(), grads.data() + grads.size());
  if (__builtin_expect(thread_state.modes & kModeAnomaly, 0)) call_watched(node, grads, results);
  else apply_alone(task, grads, results);
  grads = Gradients();
  if (__builtin_expect(!outputs.empty(), 0)) run_after(node, *extra, results, outputs);
  if (!options_.keep_graph && !node.is_accumulator) {
    node.release_saved();
    node.freed = true;
  }
}

void Pass::run_before(NodeExtra& extra, Gradients& grads) {
  std::vector<Tensor> none, outputs(grads.data(), grads.data() + grads.size());
  for (auto& hook : extra.before.all()) hook->call(none, outputs);
  std::copy(outputs.begin(), outputs.end(), grads.data());
}

void Pass::run_after(Node& node, NodeExtra& extra, Tensor* results, std::vector<Tensor>& outputs) {
  std::vector<Tensor> inputs(results, results + node.edge_count());
  for (auto& hook : extra.after.all()) hook->call(inputs, outputs);
  std::copy(inputs.begin(), inputs.end(), results);
}

void Pass::call_watched(Node& node, Gradients& grads, Tensor* results) {
  try {
    node.apply(grads.data(), results);
    if (!anomaly_checks_nan) return;
    for (size_t i = 0; i < node.edge_count(); ++i) {
      if (!results[i].defined() || !is_inexact(results[i].dtype()) || (results[i].flags() & kBatched)) continue;
      GradMode off(false);
      FACULA_CHECK(!any(ne(results[i], results[i])).item().to_bool(), ErrorKind::Runtime, "backward: Function '",
                   node.name(), "' returned nan values in its ", i, "th output, the gradient of its input ", i,
                   ", of shape ", results[i].sizes(),
                   ". The warning above shows the lines of the op: look there for a division by zero, the logarithm or "
                   "the root of 0 or less, or a number that overflows");
    }
  } catch (...) {
    if (host.backward_failed) host.backward_failed(node);
    throw;
  }
}

void Pass::deliver(Task& task, size_t edge, Tensor grad) {
  int32_t child = children_[task.first_child + edge];
  if (child < 0) return;
  if (grad.defined()) add_gradient(tasks_[child], task.node->edge(edge).slot, std::move(grad));
  if (--tasks_[child].dependencies == 0) push(child);
}

void Pass::deliver_nothing(Task& task) {
  for (size_t i = 0; i < task.node->edge_count(); ++i) deliver(task, i, Tensor());
}

}  // namespace facula
