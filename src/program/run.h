// Runs a program. It looks up nothing by name, and frees every value after its last use.
#pragma once

#include <memory>
#include <span>

#include "program/program.h"

namespace facula {

class Runner {
 public:
  /// Verifies the program, which it keeps.
  explicit Runner(std::shared_ptr<const Program> program);
  ~Runner();
  Runner(const Runner&) = delete;

  /// `inputs`: those of the user, in order. Outputs as the program lists them: lists of tensors are Tensors.
  /// A wrong dtype, rank or size is a RuntimeError that names the input, what was expected and what came. Any number
  /// of threads may call it at once.
  std::vector<Value> operator()(std::span<const Value> inputs) const { return run(inputs, {}); }
  /// The same with other tensors than those that the program holds: one for every input, where there are any.
  std::vector<Value> run(std::span<const Value> inputs, std::span<const Tensor> held) const;

  const Program& program() const { return *program_; }
  struct RunPlan;

 private:
  std::shared_ptr<const Program> program_;
  std::unique_ptr<const RunPlan> plan_;
};

}  // namespace facula
