// Policy
//   - A pass counts, for every node reachable from the roots, how many edges lead to it; a node runs when all of them have
//     delivered. Ready nodes run latest-recorded first.
//   - All bookkeeping belongs to the pass, none to the nodes, so several passes may share a graph in several threads, and
//     a hook may start a pass of its own.
//   - Nothing recurses over the graph: counting and running are loops.
//   - A node's saved values are let go as soon as it has run, unless the graph is kept.
//   - CPU nodes run on the calling thread.
#include "autograd/engine.h"

#include <algorithm>
#include <unordered_map>

#include "functions.h"
#include "raw_ops.h"

namespace facula {
namespace {

struct Task {
  int dependencies = 0;
  bool needed = true;
  std::vector<Tensor> grads;                          // per forward output
  std::vector<std::pair<uint32_t, size_t>> captures;  // slot, index of the input that wants it
};

bool runs_later(const Node* a, const Node* b) { return a->sequence() < b->sequence(); }

class Pass {
 public:
  Pass(const BackwardOptions& options, size_t captures) : options_(options), captured_(captures) {}

  void count_dependencies(const std::vector<Edge>& roots) {
    std::vector<Node*> stack;
    for (const Edge& root : roots) visit(root.node.get(), stack);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (size_t i = 0; i < node->edge_count(); ++i) {
        Node* next = node->edge(i).node.get();
        if (!next) continue;
        visit(next, stack);
        ++tasks_[next].dependencies;
      }
    }
  }

  /// Marks what lies between the roots and the inputs as needed, all else as not.
  void restrict_to(const std::vector<Edge>& inputs) {
    for (auto& [node, task] : tasks_) task.needed = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto found = tasks_.find(inputs[i].node.get());
      if (found != tasks_.end()) found->second.captures.emplace_back(inputs[i].slot, i);
    }
    // Children before parents: a node's number is larger than its inputs', except for accumulators, which come first.
    std::vector<Node*> order;
    for (auto& [node, task] : tasks_) order.push_back(node);
    std::sort(order.begin(), order.end(), [](Node* a, Node* b) {
      bool leaf_a = a->edge_count() == 0, leaf_b = b->edge_count() == 0;
      return leaf_a != leaf_b ? leaf_a : a->sequence() < b->sequence();
    });
    bool changed = true;  // graphs recorded on several threads may be out of order: repeat until nothing changes
    while (changed) {
      changed = false;
      for (Node* node : order) {
        Task& task = tasks_[node];
        if (task.needed) continue;
        bool needed = !task.captures.empty();
        for (size_t i = 0; i < node->edge_count() && !needed; ++i) {
          Node* next = node->edge(i).node.get();
          needed = next && tasks_[next].needed;
        }
        if (needed) task.needed = changed = true;
      }
    }
    restricted_ = true;
  }

  void seed(const Edge& root, const Tensor& grad) { add_gradient(root, grad); }

  void run(const std::vector<Edge>& roots) {
    for (const Edge& root : roots) {
      Task& task = tasks_[root.node.get()];
      if (task.dependencies == 0 && !queued(root.node.get())) push(root.node.get());
    }
    GradMode mode(options_.create_graph);
    size_t done = 0;
    while (!ready_.empty()) {
      if ((++done & 127) == 0 && check_interrupt) check_interrupt();
      std::pop_heap(ready_.begin(), ready_.end(), runs_later);
      Node* node = ready_.back();
      ready_.pop_back();
      run_node(node);
    }
  }

  std::vector<Tensor> take_captured() { return std::move(captured_); }

 private:
  void visit(Node* node, std::vector<Node*>& stack) {
    if (tasks_.try_emplace(node).second) stack.push_back(node);
  }

  bool queued(Node* node) const { return std::find(ready_.begin(), ready_.end(), node) != ready_.end(); }

  void push(Node* node) {
    ready_.push_back(node);
    std::push_heap(ready_.begin(), ready_.end(), runs_later);
  }

  // A gradient made to fit the forward output it belongs to: broadcasting is undone, dtype and realness restored.
  static Tensor fit(const Node& node, uint32_t slot, Tensor grad) {
    const OutputInfo& info = node.output(slot);
    if (grad.sizes() != IntList(info.sizes)) {
      FACULA_CHECK(broadcasts_to(info.sizes, grad.sizes()), ErrorKind::Runtime, "backward: the gradient for an output of ",
                   node.name(), " has the wrong shape, expected ", info.sizes, ", got ", grad.sizes());
      grad = sum_to_size(grad, info.sizes);
    }
    if (grad.dtype() != info.dtype) {
      if (grad.is_complex() && !is_complex(info.dtype)) grad = real(grad);
      if (grad.dtype() != info.dtype) grad = to_dtype(grad, info.dtype);
    }
    return grad;
  }

