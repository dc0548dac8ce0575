// Implements the inner recorder, which sees ops where their kernels run, below autocast, vmap and autograd
// (src/observe). So composites are the ops that they consist of, casts are ops, and a backward pass is recorded with
// what it runs.
//   - Autograd passes a known tensor's memory on as another object (saved values, detached tensors), so a tensor is
//     also known by its memory. One that shows known memory in another way becomes a view of it.
//   - A tensor that no op has made, and that was not there before, is an error, since it could depend on the inputs.
//     Memory that an op fills is no such case: it is made by an `empty`.
//   - Layouts that programs must not see are materialized at once.
#pragma once

#include <exception>

#include "observe/copy_watcher.h"
#include "observe/observer.h"
#include "program/record.h"

namespace facula {

/// An argument of an op as a value of programs.
Value value_of(const Argument& argument);

/// Records this thread's ops while it lives. finish() says what went wrong, if anything did.
class InnerRecorder final : public Observer, private CopyWatcher {
 public:
  /// `recorder` has its inputs already.
  explicit InnerRecorder(Recorder& recorder);
  ~InnerRecorder();
  InnerRecorder(const InnerRecorder&) = delete;

  void op_begins(const OpCall& call) override;
  void op_ends(const OpCall& call, bool failed) override;
  /// Rethrows what could not be thrown through an op.
  void finish();

 private:
  void elements_copied(const Tensor& to, const Tensor& from) override;
  template <class F>
  void guarded(F f);
  void record(const OpCall& call);
  void find_values(const Argument& argument);
  void put_argument(Trace& trace, const Argument& argument);
  void put_result(const ResultSlot& slot);

  /// The number of a tensor that no recorded op gave under this object, by an op that is recorded for it.
  int value_of_other(const Tensor& tensor);
  int add_view(const Tensor& tensor, int base);
  int add_memory(const Tensor& tensor);
  int add_number(const Tensor& tensor);
  std::string running() const;

  Recorder& recorder_;
  CopyWatcher* const copies_before_;
  int depth_ = 0;  // ops that have begun and not ended; only the outermost is recorded
  // of the op that is being recorded:
  const BoxedOp* running_ = nullptr;
  std::vector<int> found_;              // the values of its tensors, in order; -1: None in a list
  size_t next_found_ = 0;               // of them, how many are in the trace
  const TensorImpl* filled_ = nullptr;  // the tensor that it writes all of, whatever was there
  std::exception_ptr failure_;
};

}  // namespace facula
