// The passes of a thread, one inside the other, and what starts them. A pass itself: autograd/pass.h.
#include "autograd/engine.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <thread>

#include "autograd/deep_pass.h"
#include "autograd/node_lock.h"
#include "autograd/pass.h"
#include "observe/observer.h"

namespace facula {

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
