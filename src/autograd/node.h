// Defines the recorded graph. Nodes hold what a derivative needs, and edges lead to where its results go.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "autograd/inline_vector.h"
#include "autograd/spin_lock.h"
#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

class Node;
class SavedVisitor;
void retain(Node* node);
void release(Node* node);

/// A tensor with one of these flags has a history: it wants a gradient, or it depends on a forward-mode input.
constexpr uint32_t kRecorded = kRequiresGrad | kDual;

/// Which of these in `flags` the thread records now.
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

/// What few nodes have. Hooks may come while another thread runs the node.
struct NodeExtra {
  SharedList<std::pair<uint32_t, std::shared_ptr<TensorHook>>> tensor_hooks;  // slot, hook
  SharedList<std::shared_ptr<NodeHook>> before, after;
  std::vector<std::pair<uint32_t, AutogradMeta*>> retained;  // slot, whose .grad is filled; under a lock of its own
  std::string traceback;                                     // of the forward call, in anomaly mode
  void* metadata = nullptr;                                  // the Python dict of the node, owned
};

/// Which gradients the pass on this thread requests of the node that it runs. It belongs to the pass, not to the node,
/// because several passes may share a graph.
struct RequestedEdges {
  const Node* node = nullptr;      // null: of all nodes whatever leads somewhere
  const int32_t* edges = nullptr;  // per edge of `node`: negative where the gradient is of no use
};
extern thread_local constinit RequestedEdges requested __attribute__((tls_model("initial-exec")));

class Node {
 public:
  Node() : Node(true) {}
  /// `recorded`: an op records it, and observers are notified.
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

  /// Whether the gradient along an edge is of use: to the pass that runs this node, and before one runs to any.
  bool wants(size_t edge) const { return edges_[edge].node && (requested.node != this || requested.edges[edge] >= 0); }
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
    NodeExtra* found = extra_if_any();
    return found ? *found : make_extra();
  }
  NodeExtra* extra_if_any() const { return extra_.load(std::memory_order_acquire); }

  RefCount refs;
  bool is_accumulator = false;
  bool freed = false;                        // saved values were let go
  uint16_t compiled;                         // the number of the compiled function that recorded it, or 0
  std::atomic<const void*> runner{nullptr};  // the thread that runs it, see NodeLock
  uint32_t flags = kRequiresGrad;            // that its results get
  void* pyobj = nullptr;                     // the Python object that shows this node, borrowed

 private:
  NodeExtra& make_extra();

  uint64_t sequence_;
  std::atomic<NodeExtra*> extra_{nullptr};  // owned
  InlineVector<Edge, 2> edges_;
  InlineVector<OutputInfo, 1> outputs_;
};

/// Writes into the leaf's `.grad`. It belongs to the leaf and lives as long; while a graph refers to it, it keeps the
/// leaf alive.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad();
  void apply(const Tensor* grads, Tensor* results) override;
  std::string name() const override { return "AccumulateGrad"; }
  const Tensor& leaf() const { return leaf_; }
  SharedList<std::shared_ptr<TensorHook>> after_accumulate;

 private:
  friend void release(Node*);
  friend Ref<Node> accumulator_of(TensorImpl*);
  Tensor leaf_;  // set while somebody refers to this node
};

/// What autograd hangs on a tensor.
struct AutogradMeta final : AutogradMetaBase {
  Tensor grad;  // through grad_of() and set_grad_of() only: passes may be at it
  Ref<Node> grad_fn;
  uint32_t slot = 0;        // which output of grad_fn
  uint32_t generation = 0;  // of a base: how often in-place writes changed its history
  // Of a view: the base's generation when grad_fn was set. Whoever sees the present one sees its grad_fn.
  std::atomic<uint32_t> base_generation = 0;
  bool retains_grad = false;
  std::atomic<AccumulateGrad*> accumulator{nullptr};  // of a leaf, owned

  ~AutogradMeta() override;
  static void* operator new(size_t bytes) { return small_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { small_release(p, bytes); }
};
static_assert(sizeof(AutogradMeta) <= 64);

inline AutogradMeta* autograd_meta(const TensorImpl* impl) {
  return static_cast<AutogradMeta*>(
      std::atomic_ref(const_cast<AutogradMetaBase*&>(impl->autograd)).load(std::memory_order_acquire));
}
AutogradMeta& new_autograd_meta(TensorImpl* impl);
/// For all who only use a tensor: several may do so at once.
inline AutogradMeta& make_autograd_meta(TensorImpl* impl) {
  AutogradMeta* found = autograd_meta(impl);
  return __builtin_expect(found != nullptr, 1) ? *found : new_autograd_meta(impl);
}
/// For the one who makes the tensor or writes to it.
inline AutogradMeta& own_autograd_meta(TensorImpl* impl) {
  if (!impl->autograd) impl->autograd = new AutogradMeta;
  return *static_cast<AutogradMeta*>(impl->autograd);
}

/// Where the gradient of a tensor goes; a null node when it wants none.
Edge gradient_edge(TensorImpl* impl);
/// The node that made a tensor, null for leaves; made anew for a view whose base was written to.
Ref<Node> grad_fn(TensorImpl* impl);
/// The node that writes the gradient of a leaf.
Ref<Node> accumulator_of(TensorImpl* leaf);
/// The flags of a view whose base may have got its history later.
uint32_t watched_flags(const TensorImpl* view);
/// The flags of a tensor that may be such a view (kWatchBase). Nothing is written: several threads may read a tensor.
inline uint32_t live_flags(const TensorImpl* impl) {
  return __builtin_expect((impl->flags & kWatchBase) == 0, 1) ? impl->flags : watched_flags(impl);
}
inline bool requires_grad(const Tensor& t) { return live_flags(t.impl()) & kRequiresGrad; }
Tensor grad_of(const Tensor& tensor);
void set_grad_of(const Tensor& tensor, const Tensor& grad);
void set_requires_grad(const Tensor& tensor, bool requires_grad);
/// From now on backward fills `.grad` of this result of an op, too.
void retain_grad(const Tensor& tensor);
/// Fills `.grad` of the tensors for which retain_grad() was called.
void fill_retained(NodeExtra& extra, uint32_t slot, const Tensor& grad);

/// Exchanges the node behind a tensor; what retain_grad() registered moves along.
void set_grad_fn(AutogradMeta& meta, Ref<Node> node, uint32_t slot);
/// Makes `node` the history of `result` (ignored for results that cannot have a gradient).
void set_history(const Tensor& result, Node* node);
inline void set_history(const std::vector<Tensor>& results, Node* node) {
  for (const Tensor& t : results) set_history(t, node);
}
/// Removes history: the tensor becomes a leaf that wants no gradient.
void clear_history(const Tensor& tensor);

}  // namespace facula
