// The recorded graph: nodes hold what a derivative needs, edges lead to where its results go.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "autograd/inline_vector.h"
#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

class Node;
class SavedVisitor;
void retain(Node* node);
void release(Node* node);

/// A tensor with one of these marks has a history: it wants a gradient, or it depends on a forward-mode input.
constexpr uint32_t kRecorded = kRequiresGrad | kDual;

/// Which of the marks in `flags` the thread records now.
inline uint32_t recorded(uint32_t flags) {
  return flags & ((thread_state.grad_enabled ? kRequiresGrad : 0u) | (thread_state.forward_grad_enabled ? kDual : 0u));
}

struct Edge {
  Ref<Node> node;     // null: no gradient is wanted there
  uint32_t slot = 0;  // which forward output of that node
};

/// Shape, dtype and device of a forward output: what an incoming gradient must look like.
class OutputInfo {
 public:
  OutputInfo() = default;
  explicit OutputInfo(const Tensor& t);
  OutputInfo(OutputInfo&&) = default;
  OutputInfo& operator=(OutputInfo&&) = default;
  IntList sizes() const { return {more_ ? more_.get() : inline_, static_cast<size_t>(ndim_)}; }
  /// -1 for an output that is no tensor.
  int ndim() const { return ndim_; }
  DType dtype = DType::Float32;
  Device device;

 private:
  static constexpr int kInline = 4;
  int8_t ndim_ = -1;
  int64_t inline_[kInline];
  std::unique_ptr<int64_t[]> more_;
};

/// A gradient hook; returns an undefined tensor to leave the gradient as it is. Implemented by the Python layer.
struct TensorHook {
  virtual ~TensorHook() = default;
  virtual Tensor call(const Tensor& grad) = 0;
  uint64_t id = 0;
};
/// A hook on a whole node. Before it runs: `outputs` are the gradients of its outputs and may be replaced, `inputs` is
/// empty. After: `inputs` are the gradients it made and may be replaced.
struct NodeHook {
  virtual ~NodeHook() = default;
  virtual void call(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) = 0;
  uint64_t id = 0;
};

struct AutogradMeta;

/// What few nodes have.
struct NodeExtra {
  std::vector<std::pair<uint32_t, std::shared_ptr<TensorHook>>> tensor_hooks;  // slot, hook
  std::vector<std::pair<uint32_t, AutogradMeta*>> retained;                    // slot, whose .grad is filled
  std::vector<std::shared_ptr<NodeHook>> before, after;
  std::string traceback;     // of the forward call, in anomaly mode
  void* metadata = nullptr;  // the Python dict of the node, owned
};

class Node {
 public:
  Node() : Node(true) {}
  /// `recorded`: an op records it, and observers are told.
  explicit Node(bool recorded);
  virtual ~Node();
  Node(const Node&) = delete;

  static void* operator new(size_t bytes) {
    return bytes <= kSmallBlock ? small_allocate(bytes) : ::operator new(bytes);
  }
  static void operator delete(void* p, size_t bytes) {
    bytes <= kSmallBlock ? small_release(p, bytes) : ::operator delete(p);
  }

  /// `grads`: one per forward output (undefined: zero). `results`: one per edge, undefined on entry; a result is needed
  /// only where wants(i).
  virtual void apply(const Tensor* grads, Tensor* results) = 0;
  /// Lets go of saved values; apply() afterwards reports a second backward.
  virtual void release_saved() {}
  /// Shows what it saved; throws when that was let go.
  virtual void visit_saved(SavedVisitor&) const {}
  virtual std::string name() const = 0;

  bool wants(size_t edge) const { return static_cast<bool>(edges_[edge].node); }
  size_t edge_count() const { return edges_.size(); }
  const Edge& edge(size_t i) const { return edges_[i]; }
  void add_edge(Edge edge) { edges_.emplace_back(std::move(edge)); }
  void set_edge(size_t i, Edge edge) { edges_[i] = std::move(edge); }
  uint64_t sequence() const { return sequence_; }
  void set_sequence(uint64_t s) { sequence_ = s; }

  size_t output_count() const { return outputs_.size(); }
  const OutputInfo& output(size_t slot) const { return outputs_[slot]; }
  /// Registers a forward output and returns its slot.
  uint32_t add_output(const Tensor& tensor) {
    outputs_.emplace_back(tensor);
    return static_cast<uint32_t>(outputs_.size() - 1);
  }
  /// For an output that is no tensor.
  void add_output() { outputs_.emplace_back(); }
  void set_output(uint32_t slot, const Tensor& tensor) { outputs_[slot] = OutputInfo(tensor); }

