// Implements the recorder, which makes a program from ops as they run. Whoever sees an op (the bindings, where Python
// calls it, before composites open up) reports its arguments and results, and the recorder finds out which tensors
// these are.
//   - A tensor is known by identity, from when it is an input or made inside; after know_memory() also by the elements
//     that it shows. The recorder holds every tensor that it knows, so that none comes back at another's address.
//   - A tensor that is neither was made before and is a constant. It is stored as it is if `keep` says so (what a
//     module holds). Otherwise a copy of what it shows at its first use is stored, which every run copies once more.
//   - A tensor that an op writes into is the op's result from then on.
//   - Ops are noted in a trace (program/trace.h), from which finish() makes the program.
#pragma once

#include <functional>

#include "program/trace.h"

namespace facula {

class Recorder {
 public:
  Recorder() : program_(std::make_shared<Program>()) {}
  /// So many ops, inputs counted, may come: a hint.
  void expect(size_t ops);

  /// A tensor that the program is given or holds. The same tensor twice is one value: false for the second.
  bool add_input(const Tensor& tensor, ProgramInput input, std::string_view name, TensorMeta meta);
  /// A user's input that is no tensor; `constant` when it must come back as it is now.
  void add_number(ProgramInput input, std::string_view name, Value::Kind kind);

  /// The value of a tensor; what is not known becomes a constant.
  int value_of(const Tensor& tensor);
  bool knows(const Tensor& tensor) const { return find_impl(tensor) >= 0; }
  /// An argument of an op: tensors become values.
  Arg argument(const Value& value);

  /// An op has run. `results` as the op gave them; those of forms that write are the tensors written.
  void add(const BoxedOp& op, std::vector<Arg> arguments, std::span<const Value> results);
  /// The same in steps: begin(), then every argument is put into the trace, and every result is reported.
  Trace& begin(const BoxedOp& op);
  void result(const Tensor& tensor);
  void result(TensorList list);
  void number(Value::Kind kind) { trace_.add_value(kind); }
  void set_outputs(std::vector<Arg> outputs) { program_->outputs = std::move(outputs); }

  /// Where a constant is held: a path, for a tensor that the program is to hold itself.
  std::function<std::string(const Tensor&)> find_path;
  /// Where the calling program is: the module, and file:line.
  std::function<std::string()> find_source;
  std::string module;
  /// From here on what shows the same elements of the same memory as a known tensor is that tensor's value.
  void know_memory();
  /// What to do with a tensor that is not known, instead of making it a constant; and the first value on its storage.
  std::function<int(const Tensor&)> find_other;
  int first_on_storage(const Tensor& tensor) const;
  const Trace& trace() const { return trace_; }

  /// The program while it is recorded: its inputs, symbols, guards, outputs and roles; and in the end.
  const std::shared_ptr<Program>& program() const { return program_; }
  /// Puts values and nodes into the program; to be called once.
  const std::shared_ptr<Program>& finish();

 private:
  struct Input {
    int value;
    std::string name;
    TensorMeta meta;
  };
  struct Place {
    std::string module, source;
  };

  int add_constant(const Tensor& tensor);
  void say(int value, std::string_view name, TensorMeta meta);
  void know(const Tensor& tensor, int value);
  void remember(const Tensor& tensor, int value);
  int find_impl(const Tensor& tensor) const;
  uint32_t place();
  void name_inputs(int before, size_t& at);
  void add_node(size_t row);

  std::shared_ptr<Program> program_;
  Trace trace_;
  std::vector<Input> inputs_;  // what values of inputs are called, in their order
  std::vector<Place> places_;
  std::unordered_map<std::string, uint32_t> place_numbers_;  // by both texts
  NumberTable by_impl_, by_memory_, by_storage_;
  bool knows_memory_ = false;
  std::vector<std::pair<Tensor, int>> held_;       // what was known first of an object
  const bool grad_enabled_ = GradMode::enabled();  // where the recording began
};

}  // namespace facula
