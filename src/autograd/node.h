// The recorded graph: nodes hold what a derivative needs, edges lead to where its results go.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

class Node;
void retain(Node* node);
void release(Node* node);

struct Edge {
  Ref<Node> node;     // null: no gradient is wanted there
  uint32_t slot = 0;  // which forward output of that node
};

/// Shape and dtype of a forward output: what an incoming gradient must look like.
struct OutputInfo {
  Dims sizes;
  DType dtype = DType::Float32;
  Device device;
};

/// A gradient hook; returns an undefined tensor to leave the gradient as it is. Implemented by the Python layer.
struct TensorHook {
  virtual ~TensorHook() = default;
  virtual Tensor call(const Tensor& grad) = 0;
  uint64_t id = 0;
};
/// A hook on a whole node: before it runs (sees the gradients of its outputs) or after (sees both ends).
struct NodeHook {
  virtual ~NodeHook() = default;
  virtual void call(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) = 0;
  uint64_t id = 0;
};

struct NodeHooks {
  std::vector<std::pair<uint32_t, std::unique_ptr<TensorHook>>> tensor;  // slot, hook; retain_grad ones last
  std::vector<std::unique_ptr<NodeHook>> before, after;
};

class Node {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;

  static void* operator new(size_t bytes) { return bytes <= kSmallBlock ? small_allocate(bytes) : ::operator new(bytes); }
  static void operator delete(void* p, size_t bytes) { bytes <= kSmallBlock ? small_release(p, bytes) : ::operator delete(p); }

  /// `grads`: one per forward output (undefined: zero). `results`: one per edge, undefined on entry; a result is needed
  /// only where wants(i).
  virtual void apply(const Tensor* grads, Tensor* results) = 0;
  /// Lets go of saved values; apply() afterwards reports a second backward.
  virtual void release_saved() {}
  virtual std::string name() const = 0;

  bool wants(size_t edge) const { return static_cast<bool>(edges_[edge].node); }
  size_t edge_count() const { return edges_.size(); }
  const Edge& edge(size_t i) const { return edges_[i]; }
  void add_edge(Edge edge) { edges_.push_back(std::move(edge)); }
  void set_edge(size_t i, Edge edge) { edges_[i] = std::move(edge); }
  std::vector<Edge>& edges() { return edges_; }
  uint64_t sequence() const { return sequence_; }
  void set_sequence(uint64_t s) { sequence_ = s; }

  size_t output_count() const { return outputs_.size(); }
  const OutputInfo& output(size_t slot) const { return outputs_[slot]; }
  /// Registers a forward output and returns its slot.
  uint32_t add_output(const Tensor& tensor);
  void set_output(uint32_t slot, const Tensor& tensor);

  NodeHooks& hooks() {
    if (!hooks_) hooks_ = std::make_unique<NodeHooks>();
    return *hooks_;
  }
  NodeHooks* hooks_if_any() const { return hooks_.get(); }

  RefCount refs;
  void* pyobj = nullptr;  // the Python object that shows this node, borrowed
  bool freed = false;     // saved values were let go
  /// Forward traceback, in anomaly mode.
  std::string traceback;
  Ref<Node> anomaly_parent;

 private:
  std::vector<Edge> edges_;
  std::vector<OutputInfo> outputs_;
  std::unique_ptr<NodeHooks> hooks_;
  uint64_t sequence_;
};

/// What the Python layer installs: called for every node made in anomaly mode.
inline void (*on_node_created)(Node*) = nullptr;
/// Called when a node with a `pyobj` dies.
inline void (*on_node_destroyed)(Node*) = nullptr;

/// Writes into the leaf's `.grad`.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  void apply(const Tensor* grads, Tensor* results) override;
  std::string name() const override { return "AccumulateGrad"; }
  const Tensor& leaf() const { return leaf_; }

 private:
  Tensor leaf_;
};

/// What autograd hangs on a tensor.
struct AutogradMeta final : AutogradMetaBase {
  Tensor grad;
  Ref<Node> grad_fn;
  uint32_t slot = 0;                       // which output of grad_fn
  uint32_t generation = 0;                 // of a base: how often in-place writes changed its history
  uint32_t base_generation = 0;            // of a view: the base's generation when grad_fn was set
  bool retains_grad = false;
  AccumulateGrad* accumulator = nullptr;   // weak; guarded by a lock in node.cpp
  std::vector<std::unique_ptr<TensorHook>> hooks;            // of a leaf
  std::vector<std::unique_ptr<TensorHook>> accumulate_hooks; // after .grad was written
  Tensor tangent;                          // forward mode

  static void* operator new(size_t bytes) { return small_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { small_release(p, bytes); }
};

inline AutogradMeta* autograd_meta(const TensorImpl* impl) { return static_cast<AutogradMeta*>(impl->autograd); }
inline AutogradMeta& make_autograd_meta(TensorImpl* impl) {
  if (!impl->autograd) impl->autograd = new AutogradMeta;
  return *autograd_meta(impl);
}

/// Where the gradient of a tensor goes; a null node when it wants none.
Edge gradient_edge(TensorImpl* impl);
/// The node that made a tensor, null for leaves; made anew for a view whose base was written to.
Ref<Node> grad_fn(TensorImpl* impl);
Tensor grad_of(const Tensor& tensor);
void set_grad_of(const Tensor& tensor, const Tensor& grad);
void set_requires_grad(const Tensor& tensor, bool requires_grad);
/// Makes `node` the history of `result` (ignored for results that cannot have a gradient).
void set_history(const Tensor& result, Node* node);
inline void set_history(const std::vector<Tensor>& results, Node* node) {
  for (const Tensor& t : results) set_history(t, node);
}
/// Removes history: the tensor becomes a leaf that wants no gradient.
void clear_history(const Tensor& tensor);

}  // namespace facula
