// Defines a program as C++ uses it:
//
//     auto p = facula::Program::load("model.pt2");
//     facula::Tensor y = p({x})[0];
//     for (const auto& [path, parameter] : p.named_parameters()) ...
//
// Calls go through the public ops, so results have a history where parameters or inputs require gradients, and a
// program trains like code. Copies share parameters and buffers. Any number of threads may call it at once, as far as
// the program writes to no buffer.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program/pt2.h"
#include "program/run.h"

namespace facula {

class LoadedProgram {
 public:
  /// A ".pt2" of PyTorch or Facula; a RuntimeError says what is wrong with it.
  explicit LoadedProgram(const std::string& path, const LoadOptions& options = {});
  /// A program from elsewhere, which is verified.
  explicit LoadedProgram(std::shared_ptr<Program> program);

  /// The results for inputs in the order of inputs(): tensors, and numbers where the program takes some. A wrong dtype,
  /// rank or size is a RuntimeError that names the input, what was expected and what came. Results that are numbers are
  /// given by run() only.
  std::vector<Tensor> operator()(const std::vector<Value>& inputs) const;
  std::vector<Value> run(const std::vector<Value>& inputs) const;

  struct Input {
    std::string name;
    Value::Kind kind;  // Tensor, or that of a number
    TensorMeta meta;   // of a Tensor: sizes may be expressions over symbols
    Value constant;    // what it must be, where it is not a tensor and was fixed
  };
  std::vector<Input> inputs() const;
  const std::vector<Symbol>& symbols() const { return program_->symbols; }

  using Named = std::pair<std::string, Tensor>;
  /// By path, in the order of the program.
  std::vector<Named> named_parameters() const { return held(ProgramInput::Kind::Parameter); }
  std::vector<Named> named_buffers() const { return held(ProgramInput::Kind::Buffer); }
  std::vector<Named> named_constants() const { return held(ProgramInput::Kind::Constant); }
  /// The parameters that require gradients, each once: for an optimizer.
  std::vector<Tensor> parameters() const;
  /// The parameter, buffer or constant of a path; a ValueError where there is none.
  Tensor at(const std::string& path) const;

  const Program& program() const { return *program_; }
  std::string text() const { return program_->text(); }

 private:
  std::vector<Named> held(ProgramInput::Kind kind) const;

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Runner> runner_;
};

}  // namespace facula
