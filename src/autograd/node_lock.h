// Lets only one thread at a time run a node or add to the gradient of a leaf.
#pragma once

#include "autograd/node.h"

namespace facula {

/// Of a thread that goes on where another one waits for it (deep_pass.h): that one, which runs its nodes.
extern thread_local constinit const void* goes_on_for __attribute__((tls_model("initial-exec")));

/// Makes this thread the runner of a node. A pass inside the node may come back to it.
///
/// A thread that waits for a node may run another one, which its runner waits for in turn: two hooks may each start a
/// pass through the node of the other. Who would close such a circle does not wait: all others of it stand still inside
/// of their nodes until it is done, as the outer pass of one thread stands still while an inner one comes back to it.
class NodeLock {
 public:
  explicit NodeLock(Node& node) : node_(node) {
    const void* nobody = nullptr;
    if (__builtin_expect(node.runner.compare_exchange_strong(nobody, me(), std::memory_order_acquire), 1)) return;
    owns_ = nobody != me() && wait();
  }
  ~NodeLock() {
    if (owns_) node_.runner.store(nullptr, std::memory_order_release);
  }
  NodeLock(const NodeLock&) = delete;
  /// Returns whether this thread is the runner already.
  static bool held(const Node& node) { return node.runner.load(std::memory_order_relaxed) == me(); }

 private:
  static const void* me() { return goes_on_for ? goes_on_for : &thread_state; }
  /// Whether the node became this thread's; throws when the user asks to stop.
  [[gnu::noinline]] bool wait();

  Node& node_;
  bool owns_ = true;
};

}  // namespace facula
