#include "program/passes/passes.h"

namespace facula {

void remove_dead(Program& program) {
  std::vector<bool> used(program.values.size()), wanted(program.nodes.size());
  const auto use = [&](int ref) { used[static_cast<size_t>(ref)] = true; };
  for (const Arg& arg : program.outputs) arg.each_ref(use);
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const ProgramNode& node = program.nodes[i];
    bool is_used = node.has_effects();
    for (const auto& result : node.results) {
      for (int value : result) is_used = is_used || used[static_cast<size_t>(value)];
    }
    if (!is_used) continue;
    wanted[i] = true;
    for (const Arg& arg : node.arguments) arg.each_ref(use);
  }
  size_t i = 0;
  if (std::erase_if(program.nodes, [&](const ProgramNode&) { return !wanted[i++]; })) renumber(program);
}

void renumber(Program& program) {
  constexpr int kGone = -1, kLive = 0;
  std::vector<int> number(program.values.size(), kGone);
  const auto define = [&](int value) { number[static_cast<size_t>(value)] = kLive; };
  for (const ProgramInput& input : program.inputs) define(input.value);
  for (const ProgramNode& node : program.nodes) {
    for (const auto& result : node.results) std::for_each(result.begin(), result.end(), define);
  }
  int next = 0;
  for (int& n : number) n = n == kGone ? kGone : next++;
  const auto renamed = [&](int& ref) { ref = number[static_cast<size_t>(ref)]; };
  for (ProgramInput& input : program.inputs) renamed(input.value);
  for (ProgramNode& node : program.nodes) {
    for (Arg& arg : node.arguments) arg.each_ref(renamed);
    for (auto& result : node.results) std::for_each(result.begin(), result.end(), renamed);
  }
  for (Arg& arg : program.outputs) arg.each_ref(renamed);
  program.keep_values(number);
}

}  // namespace facula
