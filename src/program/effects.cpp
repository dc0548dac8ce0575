#include "program/effects.h"

#include <algorithm>
#include <set>

#include "program/run.h"

namespace facula {
namespace {

/// Calls see(const Program&) for the graphs that a node calls, until one of them gives true.
template <class F>
bool any_graph(const ProgramNode& node, F&& see) {
  return std::any_of(node.arguments.begin(), node.arguments.end(), [&](const Arg& arg) {
    return arg.constant.kind() == Value::Kind::Graph && see(arg.constant.graph()->program());
  });
}

bool writes_to_inputs(const Program& program) {
  const Effects effects(program);
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [&](const ProgramInput& input) { return effects.is_written(input.value); });
}

}  // namespace

bool fills(const BoxedOp& op) {
  constexpr std::string_view kFilling[] = {"fill_", "zero_", "copy_", "eye", "arange"};
  const bool known = std::find(std::begin(kFilling), std::end(kFilling), op.name) != std::end(kFilling);
  return op.form == OpForm::Out || (op.form == OpForm::InPlace && (op.draws || known));
}

bool may_draw(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(),
                     [](const ProgramNode& node) { return node.op->draws || any_graph(node, may_draw); });
}

bool BoxedOp::has_effects() const {
  return draws || std::any_of(arguments.begin(), arguments.end(), [](const BoxedArgument& a) { return a.written; });
}

bool ProgramNode::writes() const {
  const bool never = op->inplace >= 0 && arguments[static_cast<size_t>(op->inplace)].constant == Value(false);
  return !never &&
         std::any_of(op->arguments.begin(), op->arguments.end(), [](const BoxedArgument& a) { return a.written; });
}

bool ProgramNode::has_effects() const {
  return op->draws || writes() || any_graph(*this, [](const Program& graph) {
           return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                              [](const ProgramNode& node) { return node.has_effects(); });
         });
}

Effects::Effects(const Program& program) : written_(program.values.size()), given_out_(program.values.size()) {
  for (const Arg& output : program.outputs) {
    output.each_ref([&](int ref) { given_out_[static_cast<size_t>(ref)] = true; });
  }
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    find_writes(*node);
    reach_sources(*node, written_);
    reach_sources(*node, given_out_);
  }
  reach_shared(program, written_);
  reach_shared(program, given_out_);
}

void Effects::find_writes(const ProgramNode& node) {
  const bool inside = any_graph(node, writes_to_inputs);
  if (!inside && !node.writes()) return;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (!inside && !node.op->arguments[i].written) continue;
    node.arguments[i].each_ref([&](int ref) { written_[static_cast<size_t>(ref)] = true; });
  }
}

// From results to what they may show: of ops of the schema the first tensor and those written; of others anything.
void Effects::reach_sources(const ProgramNode& node, Values& values) {
  if (!node.op->may_alias) return;
  const bool reached = std::any_of(node.results.begin(), node.results.end(), [&](const std::vector<int>& result) {
    return std::any_of(result.begin(), result.end(), [&](int value) { return values[static_cast<size_t>(value)]; });
  });
  if (!reached) return;
  bool first = true;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const BoxedArgument& argument = node.op->arguments[i];
    const bool shown = node.op->id == 0 || argument.written || (first && argument.type.is_tensor());
    first = first && !argument.type.is_tensor();
    if (!shown) continue;
    node.arguments[i].each_ref([&](int ref) { values[static_cast<size_t>(ref)] = true; });
  }
}

void Effects::reach_shared(const Program& program, Values& values) {
  std::set<const Storage*> storages;
  for (const ProgramInput& input : program.inputs) {
    if (input.tensor.defined() && values[static_cast<size_t>(input.value)]) storages.insert(input.tensor.storage());
  }
  if (storages.empty()) return;
  for (const ProgramInput& input : program.inputs) {
    if (input.tensor.defined() && storages.contains(input.tensor.storage()))
      values[static_cast<size_t>(input.value)] = true;
  }
}

}  // namespace facula
