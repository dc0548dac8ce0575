// Runs a backward pass. Policy:
//   - A pass finds every node that is reachable from the roots and counts how many edges lead to it. A node runs when
//     all of them have delivered. Among the ready nodes, the one that was recorded last runs first.
//   - A pass for some inputs runs only the nodes on the way to them, and nodes compute only the gradients that lead
//     there (Node::wants).
//   - All bookkeeping belongs to the pass and none to the nodes. So several threads may run passes through one graph,
//     and a hook may start a pass of its own.
//   - Nothing recurses over the graph: finding and running are loops.
//   - Gradients and the saved values of a node are released as soon as the node has run (the values unless the graph is
//     retained).
//   - CPU nodes run on the calling thread.
//   - Only one thread at a time runs a node. So passes of several threads through one graph find its values either
//     complete or released, which is an error.
//
// A task is what the pass knows of a node:
//
//                 an edge leads here            every edge has delivered
//     (nothing) ----------------------> found --------------------------> ready --> running --> done
//       enter()    ++dependencies             --dependencies == 0         push()    run_task()  deliver()
//
// A task that is not needed, and one that has received no gradient, delivers nothing along its edges and is done.
#pragma once

#include <atomic>

#include "autograd/engine.h"
#include "autograd/pass_tasks.h"

namespace facula {

class Pass {
 public:
  Pass(const BackwardOptions& options, const std::vector<Edge>& inputs);
  ~Pass();
  Pass(const Pass&) = delete;
  /// Finds all nodes that the roots lead to.
  void discover(const std::vector<Edge>& roots);
  /// Marks what lies between the roots and the inputs as needed, all else as not.
  void restrict_to(const std::vector<Edge>& inputs);
  /// The gradient of a root.
  void seed(const Edge& root, Tensor grad);
  /// Runs all that the roots lead to.
  void run(const std::vector<Edge>& roots);
  /// Runs what is ready, and what becomes ready by that.
  void run_ready();
  /// For roots whose gradients come one by one: each holds back its node until it has come.
  void expect(const Edge& root) { ++tasks_[numbers_.find(root.node.get())].dependencies; }
  void arrive(const Edge& root, Tensor grad);
  /// From now on gradients of leaves are collected for take_leaves(), not accumulated.
  void keep_leaves() { keeps_leaves_ = true; }
  std::vector<LeafGradient> take_leaves() { return std::exchange(leaves_, {}); }

  bool nested = false;  // runs inside a node or hook of another one
  uint16_t compiled() const { return compiled_; }
  /// How many nodes it goes through stands for what it does.
  uint64_t kind() const { return tasks_.size(); }
  uint64_t id() const { return id_; }
  bool restricted() const { return restricted_; }
  bool reaches(Node* node) const;
  /// The gradients that arrived at the inputs.
  std::vector<Tensor> take_captured() { return std::move(captured_); }
  /// See facula::take_partial_sum().
  Tensor take_partial_sum(size_t edge, IntList sizes, DType dtype);

 private:
  using Gradients = pass_tasks::Gradients;
  using Task = pass_tasks::Task;
  using Frame = pass_tasks::Frame;

  // Tasks: found, ready, delivered.
  /// The number of a node's task; a new one goes onto the stack.
  int32_t enter(Node* node, std::vector<Frame>& stack);
  // Depth first, so that finished_ lists a node after everything it leads to.
  void discover_from(Node* root);
  void push(int32_t number);
  int32_t pop();
  void deliver(Task& task, size_t edge, Tensor grad);
  void deliver_nothing(Task& task);

  // Gradients.
  // A gradient made to fit the forward output it belongs to: broadcasting is undone, dtype and realness restored.
  static Tensor fit(const Node& node, uint32_t slot, Tensor grad);
  /// What waits to be read is read first: sums are made as they are without.
  static bool is_ours(const Tensor& t);
  void add_gradient(Task& task, uint32_t slot, Tensor incoming);
  void capture(const Task& task, Gradients& grads);

  // Running: run_task() > call() > call_locked() > apply_alone(), each with one thing more around the node's formula.
  /// Returns true after a node of many elements.
  bool run_task(Task& task);
  static void run_tensor_hooks(Node& node, Gradients& grads);
  void call(Task& task, Gradients& grads, Tensor* results);
  /// The node may ask for what has arrived where it leads: nobody sees its own results.
  void apply_alone(const Task& task, Gradients& grads, Tensor* results);
  void call_locked(const Task& task, Gradients& grads, Tensor* results);
  static void run_before(NodeExtra& extra, Gradients& grads);
  static void run_after(Node& node, NodeExtra& extra, Tensor* results, std::vector<Tensor>& outputs);
  // Anomaly mode: says which forward call a failure belongs to, and looks for NaN.
  static void call_watched(Node& node, Gradients& grads, Tensor* results);

  static inline std::atomic<uint64_t> passes_ = 0;
  uint64_t id_ = ++passes_;
  BackwardOptions options_;
  bool restricted_;
  bool keeps_leaves_ = false;
  std::vector<LeafGradient> leaves_;
  std::unique_ptr<pass_tasks::Buffers> buffers_;
  std::vector<Task>& tasks_ = buffers_->tasks;
  std::vector<int32_t>& children_ = buffers_->children;
  std::vector<int32_t>& finished_ = buffers_->finished;
  std::vector<pass_tasks::Ready>& ready_ = buffers_->ready;
  pass_tasks::TaskNumbers numbers_;
  int32_t applied_ = -1;  // the task whose node runs, if it may take partial sums
  std::vector<pass_tasks::Capture> captures_;
  uint16_t compiled_ = 0;  // of the nodes
  std::vector<Tensor> captured_;
};

}  // namespace facula
