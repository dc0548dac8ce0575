// Evaluates the recorded graph backwards.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/node.h"

namespace facula {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;  // gradients get a history of their own
  bool accumulate = true;     // write into the leaves' .grad (else only capture)
  /// Nodes that were recorded for one of these flags are run: what is recorded for forward mode alone (under no_grad())
  /// is no part of a backward pass, and what is recorded for backward alone no part of a tangent.
  uint32_t follows = kRequiresGrad;
};

/// Runs from `roots` with gradients `grads`. With `inputs`, the gradients that arrive there are returned (undefined
/// where none did), only the nodes on the way are run, and only leaves among the inputs accumulate; without, all leaves
/// do.
std::vector<Tensor> run_backward(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                                 const std::vector<Edge>& inputs, const BackwardOptions& options);

struct LeafGradient {
  Tensor leaf, grad;
};

/// A pass whose roots get their gradients one by one, from other processes. A node runs when all that leads to it from
/// any of the roots has delivered; gradients of leaves are handed out, not written into the leaves.
class SteppedPass {
 public:
  SteppedPass(std::vector<Edge> roots, bool keep_graph);
  ~SteppedPass();
  SteppedPass(const SteppedPass&) = delete;
  /// Gives the roots from number `first` on their gradients (undefined: none), each root once, and runs what is ready.
  /// Returns the leaves whose gradients are complete. Not while another step runs.
  std::vector<LeafGradient> step(size_t first, std::vector<Tensor> grads);

 private:
  std::vector<Edge> roots_;
  std::vector<bool> arrived_;
  std::atomic<bool> running_ = false;
  std::unique_ptr<class Pass> pass_;
};

/// For hooks: the number of the innermost pass that runs on this thread (0: none), and how many of `nodes` get a
/// gradient in it.
uint64_t current_pass();
size_t count_reached(const std::vector<Node*>& nodes);
/// Whether the pass that runs on this thread is inside a node or hook of another one (reentrant checkpoints).
bool pass_is_nested();
/// For each of `nodes`, whether it gets a gradient in the pass unless a formula gives none.
std::vector<bool> which_reached(const std::vector<Node*>& nodes);
/// Calls when the outermost pass of this thread has run to its end, in the order they were queued; a call may queue
/// more. A pass that fails drops them. Only during a pass.
void call_after_pass(std::function<void()> call);
/// For formulas of nodes that can add to memory as cheaply as write it, during such a node: the sum of what has arrived
/// so far where this edge of the node leads. The node adds its part to it and returns it as its result for that edge.
/// Undefined unless nobody else holds the sum and it is plain, of these sizes and of this dtype.
Tensor take_partial_sum(size_t edge, IntList sizes, DType dtype);
/// Whether a pass for some inputs only runs on this thread: what starts a pass of its own would do more than was
/// requested.
bool restricted_pass_runs();

extern std::atomic<bool> anomaly_checks_nan;

}  // namespace facula
