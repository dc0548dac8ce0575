// Defines observers of ops.
//   - An op is observed where its kernel is about to run: below autocast, vmap and autograd, whoever called it. A
//     composite is observed where Python calls it, around the ops that it consists of.
//   - Observers see calls and change nothing. `host.dispatch`, which the Python layer installs for __torch_dispatch__,
//     stands in for the kernel.
//   - ThreadState::watch says whether anybody observes the thread. This costs one load and one test per op when nobody
//     does.
//   - An observer that runs ops itself does so Unwatched (core/mode.h).
#pragma once

#include "observe/op_call.h"

namespace facula {

class Node;

/// A storage that was made or let go while somebody follows storages.
struct MemoryEvent {
  const Storage* storage;
  int64_t bytes;  // negative: let go
};

/// Notified of what happens on the threads it watches, on those threads. Nothing may be thrown.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Whether memory_changes() is wanted; set before it is added.
  bool follows_memory = false;
  virtual void op_begins(const OpCall&) {}
  /// `failed`: it threw, and has no results.
  virtual void op_ends(const OpCall&, bool /*failed*/) {}
  /// The backward pass runs a node of the graph.
  virtual void node_begins(const Node&) {}
  virtual void node_ends(const Node&) {}
  /// The op that ended last on this thread is recorded in the graph by this node.
  virtual void node_made(const Node&) {}
  /// A range that the program names.
  virtual void range_begins(std::string_view /*name*/) {}
  virtual void range_ends() {}
  /// A kernel of a table runs, inside an op. Kernels that an op calls without the table are not distinguished from it.
  virtual void kernel_begins(const char* /*name*/) {}
  virtual void kernel_ends() {}
  /// A thread of the pool does its piece of an op.
  virtual void work_begins() {}
  virtual void work_ends() {}
  virtual void memory_changes(const MemoryEvent&) {}
};

enum class Watched : uint8_t { ThisThread, AllThreads };

/// Notifies `observer` from now on. It must live until remove_observer() returns.
void add_observer(Observer* observer, Watched threads);
/// Ends its notifications. Throws a RuntimeError when it was not added (on this thread).
void remove_observer(Observer* observer, Watched threads);

/// The scope of one call. In the generated functions:
///
///     Tensor result;
///     OpScope scope(op_id::mul, OpForm::Function, arguments, results);
///     if (scope.runs()) result = ops::mul(self, other);
///     scope.done();
class OpScope {
 public:
  OpScope(uint16_t op, OpForm form, List<Argument> arguments, List<ResultSlot> results);
  ~OpScope() {
    if (!done_) finish(true);
  }
  OpScope(const OpScope&) = delete;
  /// Whether the kernel is to run: nobody stood in for it.
  bool runs() const { return !replaced_; }
  void done() { finish(false); }

 private:
  void finish(bool failed);
  OpCall call_;
  bool done_ = false;
  bool replaced_ = false;
  bool in_region_ = false;  // a region was notified that it begins
  bool in_cells_ = false;   // a memory budget was notified that it begins
};

/// Installed by src/sparse. Of a call with sparse tensors: runs what stands in for the kernel and puts the results into
/// the slots, or into the tensors written to. False: the op itself takes sparse tensors. Throws for all others.
extern bool (*run_sparse)(const OpCall& call);

/// Installed by src/region, and called while kWatchRegion is set: a compiled function may put off what an op computes.
struct RegionHooks {
  /// Before the kernel runs. True: the results are in the slots, or the write is done; it is not to run.
  bool (*op_begins)(const OpCall& call) = nullptr;
  void (*op_ends)(const OpCall& call, bool failed) = nullptr;
  /// Python is about to be given a value, or a size that depends on values, by the function `what`.
  void (*value_needed)(const char* what) = nullptr;
  /// Around a backward pass through nodes that the compiled function with this number has recorded. Passes of one
  /// `kind` are not compared with those of another.
  void* (*pass_begins)(uint16_t compiled, uint64_t kind) = nullptr;
  void (*pass_ends)(void* pass, bool failed) = nullptr;
};
extern RegionHooks region_hooks;
/// Installed by src/budget, and called while kWatchBudget is set, around calls whose kernels run.
struct CellHooks {
  void (*op_begins)(const OpCall& call) = nullptr;
  void (*op_ends)(const OpCall& call, bool failed) = nullptr;
  /// A backward pass of this thread begins or ends, the outermost one.
  void (*pass)(bool begins) = nullptr;
  /// A leaf is given a gradient that it did not have.
  void (*gradient)(const Tensor& gradient) = nullptr;
};
extern CellHooks cell_hooks;
/// Installed by src/region/deferred.cpp, and called while kWatchDeferral is set. True: the results are in the slots,
/// and may wait to be made.
extern bool (*defer_op)(const OpCall& call);
inline void notify_region_of_value(const char* what) {
  if (__builtin_expect((watching() & kWatchRegion) != 0, 0)) region_hooks.value_needed(what);
}

/// Of a call with tensors of these flags: whether it goes through an OpScope.
inline bool is_watched(uint32_t flags) {
  return __builtin_expect((watching() | (flags & (kPythonDispatch | kSparse | kDeferred))) != 0, 0);
}

void notify_node_begins(const Node& node);
void notify_node_ends(const Node& node);
void notify_node_made(const Node& node);
void notify_kernel_begins(const char* name);
void notify_kernel_ends();
void notify_work_begins();
void notify_work_ends();
void notify_range_begins(std::string_view name);
void notify_range_ends();

}  // namespace facula
