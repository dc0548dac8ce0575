// Policy
//   - A pass finds every node reachable from the roots and counts how many edges lead to it; a node runs when all of
//     them have delivered. Ready nodes run latest-recorded first.
//   - A pass for some inputs runs only what lies on the way to them, and nodes make only the gradients that lead there
//     (Node::wants).
//   - All bookkeeping belongs to the pass, none to the nodes, so several passes may share a graph in several threads,
//     and a hook may start a pass of its own.
//   - Nothing recurses over the graph: finding and running are loops.
//   - Gradients and a node's saved values are let go as soon as the node has run (the values unless the graph is kept).
//   - CPU nodes run on the calling thread.
//   - Only one thread at a time runs a node, so that passes of several threads through one graph find its values either
//     whole or let go, which is an error.
//
// Long because a pass is one object whose parts (counting, buffers, running, captures) change together.
#include "autograd/engine.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <thread>

#include "autograd/deep_pass.h"
#include "autograd/node_lock.h"
#include "core/parallel.h"
#include "core/recipe.h"
#include "functions.h"
#include "observe/observer.h"
#include "raw_ops.h"

namespace facula {

std::atomic<bool> anomaly_checks_nan = true;

namespace {

// Node -> number of its task: a hash table with open addressing.
class TaskNumbers {
 public:
  TaskNumbers() : slots_(first_.data()), mask_(first_.size() - 1) {}
  /// The number of `node`, which becomes `next` when it has none yet.
  int32_t find_or_add(Node* node, int32_t next) {
    size_t at = place(node);
    while (slots_[at].node) {
      if (slots_[at].node == node) return slots_[at].number;
      at = (at + 1) & mask_;
    }
    slots_[at] = {node, next};
    if (__builtin_expect(++used_ * 2 > mask_, 0)) grow();
    return next;
  }
  int32_t find(Node* node) const {
    for (size_t at = place(node); slots_[at].node; at = (at + 1) & mask_) {
      if (slots_[at].node == node) return slots_[at].number;
    }
    return -1;
  }

 private:
  struct Slot {
    Node* node = nullptr;
    int32_t number = 0;
  };
  size_t place(Node* node) const {
    return ((reinterpret_cast<uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15u >> 32) & mask_;
  }
  [[gnu::noinline]] void grow() {
    size_t before = mask_ + 1;
    std::vector<Slot> fresh(before * 4);
    mask_ = before * 4 - 1;
    for (size_t i = 0; i < before; ++i) {
      if (!slots_[i].node) continue;
      size_t at = place(slots_[i].node);
      while (fresh[at].node) at = (at + 1) & mask_;
      fresh[at] = slots_[i];
    }
    more_ = std::move(fresh);
    slots_ = more_.data();
  }

  std::array<Slot, 32> first_;
  std::vector<Slot> more_;
  Slot* slots_;
  size_t mask_, used_ = 0;
};

// The gradients that arrived at a node, one per forward output.
class Gradients {
 public:
  void prepare(size_t count) {
    if (count > 1 && !more_) {
      more_ = std::make_unique<Tensor[]>(count);
      count_ = static_cast<uint32_t>(count);
    }
  }
  Tensor* data() { return more_ ? more_.get() : &one_; }
  size_t size() const { return count_; }
  bool any() {
    return std::any_of(data(), data() + count_, [](const Tensor& t) { return t.defined(); });
  }

 private:
  Tensor one_;
  std::unique_ptr<Tensor[]> more_;
  uint32_t count_ = 1;
};

struct Task {
  explicit Task(Node* n) : node(n) {}
  Node* node;
  int32_t dependencies = 0;
  int32_t first_child = 0;  // index into children_: one per edge
  bool needed = true;       // lies between the roots and what is requested
  bool leads_on = true;     // one of its edges leads to a needed node
  bool queued = false;
  bool captured = false;
  Gradients grads;
};

struct Ready {
  uint64_t sequence;
  int32_t task;
  bool operator<(const Ready& other) const { return sequence < other.sequence; }
};

struct Capture {
  int32_t task;
  uint32_t slot;
  size_t input;
};

struct Frame {
  int32_t task;
  uint32_t next_edge;
};

// The lists of a pass. A thread keeps one set for its next pass, so that small graphs allocate nothing.
struct Buffers {
  std::vector<Task> tasks;
  std::vector<int32_t> children;  // numbers of the tasks that the edges lead to, -1 for none that is needed
  std::vector<int32_t> finished;  // a node after all that it leads to
  std::vector<Frame> stack;
  std::vector<Ready> ready;

