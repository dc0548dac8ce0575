// Folding. A node is folded when it has no effects and all that it reads are constants that nothing writes: neither
// directly nor through another tensor on the same memory, which may be another constant. What the program gives out is
// not folded: a caller could write to it.
#include <set>

#include "autograd/node.h"
#include "program/effects.h"
#include "program/passes/passes.h"
#include "program/run.h"

namespace facula {
namespace {

class Folder {
 public:
  explicit Folder(Program& program) : program_(program), effects_(program), known_(program.values.size()) {}

  void run() {
    for (const ProgramInput& input : program_.inputs) {
      const bool constant = input.kind == ProgramInput::Kind::Constant && !may_change(input.value);
      if (constant) known_[static_cast<size_t>(input.value)] = input.tensor;
    }
    std::vector<ProgramNode> remaining;
    for (ProgramNode& node : program_.nodes) {
      if (can_fold(node)) fold(node);
      else remaining.push_back(std::move(node));
    }
    program_.nodes = std::move(remaining);
    keep_what_is_used();
    renumber(program_);
  }

 private:
  bool may_change(int value) const { return effects_.is_written(value) || effects_.is_given_out(value); }

  bool can_fold(const ProgramNode& node) const {
    if (node.has_effects()) return false;
    bool known = true, any = false;
    for (const Arg& arg : node.arguments) {
      known = known && !arg.constant.is_symbolic();
      for (const Arg& item : arg.items) known = known && !item.constant.is_symbolic();
      arg.each_ref([&](int ref) {
        any = true;
        known = known && !known_[static_cast<size_t>(ref)].is_none();
      });
    }
    for (const auto& result : node.results) {
      for (int value : result) known = known && !may_change(value);
    }
    return known && (any || is_small(node));
  }
  // A large result of no inputs is not stored.
  bool is_small(const ProgramNode& node) const {
    constexpr int64_t kMost = 1 << 16;
    for (const auto& result : node.results) {
      for (int value : result) {
        int64_t count = 1;
        for (const Expr& size : program_.values[static_cast<size_t>(value)].meta.sizes)
          count = size.is_integer() && size.integer() <= kMost && count <= kMost
                      ? count * std::max<int64_t>(size.integer(), 0)
                      : kMost + 1;
        if (count > kMost) return false;
      }
    }
    return true;
  }

  void fold(const ProgramNode& node) {
    const GradMode off(false);
    std::vector<Value> given;
    std::vector<const Value*> places;
    given.reserve(node.arguments.size());
    for (const Arg& arg : node.arguments) {
      given.push_back(value_of(arg));
      places.push_back(&given.back());
    }
    std::vector<Value> made(node.op->results.size());
    node.op->call(places.data(), made.data());
    for (size_t i = 0; i < made.size(); ++i) {
      if (!node.op->results[i].list) {
        known_[static_cast<size_t>(node.results[i][0])] = made[i];
        continue;
      }
      const std::vector<Tensor>& parts = made[i].tensors();
      for (size_t k = 0; k < node.results[i].size() && k < parts.size(); ++k)
        known_[static_cast<size_t>(node.results[i][k])] = parts[k];
    }
  }

  Value value_of(const Arg& arg) const {
    if (arg.kind == Arg::Kind::Constant) return arg.constant;
    if (arg.kind == Arg::Kind::Ref) return known_[static_cast<size_t>(arg.ref)];
    std::vector<Tensor> tensors;
    std::vector<int64_t> ints;
    for (const Arg& item : arg.items) {
      const Value v = value_of(item);
      if (v.kind() == Value::Kind::Int) ints.push_back(v.to_int());
      else tensors.push_back(v.tensor());
    }
    return ints.empty() ? Value(std::move(tensors)) : Value(std::move(ints));
  }

  // What was folded and is used by nodes that stay is a constant of the program from now on, or stands in its place.
  void keep_what_is_used() {
    std::set<int> inputs;
    for (const ProgramInput& input : program_.inputs) inputs.insert(input.value);
    for (ProgramNode& node : program_.nodes) {
      for (Arg& arg : node.arguments) use(arg, inputs);
    }
  }
  void use(Arg& arg, std::set<int>& inputs) {
    for (Arg& item : arg.items) use(item, inputs);
    if (arg.kind != Arg::Kind::Ref) return;
    const Value& v = known_[static_cast<size_t>(arg.ref)];
    if (v.is_none() || inputs.contains(arg.ref)) return;
    if (!v.is_tensor()) {
      arg = Arg(v);
      return;
    }
    ProgramInput input;
    input.kind = ProgramInput::Kind::Constant;
    input.value = arg.ref;
    input.path = "folded_" + program_.values[static_cast<size_t>(arg.ref)].name;
    input.tensor = v.tensor();
    program_.inputs.insert(program_.inputs.begin(), std::move(input));
    inputs.insert(arg.ref);
  }

  Program& program_;
  const Effects effects_;
  std::vector<Value> known_;
};

}  // namespace

void fold_constants(Program& program) { Folder(program).run(); }

}  // namespace facula
