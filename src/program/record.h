// The recorder: makes a program from ops as they run. Whoever sees an op (the bindings, where Python calls it, before
// composites open up) tells what it was given and what it gave; the recorder finds out which tensors these are.
//   - A tensor is known by identity, from when it is an input or made inside. The recorder holds every tensor that it
//     knows, so that none comes back at another's address.
//   - A tensor that is neither was made before: a constant. It is kept as it is when `keep` says so (what a module
//     holds), else as a copy of what it shows at its first use, which every run copies once more.
//   - What an op writes into is from then on the op's result.
#pragma once

#include <functional>
#include <unordered_map>

#include "program/program.h"

namespace facula {

class Recorder {
 public:
  Recorder() : program_(std::make_shared<Program>()) {}

  /// A tensor that the program is given or holds. The same tensor twice is one value: false for the second.
  bool add_input(const Tensor& tensor, ProgramInput input, std::string_view name, TensorMeta meta);
  /// A user's input that is no tensor; `constant` when it must come back as it is now.
  void add_number(ProgramInput input, std::string_view name, Value::Kind kind);

  /// The value of a tensor; what is not known becomes a constant.
  int value_of(const Tensor& tensor);
  bool knows(const Tensor& tensor) const { return known_.contains(tensor.impl()); }
  /// An argument of an op: tensors become values.
  Arg argument(const Value& value);

  /// An op has run. `results` as the op gave them; those of forms that write are the tensors written.
  void add(const BoxedOp& op, std::vector<Arg> arguments, std::span<const Value> results);
  void set_outputs(std::vector<Arg> outputs) { program_->outputs = std::move(outputs); }

  /// Where a constant is held: a path, for a tensor that the program is to hold itself.
  std::function<std::string(const Tensor&)> find_path;
  /// Where the calling program is: the module, and file:line.
  std::function<std::string()> find_source;
  std::string module;
  /// For who knows tensors by more than identity (program/inner.h): the value of the same elements, or -1; what to do
  /// with a tensor that is not known, instead of making it a constant; and who wants to hear of what is known.
  std::function<int(const Tensor&)> find_same, find_other;
  std::function<void(const Tensor&, int)> on_known;
  /// Calls f(tensor, value) for all that is known.
  template <class F>
  void each_known(F&& f) const {
    for (const Tensor& t : held_) f(t, known_.at(t.impl()));
  }

  const std::shared_ptr<Program>& program() const { return program_; }

 private:
  int add_constant(const Tensor& tensor);
  int add_result(const Value& result, const std::string& name);
  void know(const Tensor& tensor, int value);

  std::shared_ptr<Program> program_;
  std::unordered_map<const TensorImpl*, int> known_;
  std::vector<Tensor> held_;
  const bool grad_enabled_ = GradMode::enabled();  // where the recording began
};

}  // namespace facula
