#include "program/loaded.h"

#include <algorithm>

namespace facula {

LoadedProgram::LoadedProgram(const std::string& path, const LoadOptions& options)
    : LoadedProgram(load_program(path, options)) {}
LoadedProgram::LoadedProgram(std::shared_ptr<Program> program)
    : program_(std::move(program)), runner_(std::make_shared<const Runner>(program_)) {}

LoadedProgram Program::load(const std::string& path) { return LoadedProgram(path); }

std::vector<Value> LoadedProgram::run(const std::vector<Value>& inputs) const { return (*runner_)(inputs); }

std::vector<Tensor> LoadedProgram::operator()(const std::vector<Value>& inputs) const {
  std::vector<Tensor> results;
  for (const Value& value : run(inputs)) {
    FACULA_CHECK(value.is_tensor() || value.is_none(), ErrorKind::Type, "program: result ", results.size(),
                 " is no tensor, call run() for it, got ", name(value.kind()));
    results.push_back(value.tensor());
  }
  return results;
}

std::vector<LoadedProgram::Input> LoadedProgram::inputs() const {
  std::vector<Input> all;
  for (const ProgramInput& input : program_->inputs) {
    if (input.kind != ProgramInput::Kind::User) continue;
    const ProgramValue& value = program_->values[static_cast<size_t>(input.value)];
    all.push_back({input.path, value.kind, value.meta, input.constant});
  }
  return all;
}

std::vector<LoadedProgram::Named> LoadedProgram::held(ProgramInput::Kind kind) const {
  std::vector<Named> all;
  for (const ProgramInput& input : program_->inputs) {
    if (input.kind == kind) all.emplace_back(input.path, input.tensor);
  }
  return all;
}

std::vector<Tensor> LoadedProgram::parameters() const {
  std::vector<Tensor> all;
  for (const auto& [path, tensor] : named_parameters()) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const Tensor& other) { return other.is_same(tensor); });
    if (tensor.requires_grad() && !known) all.push_back(tensor);
  }
  return all;
}

Tensor LoadedProgram::at(const std::string& path) const {
  for (const ProgramInput& input : program_->inputs) {
    if (input.kind != ProgramInput::Kind::User && input.path == path) return input.tensor;
  }
  throw_error(ErrorKind::Value, "program: it has no parameter, buffer or constant '", path, "'");
}

}  // namespace facula
