#include "program/record.h"

#include "functions_create.h"

namespace facula {
namespace {

/// A name that text forms and other languages can take.
std::string plain_name(std::string_view text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
}

Value::Kind kind_of(const Value& v) { return v.is_none() ? Value::Kind::Tensor : v.kind(); }

}  // namespace

void Recorder::know(const Tensor& tensor, int value) {
  if (known_.insert_or_assign(tensor.impl(), value).second) held_.push_back(tensor);
  if (on_known) on_known(tensor, value);
}

bool Recorder::add_input(const Tensor& tensor, ProgramInput input, std::string_view name, TensorMeta meta) {
  if (knows(tensor)) return false;
  input.value = program_->add_value(plain_name(name), Value::Kind::Tensor, std::move(meta));
  know(tensor, input.value);
  program_->inputs.push_back(std::move(input));
  return true;
}

void Recorder::add_number(ProgramInput input, std::string_view name, Value::Kind kind) {
  input.value = program_->add_value(plain_name(name), kind);
  program_->inputs.push_back(std::move(input));
}

int Recorder::value_of(const Tensor& tensor) {
  if (find_same) {
    if (const int same = find_same(tensor); same >= 0) return same;
  }
  const auto found = known_.find(tensor.impl());
  if (found != known_.end()) return found->second;
  return find_other ? find_other(tensor) : add_constant(tensor);
}

int Recorder::add_constant(const Tensor& tensor) {
  size_t before = 0, constants = 0;
  for (const ProgramInput& input : program_->inputs) {
    before += input.kind != ProgramInput::Kind::User;
    constants += input.kind == ProgramInput::Kind::Constant;
  }
  ProgramInput input;
  input.kind = ProgramInput::Kind::Constant;
  input.path = find_path ? find_path(tensor) : "";
  const bool held = !input.path.empty();
  if (held) {
    input.tensor = tensor;
  } else {
    const GradMode off(false);
    input.path = "lifted_tensor_" + std::to_string(constants);
    input.tensor = clone(alias(tensor));
  }
  const int value =
      program_->add_value("c_" + plain_name(input.path), Value::Kind::Tensor, TensorMeta::of(input.tensor));
  input.value = value;
  program_->inputs.insert(program_->inputs.begin() + static_cast<std::ptrdiff_t>(before), std::move(input));
  know(tensor, value);
  if (!held) {
    const Value copied = tensor;
    add(*find_boxed("lift_fresh_copy.default"), {Arg::of(value)}, {&copied, 1});
  }
  return value_of(tensor);
}

Arg Recorder::argument(const Value& value) {
  if (value.is_tensor()) return Arg::of(value_of(value.tensor()));
  if (value.kind() != Value::Kind::Tensors) return value;
  std::vector<Arg> items;
  for (const Tensor& t : value.tensors()) items.push_back(t.defined() ? Arg::of(value_of(t)) : Arg());
  return Arg::list(std::move(items));
}

int Recorder::add_result(const Value& result, const std::string& name) {
  const Value::Kind kind = kind_of(result);
  const int value =
      program_->add_value(name, kind, result.is_tensor() ? TensorMeta::of(result.tensor()) : TensorMeta());
  if (result.is_tensor()) know(result.tensor(), value);
  return value;
}

void Recorder::add(const BoxedOp& op, std::vector<Arg> arguments, std::span<const Value> results) {
  ProgramNode node;
  node.op = &op;
  node.arguments = std::move(arguments);
  node.module = module;
  if (find_source) node.source = find_source();
  node.no_grad = grad_enabled_ && !GradMode::enabled();
  const std::string name = plain_name(op.name);
  for (size_t i = 0; i < op.results.size(); ++i) {
    std::vector<int> made;
    if (op.results[i].list) {
      for (const Tensor& t : results[i].tensors()) made.push_back(add_result(t, name));
    } else {
      made.push_back(add_result(results[i], name));
    }
    node.results.push_back(std::move(made));
  }
  program_->nodes.push_back(std::move(node));
}

}  // namespace facula
