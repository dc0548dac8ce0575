#include "program/passes/passes.h"

namespace facula {
namespace {

template <class F>
void each_use(const Program& program, F&& f) {
  for (const ProgramNode& node : program.nodes) {
    for (const Arg& arg : node.arguments) arg.each_ref(f);
  }
  for (const Arg& arg : program.outputs) arg.each_ref(f);
}

}  // namespace

void remove_dead(Program& program) {
  std::vector<bool> used(program.values.size());
  const auto use = [&](int ref) { used[static_cast<size_t>(ref)] = true; };
  for (const Arg& arg : program.outputs) arg.each_ref(use);
  std::vector<ProgramNode> kept;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    ProgramNode& node = program.nodes[i];
    bool wanted = node.has_effects();
    for (const auto& result : node.results) {
      for (int value : result) wanted = wanted || used[static_cast<size_t>(value)];
    }
    if (!wanted) continue;
    for (const Arg& arg : node.arguments) arg.each_ref(use);
    kept.push_back(std::move(node));
  }
  program.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  renumber(program);
}

void renumber(Program& program) {
  std::vector<bool> defined(program.values.size());
  const auto define = [&](int value) { defined[static_cast<size_t>(value)] = true; };
  for (const ProgramInput& input : program.inputs) define(input.value);
  for (const ProgramNode& node : program.nodes) {
    for (const auto& result : node.results) std::for_each(result.begin(), result.end(), define);
  }
  Program fresh;
  std::vector<int> number(program.values.size(), -1);
  for (size_t v = 0; v < defined.size(); ++v) {
    ProgramValue& old = program.values[v];
    if (defined[v]) number[v] = fresh.add_named(std::move(old.name), old.kind, std::move(old.meta));
  }
  const auto renamed = [&](int& ref) { ref = number[static_cast<size_t>(ref)]; };
  for (ProgramInput& input : program.inputs) renamed(input.value);
  for (ProgramNode& node : program.nodes) {
    for (Arg& arg : node.arguments) arg.each_ref(renamed);
    for (auto& result : node.results) std::for_each(result.begin(), result.end(), renamed);
  }
  for (Arg& arg : program.outputs) arg.each_ref(renamed);
  fresh.inputs = std::move(program.inputs);
  fresh.nodes = std::move(program.nodes);
  fresh.outputs = std::move(program.outputs);
  fresh.roles = std::move(program.roles);
  fresh.symbols = std::move(program.symbols);
  fresh.guards = std::move(program.guards);
  program = std::move(fresh);
}

}  // namespace facula