  void add_gradient(const Edge& edge, const Tensor& incoming) {
    Task& task = tasks_[edge.node.get()];
    if (!task.needed) return;
    if (task.grads.empty()) task.grads.resize(std::max<size_t>(edge.node->output_count(), edge.slot + 1));
    Tensor grad = fit(*edge.node, edge.slot, incoming);
    Tensor& sum = task.grads[edge.slot];
    if (!sum.defined()) {
      sum = std::move(grad);
    } else if (!options_.create_graph && sum.impl()->refs.load() == 1 && sum.storage()->refs.load() == 1 && sum.is_dense()) {
      ops::add_into(sum, true, sum, grad, Scalar(1));
    } else {
      sum = add(sum, grad);
    }
  }

  void run_node(Node* node) {
    Ref<Node> keep = Ref<Node>::share(node);
    Task task = std::move(tasks_[node]);
    bool has_gradient = std::any_of(task.grads.begin(), task.grads.end(), [](const Tensor& g) { return g.defined(); });
    if (task.needed && has_gradient) run_tensor_hooks(*node, task);
    for (auto& [slot, index] : task.captures) {
      if (slot < task.grads.size()) captured_[index] = task.grads[slot];
    }
    bool is_leaf = node->edge_count() == 0;
    std::vector<Tensor> results(node->edge_count());
    bool wanted = is_leaf ? options_.accumulate && (!restricted_ || !task.captures.empty()) : leads_on(*node);
    if (task.needed && has_gradient && wanted) call(*node, task.grads, results);
    for (size_t i = 0; i < results.size(); ++i) deliver(node->edge(i), std::move(results[i]));
  }

  bool leads_on(const Node& node) {
    if (!restricted_) return true;
    for (size_t i = 0; i < node.edge_count(); ++i) {
      Node* next = node.edge(i).node.get();
      if (next && tasks_[next].needed) return true;
    }
    return false;
  }

  void run_tensor_hooks(Node& node, Task& task) {
    NodeHooks* hooks = node.hooks_if_any();
    if (!hooks) return;
    for (auto& [slot, hook] : hooks->tensor) {
      if (slot >= task.grads.size() || !task.grads[slot].defined()) continue;
      Tensor replaced = hook->call(task.grads[slot]);
      if (replaced.defined()) task.grads[slot] = fit(node, slot, replaced);
    }
  }

  void call(Node& node, std::vector<Tensor>& grads, std::vector<Tensor>& results) {
    grads.resize(std::max(grads.size(), node.output_count()));
    NodeHooks* hooks = node.hooks_if_any();
    if (hooks) {
      for (auto& hook : hooks->before) hook->call(grads, grads);
    }
    node.apply(grads.data(), results.data());
    if (hooks) {
      for (auto& hook : hooks->after) hook->call(results, grads);
    }
    if (!options_.keep_graph && node.edge_count() > 0) {
      node.release_saved();
      node.freed = true;
    }
  }

  void deliver(const Edge& edge, Tensor grad) {
    if (!edge.node) return;
    if (grad.defined()) add_gradient(edge, grad);
    grad = Tensor();
    if (--tasks_[edge.node.get()].dependencies == 0) push(edge.node.get());
  }

  BackwardOptions options_;
  bool restricted_ = false;
  std::unordered_map<Node*, Task> tasks_;
  std::vector<Node*> ready_;
  std::vector<Tensor> captured_;
};

}  // namespace

std::vector<Tensor> run_backward(const std::vector<Edge>& roots, std::vector<Tensor> grads, const std::vector<Edge>& inputs,
                                 const BackwardOptions& options) {
  Pass pass(options, inputs.size());
  pass.count_dependencies(roots);
  if (!inputs.empty()) pass.restrict_to(inputs);
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!grads[i].defined()) continue;
    pass.seed(roots[i], grads[i]);
    grads[i] = Tensor();
  }
  pass.run(roots);
  return pass.take_captured();
}

}  // namespace facula