  void clear() {
    tasks.clear();
    children.clear();
    finished.clear();
    stack.clear();
    ready.clear();
  }
};
constexpr size_t kKeptTasks = 1024;
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

}  // namespace

class Pass {
 public:
  Pass(const BackwardOptions& options, const std::vector<Edge>& inputs)
      : options_(options), restricted_(!inputs.empty()), buffers_(take_buffers()), captured_(inputs.size()) {}
  ~Pass() {
    buffers_->clear();
    if (buffers_->tasks.capacity() <= kKeptTasks) spare_buffers = std::move(buffers_);
  }
  Pass(const Pass&) = delete;

  void discover(const std::vector<Edge>& roots) {
    for (const Edge& root : roots) {
      if (root.node) discover_from(root.node.get());
    }
  }

  /// Marks what lies between the roots and the inputs as needed, all else as not.
  void restrict_to(const std::vector<Edge>& inputs) {
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

  void seed(const Edge& root, Tensor grad) {
    add_gradient(tasks_[numbers_.find(root.node.get())], root.slot, std::move(grad));
  }

  void run(const std::vector<Edge>& roots) {
    for (const Edge& root : roots) {
      if (!root.node) continue;
      int32_t number = numbers_.find(root.node.get());
      if (tasks_[number].dependencies == 0 && !tasks_[number].queued) push(number);
    }
    run_ready();
  }

  void run_ready() {
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

  /// For roots whose gradients come one by one: each holds back its node until it has come.
  void expect(const Edge& root) { ++tasks_[numbers_.find(root.node.get())].dependencies; }
  void arrive(const Edge& root, Tensor grad) {
    const int32_t number = numbers_.find(root.node.get());
    if (grad.defined()) add_gradient(tasks_[number], root.slot, std::move(grad));
    if (--tasks_[number].dependencies == 0) push(number);
  }
  void keep_leaves() { keeps_leaves_ = true; }
  std::vector<LeafGradient> take_leaves() { return std::exchange(leaves_, {}); }

  bool nested = false;  // runs inside a node or hook of another one
  uint16_t compiled() const { return compiled_; }
  /// How many nodes it goes through stands for what it does.
  uint64_t kind() const { return tasks_.size(); }
  uint64_t id() const { return id_; }
  bool restricted() const { return restricted_; }
  bool reaches(Node* node) const {
    int32_t number = numbers_.find(node);
    return number >= 0 && tasks_[number].needed;
  }

  std::vector<Tensor> take_captured() { return std::move(captured_); }

  Tensor take_partial_sum(size_t edge, IntList sizes, DType dtype) {
    if (applied_ < 0 || options_.create_graph) return {};
    const Task& task = tasks_[applied_];
    const int32_t child = edge < task.node->edge_count() ? children_[task.first_child + edge] : -1;
    if (child < 0 || !tasks_[child].needed || tasks_[child].grads.size() != tasks_[child].node->output_count())
      return {};
    Tensor& sum = tasks_[child].grads.data()[task.node->edge(edge).slot];
    const bool fits = sum.defined() && is_ours(sum) && sum.is_contiguous() && !(sum.flags() & kPrivateLayout) &&
                      sum.dtype() == dtype && sum.sizes() == sizes;
    return fits ? std::move(sum) : Tensor();
  }

 private:
  int32_t enter(Node* node, std::vector<Frame>& stack) {
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

  // Depth first, so that finished_ lists a node after everything it leads to.
  void discover_from(Node* root) {
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

  void push(int32_t number) {
    tasks_[number].queued = true;
    ready_.push_back({tasks_[number].node->sequence(), number});
    if (ready_.size() > 1) std::push_heap(ready_.begin(), ready_.end());
  }
  int32_t pop() {
    if (ready_.size() > 1) std::pop_heap(ready_.begin(), ready_.end());
    int32_t number = ready_.back().task;
    ready_.pop_back();
    return number;
  }

  // A gradient made to fit the forward output it belongs to: broadcasting is undone, dtype and realness restored.
  static Tensor fit(const Node& node, uint32_t slot, Tensor grad) {
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

  /// What waits to be read is read first: sums are made as they are without.
  static bool is_ours(const Tensor& t) {
    if (t.impl()->refs.load() != 1) return false;
    if (__builtin_expect(t.storage()->asks_first(), 0)) materialize_storage(t.storage());
    return t.storage()->refs.load() == 1 && t.is_dense() && !(t.flags() & kSlowFlags & ~(kPrivateLayout | kDeferred));
  }

  void add_gradient(Task& task, uint32_t slot, Tensor incoming) {
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

  bool run_task(Task& task) {
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

  void capture(const Task& task, Gradients& grads) {
    auto number = static_cast<int32_t>(&task - tasks_.data());
    for (const Capture& c : captures_) {
      if (c.task == number && c.slot < grads.size()) captured_[c.input] = grads.data()[c.slot];
    }
  }

  static void run_tensor_hooks(Node& node, Gradients& grads) {
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

  void call(Task& task, Gradients& grads, Tensor* results) {
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

  /// The node may ask for what has arrived where it leads: nobody sees its own results.
  void apply_alone(const Task& task, Gradients& grads, Tensor* results) {
    const NodeExtra* extra = task.node->extra_if_any();
    applied_ = extra && !extra->after.empty() ? -1 : static_cast<int32_t>(&task - tasks_.data());
    task.node->apply(grads.data(), results);
    applied_ = -1;
  }

  void call_locked(const Task& task, Gradients& grads, Tensor* results) {
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

  static void run_before(NodeExtra& extra, Gradients& grads) {
    std::vector<Tensor> none, outputs(grads.data(), grads.data() + grads.size());
    for (auto& hook : extra.before.all()) hook->call(none, outputs);
    std::copy(outputs.begin(), outputs.end(), grads.data());
  }

  static void run_after(Node& node, NodeExtra& extra, Tensor* results, std::vector<Tensor>& outputs) {
    std::vector<Tensor> inputs(results, results + node.edge_count());
    for (auto& hook : extra.after.all()) hook->call(inputs, outputs);
    std::copy(inputs.begin(), inputs.end(), results);
  }

  // Anomaly mode: says which forward call a failure belongs to, and looks for NaN.
  static void call_watched(Node& node, Gradients& grads, Tensor* results) {
    try {
      node.apply(grads.data(), results);
      if (!anomaly_checks_nan) return;
      for (size_t i = 0; i < node.edge_count(); ++i) {
        if (!results[i].defined() || !is_inexact(results[i].dtype()) || (results[i].flags() & kBatched)) continue;
        GradMode off(false);
        FACULA_CHECK(!any(ne(results[i], results[i])).item().to_bool(), ErrorKind::Runtime, "Function '", node.name(),
                     "' returned nan values in its ", i, "th output.");
      }
    } catch (...) {
      if (host.backward_failed) host.backward_failed(node);
      throw;
    }
  }

  void deliver(Task& task, size_t edge, Tensor grad) {
    int32_t child = children_[task.first_child + edge];
    if (child < 0) return;
    if (grad.defined()) add_gradient(tasks_[child], task.node->edge(edge).slot, std::move(grad));
    if (--tasks_[child].dependencies == 0) push(child);
  }
  void deliver_nothing(Task& task) {
    for (size_t i = 0; i < task.node->edge_count(); ++i) deliver(task, i, Tensor());
  }

  static inline std::atomic<uint64_t> passes_ = 0;
  uint64_t id_ = ++passes_;
  BackwardOptions options_;
  bool restricted_;
  bool keeps_leaves_ = false;
  std::vector<LeafGradient> leaves_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<Task>& tasks_ = buffers_->tasks;
  std::vector<int32_t>& children_ = buffers_->children;
  std::vector<int32_t>& finished_ = buffers_->finished;
  std::vector<Ready>& ready_ = buffers_->ready;
  TaskNumbers numbers_;
  int32_t applied_ = -1;  // the task whose node runs, if it may take partial sums
  std::vector<Capture> captures_;
  uint16_t compiled_ = 0;  // of the nodes
  std::vector<Tensor> captured_;
};

namespace {

// The innermost pass of the thread: hooks may start passes of their own.
thread_local Pass* running = nullptr;
thread_local int restricted_running = 0;
thread_local std::deque<std::function<void()>> after_pass;
thread_local int depth = 0;

class Running {
 public:
  explicit Running(Pass* pass) : before_(std::exchange(running, pass)), restricted_(pass->restricted()) {
    restricted_running += restricted_;
    pass->nested = before_ != nullptr;
    ++depth;
    in_cells_ = !before_ && (watching() & kWatchBudget);
    if (in_cells_) cell_hooks.pass(true);
  }
  ~Running() {
    if (in_cells_) cell_hooks.pass(false);
    --depth;
    running = before_;
    restricted_running -= restricted_;
    if (!before_) after_pass.clear();  // none is left but those of a pass that failed
  }
  Running(const Running&) = delete;

 private:
  Pass* before_;
  bool in_cells_;  // a memory budget was notified that a pass begins
  int restricted_;
};

}  // namespace

bool restricted_pass_runs() { return restricted_running > 0; }
Tensor take_partial_sum(size_t edge, IntList sizes, DType dtype) {
  return running ? running->take_partial_sum(edge, sizes, dtype) : Tensor();
}
uint64_t current_pass() { return running ? running->id() : 0; }
size_t count_reached(const std::vector<Node*>& nodes) {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](Node* node) { return running && running->reaches(node); }));
}
bool pass_is_nested() { return running && running->nested; }
std::vector<bool> which_reached(const std::vector<Node*>& nodes) {
  std::vector<bool> reached;
  for (Node* node : nodes) reached.push_back(running && running->reaches(node));
  return reached;
}
void call_after_pass(std::function<void()> call) {
  FACULA_CHECK(running, ErrorKind::Runtime,
               "queue_callback: only a hook of a backward pass can ask for a call at its end");
  after_pass.push_back(std::move(call));
}

int pass_depth() { return depth; }

void run_on_another_thread(const std::function<void()>& work) {
  constexpr uint32_t kCarried = kModeAnomaly | kModeInference;  // what a thread of its own has is not there for others
  const uint32_t modes = thread_state.modes & kCarried;
  const bool grad = thread_state.grad_enabled, forward = thread_state.forward_grad_enabled;
  const void* runner = goes_on_for ? goes_on_for : &thread_state;
  Pass* outer = running;
  const int restricted = restricted_running;
  std::deque<std::function<void()>> queued;
  std::thread other([&] {
    thread_state.modes |= modes;
    thread_state.grad_enabled = grad;
    thread_state.forward_grad_enabled = forward;
    goes_on_for = runner;
    running = outer;
    restricted_running = restricted;
    work();
    queued = std::move(after_pass);
  });
  other.join();
  std::ranges::move(queued, std::back_inserter(after_pass));
}

namespace {

/// Ops of a pass through what a compiled function recorded may wait, as those of the function do.
class CompiledPass {
 public:
  CompiledPass(uint16_t compiled, uint64_t kind) {
    if (compiled && !(watching() & kWatchRegion) && region_hooks.pass_begins)
      pass_ = region_hooks.pass_begins(compiled, kind);
  }
  ~CompiledPass() {
    if (pass_) region_hooks.pass_ends(pass_, true);
  }
  CompiledPass(const CompiledPass&) = delete;
  void end() {
    if (void* pass = std::exchange(pass_, nullptr)) region_hooks.pass_ends(pass, false);
  }

 private:
  void* pass_ = nullptr;
};

}  // namespace

std::vector<Tensor> run_backward(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                                 const std::vector<Edge>& inputs, const BackwardOptions& options) {
  Pass pass(options, inputs);
  pass.discover(roots);
  if (!inputs.empty()) pass.restrict_to(inputs);
  CompiledPass compiled(pass.compiled(), pass.kind());
  for (size_t i = 0; i < roots.size(); ++i) {
    if (grads[i].defined() && roots[i].node) pass.seed(roots[i], std::move(grads[i]));
  }
  Running now(&pass);
  pass.run(roots);
  if (!pass.nested) {
    for (; !after_pass.empty(); after_pass.pop_front()) after_pass.front()();
  }
  std::vector<Tensor> captured = pass.take_captured();
  compiled.end();
  return captured;
}

SteppedPass::SteppedPass(std::vector<Edge> roots, bool keep_graph)
    : roots_(std::move(roots)),
      arrived_(roots_.size()),
      pass_(std::make_unique<Pass>(BackwardOptions{.keep_graph = keep_graph}, std::vector<Edge>())) {
  pass_->keep_leaves();
  pass_->discover(roots_);
  for (const Edge& root : roots_) pass_->expect(root);
}
SteppedPass::~SteppedPass() = default;

std::vector<LeafGradient> SteppedPass::step(size_t first, std::vector<Tensor> grads) {
  FACULA_CHECK(!running_.exchange(true), ErrorKind::Runtime, "backward: a pass does one step at a time, got a second");
  struct Done {
    std::atomic<bool>& running;
    ~Done() { running = false; }
  } done{running_};
  FACULA_CHECK(first <= roots_.size() && grads.size() <= roots_.size() - first, ErrorKind::Value,
               "backward: the pass has ", roots_.size(), " roots, got ", grads.size(), " gradients from ", first,
               " on");
  for (size_t i = 0; i < grads.size(); ++i) {
    if (arrived_[first + i]) continue;
    arrived_[first + i] = true;
    pass_->arrive(roots_[first + i], std::move(grads[i]));
  }
  Running now(pass_.get());
  pass_->run_ready();
  if (!pass_->nested) {
    for (; !after_pass.empty(); after_pass.pop_front()) after_pass.front()();
  }
  return pass_->take_leaves();
}

}  // namespace facula