  NodeExtra& extra() {
    if (!extra_) extra_ = std::make_unique<NodeExtra>();
    return *extra_;
  }
  NodeExtra* extra_if_any() const { return extra_.get(); }

  RefCount refs;
  bool is_accumulator = false;
  bool freed = false;                        // saved values were let go
  std::atomic<const void*> runner{nullptr};  // the thread that runs it, see NodeLock
  uint32_t marks = kRequiresGrad;            // what its results are marked with
  void* pyobj = nullptr;                     // the Python object that shows this node, borrowed

 private:
  uint64_t sequence_;
  std::unique_ptr<NodeExtra> extra_;
  InlineVector<Edge, 2> edges_;
  InlineVector<OutputInfo, 1> outputs_;
};

/// What the Python layer installs: called for every node made in anomaly mode.
inline void (*on_node_created)(Node*) = nullptr;
/// Called when a node with a `pyobj` or metadata dies.
inline void (*on_node_destroyed)(Node*) = nullptr;

/// Writes into the leaf's `.grad`. It belongs to the leaf and lives as long; while a graph refers to it, it keeps the
/// leaf alive.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad();
  void apply(const Tensor* grads, Tensor* results) override;
  std::string name() const override { return "AccumulateGrad"; }
  const Tensor& leaf() const { return leaf_; }
  std::vector<std::shared_ptr<TensorHook>> after_accumulate;

 private:
  friend void release(Node*);
  friend Ref<Node> accumulator_of(TensorImpl*);
  Tensor leaf_;  // set while somebody refers to this node
};

/// What autograd hangs on a tensor.
struct AutogradMeta final : AutogradMetaBase {
  Tensor grad;
  Ref<Node> grad_fn;
  uint32_t slot = 0;             // which output of grad_fn
  uint32_t generation = 0;       // of a base: how often in-place writes changed its history
  uint32_t base_generation = 0;  // of a view: the base's generation when grad_fn was set
  bool retains_grad = false;
  std::atomic<AccumulateGrad*> accumulator{nullptr};  // of a leaf, owned

  ~AutogradMeta() override;
  static void* operator new(size_t bytes) { return small_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { small_release(p, bytes); }
};
static_assert(sizeof(AutogradMeta) <= 64);

inline AutogradMeta* autograd_meta(const TensorImpl* impl) { return static_cast<AutogradMeta*>(impl->autograd); }
inline AutogradMeta& make_autograd_meta(TensorImpl* impl) {
  if (!impl->autograd) impl->autograd = new AutogradMeta;
  return *autograd_meta(impl);
}

/// Where the gradient of a tensor goes; a null node when it wants none.
Edge gradient_edge(TensorImpl* impl);
/// The node that made a tensor, null for leaves; made anew for a view whose base was written to.
Ref<Node> grad_fn(TensorImpl* impl);
/// The node that writes the gradient of a leaf.
Ref<Node> accumulator_of(TensorImpl* leaf);
/// The flags of a tensor that may be a view of a base that got its history later (kWatchBase).
uint32_t live_flags(TensorImpl* impl);
Tensor grad_of(const Tensor& tensor);
void set_grad_of(const Tensor& tensor, const Tensor& grad);
void set_requires_grad(const Tensor& tensor, bool requires_grad);
/// From now on backward fills `.grad` of this result of an op, too.
void retain_grad(const Tensor& tensor);
/// Fills `.grad` of the tensors that asked for it with retain_grad().
void fill_retained(NodeExtra& extra, uint32_t slot, const Tensor& grad);

/// Exchanges the node behind a tensor; what retain_grad() asked for moves along.
void set_grad_fn(AutogradMeta& meta, Ref<Node> node, uint32_t slot);
/// Makes `node` the history of `result` (ignored for results that cannot have a gradient).
void set_history(const Tensor& result, Node* node);
inline void set_history(const std::vector<Tensor>& results, Node* node) {
  for (const Tensor& t : results) set_history(t, node);
}
/// Removes history: the tensor becomes a leaf that wants no gradient.
void clear_history(const Tensor& tensor);

}  // namespace facula
