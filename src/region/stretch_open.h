// Defines a stretch that is going on, and then one that waits to be made: the recipe of what its ops give.
#pragma once

#include <thread>

#include "core/stream.h"
#include "region/stretch.h"

namespace facula {

/// The results of an op whose operands `value` knows, run by its row; none of what writes in place.
template <class F>
std::vector<Tensor> run_op(const StretchOp& op, F&& value) {
  std::vector<Value> arguments;
  for (const StretchArgument& a : op.arguments) {
    const auto tensor = [&](int number) { return number < 0 ? Tensor() : value(number); };
    if (!a.has_tensors) {
      arguments.push_back(a.number);
    } else if (a.is_list) {
      std::vector<Tensor> list;
      for (const int number : a.tensors) list.push_back(tensor(number));
      arguments.emplace_back(std::move(list));
    } else {
      arguments.emplace_back(tensor(a.tensors[0]));
    }
  }
  std::vector<const Value*> given;
  for (const Value& v : arguments) given.push_back(&v);
  std::vector<Value> made(op.row->results.size());
  op.row->call(given.data(), made.data());
  std::vector<Tensor> tensors;
  for (const Value& v : made) {
    if (v.kind() == Value::Kind::Tensors) tensors.insert(tensors.end(), v.tensors().begin(), v.tensors().end());
    else tensors.push_back(v.tensor());
  }
  return tensors;
}

/// Ops as if nothing around them were set: below autocast, vmap, autograd, and unseen.
class BareThread {
 public:
  BareThread() : modes_(std::exchange(thread_state.modes, 0u)) {}
  ~BareThread() { thread_state.modes = modes_; }
  BareThread(const BareThread&) = delete;

 private:
  Unwatched unwatched_;
  GradMode no_grad_{false};
  uint32_t modes_;
};

class Stretch final : public Recipe {
 public:
  Stretch(StretchRun& run, std::shared_ptr<StretchTree> tree);

  /// Nothing of it was needed: ops may come to it.
  bool is_open() const;
  bool has_recorded() const { return recorded_; }
  bool too_long(size_t most) const { return values_.size() > most; }
  bool has_room(size_t ways) const;

  /// Reads a call; false where an operand cannot be read later.
  bool read(const OpCall& call, StretchOp& op);
  /// What comes next in the tree and is this call; null: nothing.
  StretchNode* find(const StretchOp& op) const;
  /// Finds out what the op gives, and puts it into the tree; null where it fails.
  StretchNode* record(StretchOp op);
  /// The op waits: results are in the slots. False where somebody needed a value meanwhile.
  bool put_off(StretchNode& node, const OpCall& call);
  /// The call that was read runs at once.
  void forget_call();
  /// The views were made.
  void show(StretchNode& node, const OpCall& call);

  void end(bool raised);
  void leave() { run_ = nullptr; }

  void make(size_t which) override;
  bool reads(const Storage* storage) const override;
  void dropped(size_t which) noexcept override;

 private:
  struct Known {
    Tensor real;           // of inputs and their views
    Tensor original;       // of inputs: a parameter as the program has it, or `real`
    int result = -1;       // of this recipe, on whose storage it is
    bool is_read = false;  // it is among reads_
    int64_t offset = 0;    // there
    TensorForm form;
  };
  bool takes(const Tensor& t);
  int number_of(const Tensor& t, StretchOp& op);
  int number_of_waiting(const Tensor& t, int result) const;
  Tensor expected(int number) const;
  Tensor operand(const StretchOp& op, int number) const;
  bool is_same_on_meta(const StretchOp& op) const;
  void expect();
  void run_expected(const StretchOp& op);
  bool fits(const StretchOp& op, const std::vector<Tensor>& made) const;
  void take_inputs(const StretchOp& op);
  void read_operands_late(const StretchOp& op);
  std::vector<int> wanted() const;
  StretchProgram program(std::vector<int> results) const;
  std::optional<StretchCode> code_for(const std::vector<int>& wanted);
  StretchCode compile(const std::vector<int>& wanted);
  void run(const StretchCode& code);
  void forget();
  void give(const std::vector<int>& numbers, std::vector<Tensor> made);
  std::vector<Tensor> values(const std::vector<int>& numbers) const;

  StretchRun* run_;  // null: its call has ended
  const std::shared_ptr<StretchTree> tree_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const bool gradients_ = GradMode::enabled();
  StretchNode* at_;
  Stream stream_{kCPU};      // of all values
  mutable std::mutex lock_;  // of what follows, against threads that need a result. Taken before that of recipes
  bool open_ = true;
  std::vector<Known> values_;
  std::vector<int> result_values_;                      // numbers of the results of this recipe
  std::vector<Tensor> expected_;                        // of each result, while something is recorded
  std::unordered_multimap<const void*, int> by_place_;  // of inputs and their views
  mutable std::mutex reads_lock_;                       // taken while recipes are locked
  std::vector<const Storage*> reads_;
  std::vector<std::pair<Tensor, Tensor>> fresh_;  // inputs of the op that is read: as saved, as the program has them
  std::vector<Tensor> made_;                      // what an op gave that has run already
  bool ran_ = false;                              // it has
  bool expects_ = false, recorded_ = false, failed_ = false, raised_ = false;
};

}  // namespace facula
