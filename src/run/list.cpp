#include "run/list.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace facula {

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + "  ";
}

std::string described(const TensorMeta& meta) {
  TensorMeta shown = meta;
  shown.requires_grad = false;
  shown.strides.clear();
  return shown.text();
}

std::string described(const ProgramValue& value) {
  return value.kind == Value::Kind::Tensor ? described(value.meta) : name(value.kind);
}

namespace {

std::string size_text(int64_t bytes) {
  constexpr int64_t kThousand = 1000;
  char room[40];
  if (bytes < kThousand) std::snprintf(room, sizeof room, "%lld bytes", static_cast<long long>(bytes));
  else if (bytes < kThousand * kThousand) std::snprintf(room, sizeof room, "%.1f kB", static_cast<double>(bytes) / 1e3);
  else std::snprintf(room, sizeof room, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return room;
}

void list_output(const Program& program, const Arg& arg) {
  for (const Arg& item : arg.items) list_output(program, item);
  if (arg.kind == Arg::Kind::List) return;
  if (arg.kind == Arg::Kind::Constant) {
    std::printf("  a constant\n");
    return;
  }
  const ProgramValue& value = program.values[static_cast<size_t>(arg.ref)];
  std::printf("  %s%s\n", padded(value.name).c_str(), described(value).c_str());
}

void list_signature(const Program& program) {
  std::printf("inputs\n");
  for (const ProgramInput& input : program.inputs) {
    if (input.kind != ProgramInput::Kind::User) continue;
    const std::string what = input.constant.is_none() ? described(program.values[static_cast<size_t>(input.value)])
                                                      : "the constant it was recorded with";
    std::printf("  %s%s\n", padded(input.path).c_str(), what.c_str());
  }
  std::printf("outputs\n");
  for (const Arg& output : program.outputs) list_output(program, output);
  for (const Symbol& symbol : program.symbols)
    std::printf("size %s: %lld to %s\n", symbol.name.c_str(), static_cast<long long>(symbol.least),
                symbol.most ? std::to_string(*symbol.most).c_str() : "any");
}

void list_sizes(const Program& program) {
  struct Held {
    int64_t count = 0, elements = 0, bytes = 0;
  };
  std::map<ProgramInput::Kind, Held> held;
  for (const ProgramInput& input : program.inputs) {
    if (input.kind == ProgramInput::Kind::User || !input.tensor.defined()) continue;
    Held& kind = held[input.kind];
    ++kind.count;
    kind.elements += input.tensor.numel();
    kind.bytes += input.tensor.numel() * input.tensor.item_size();
  }
  for (const auto& [kind, sum] : held)
    std::printf("%lld of kind %s: %lld elements, %s\n", static_cast<long long>(sum.count), name(kind),
                static_cast<long long>(sum.elements), size_text(sum.bytes).c_str());
}

void list_ops(const Program& program) {
  std::map<std::string, int> counts;
  for (const ProgramNode& node : program.nodes) ++counts[node.op->key()];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [op, count] : counts) sorted.emplace_back(-count, op);
  std::sort(sorted.begin(), sorted.end());
  std::printf("%zu ops\n", program.nodes.size());
  for (const auto& [count, op] : sorted) std::printf("  %s%d\n", padded(op, 40).c_str(), -count);
}

}  // namespace

void list_program(const Program& program) {
  list_signature(program);
  list_sizes(program);
  list_ops(program);
}

}  // namespace facula
