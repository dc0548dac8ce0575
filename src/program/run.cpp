// Programs are planned once, and then run step by step over a frame of values:
//
//     frame:  | values of the program, by number          | what is built before calls          |
//             | inputs   results of steps ...             | lists with values in them, sizes    |
//
// A step is one call of an op. What it needs lies in lists of the plan that all steps share, each step's part behind
// that of the step before, so that a step is a few numbers and a run reads memory in order:
//
//     steps:      step 0        step 1        ...   end
//                 |             |                   |
//     arguments:  0 1 2         3 4           ...          places in the frame, or constants
//     builds:     0             (none)        ...          made before the call
//     drops:      0 1           2             ...          places that are released after the call
#include "program/run.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace facula {
namespace {

constexpr size_t kMostArguments = 32;
constexpr size_t kMostResults = 8;

/// An argument made before the call: a list with values in it, or an expression.
struct Build {
  uint32_t place;
  const Arg* from;
};

struct Step {
  const BoxedOp* op;
  const ProgramNode* node;
  uint32_t first_argument, first_build, first_drop;  // in the plan's lists; those of the next step are the ends
  int32_t first_result;  // in the frame, where results lie side by side; else kScattered: the node's lists say where
  uint32_t result_count;
  bool no_grad;
};
constexpr int32_t kScattered = -1;

}  // namespace

struct Runner::RunPlan {
  std::vector<Step> steps;
  std::vector<int32_t> arguments;  // a place in the frame, or ~number of a constant
  std::vector<Build> builds;
  std::vector<uint32_t> drops;  // places that are released after the step
  std::vector<Value> constants;
  size_t places = 0;
  size_t user_inputs = 0;
};

namespace {

/// Values of the program's symbols, and of its integers, during one run.
class Bound {
 public:
  Bound(const Program& program) : program_(program), known_(program.symbols.size()) {}

  std::optional<int64_t> find(const std::string& name) const {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (program_.symbols[i].name == name) return known_[i];
    }
    return std::nullopt;
  }
  /// False when it is bound to another number already.
  bool bind(const std::string& name, int64_t value) {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (program_.symbols[i].name != name) continue;
      if (known_[i] && *known_[i] != value) return false;
      known_[i] = value;
    }
    return true;
  }
  int64_t evaluate(const Expr& e) const {
    const auto value = e.evaluate([&](const std::string& name) { return find(name); });
    FACULA_CHECK(value, ErrorKind::Runtime, "program: the size ", e.text(), " has no value in 64 bits");
    return *value;
  }

 private:
  const Program& program_;
  std::vector<std::optional<int64_t>> known_;
};

/// The value of an argument; `frame` holds what it names.
Value made(const Arg& arg, const Value* frame, const Bound& bound) {
  if (arg.kind == Arg::Kind::Ref) return frame[arg.ref];
  if (arg.kind == Arg::Kind::Constant) {
    if (arg.constant.kind() == Value::Kind::Symbolic) return bound.evaluate(arg.constant.expr());
    if (arg.constant.kind() != Value::Kind::Symbolics) return arg.constant;
    std::vector<int64_t> sizes;
    for (const Expr& e : arg.constant.exprs()) sizes.push_back(bound.evaluate(e));
    return sizes;
  }
  std::vector<Tensor> tensors;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  bool whole = true;
  for (const Arg& item : arg.items) {
    const Value v = made(item, frame, bound);
    if (v.is_tensor() || v.is_none()) {
      tensors.push_back(v.tensor());
    } else {
      whole = whole && v.kind() == Value::Kind::Int;
      if (whole) ints.push_back(v.to_int());
      floats.push_back(v.to_float());
    }
  }
  FACULA_CHECK(tensors.empty() || floats.empty(), ErrorKind::Type, "program: a list holds tensors and numbers");
  if (!floats.empty()) return whole ? Value(std::move(ints)) : Value(std::move(floats));
  return tensors;
}

bool is_symbolic(const Arg& arg) { return arg.kind == Arg::Kind::List || arg.constant.is_symbolic(); }

class Planner {
 public:
  Planner(const Program& program, Runner::RunPlan& plan) : program_(program), plan_(plan) {}
  void run();

 private:
  uint32_t new_place() { return static_cast<uint32_t>(plan_.places++); }
  int32_t place_of(const Arg& arg);
  void add(const ProgramNode& node);
  Step step_here(const ProgramNode* node) const;
  static int32_t first_of_neighbors(const ProgramNode& node);
  void find_last_uses();

  const Program& program_;
  Runner::RunPlan& plan_;
  std::vector<std::vector<uint32_t>> dying_;  // by node
};

}  // namespace

namespace {

void Planner::find_last_uses() {
  constexpr size_t kNeverDies = SIZE_MAX;
  std::vector<size_t> last(program_.values.size(), kNeverDies);
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    const ProgramNode& node = program_.nodes[i];
    for (const auto& result : node.results) {
      for (int value : result) last[static_cast<size_t>(value)] = i;
    }
    for (const Arg& arg : node.arguments) arg.each_ref([&](int ref) { last[static_cast<size_t>(ref)] = i; });
  }
  for (const Arg& output : program_.outputs)
    output.each_ref([&](int ref) { last[static_cast<size_t>(ref)] = kNeverDies; });
  dying_.resize(program_.nodes.size());
  for (size_t value = 0; value < last.size(); ++value) {
    if (last[value] != kNeverDies) dying_[last[value]].push_back(static_cast<uint32_t>(value));
  }
}

int32_t Planner::place_of(const Arg& arg) {
  if (arg.kind == Arg::Kind::Ref) return arg.ref;
  if (is_symbolic(arg)) {
    plan_.builds.push_back({new_place(), &arg});
    return static_cast<int32_t>(plan_.builds.back().place);
  }
  plan_.constants.push_back(arg.constant);
  return ~static_cast<int32_t>(plan_.constants.size() - 1);
}

void Planner::add(const ProgramNode& node) {
  FACULA_CHECK(node.arguments.size() <= kMostArguments && node.results.size() <= kMostResults, ErrorKind::Value,
               "program: an op with too many arguments, got ", node.op->signature());
  plan_.steps.push_back(step_here(&node));
  for (const Arg& arg : node.arguments) plan_.arguments.push_back(place_of(arg));
}

/// A step whose parts of the lists begin here; without a node the one that ends the plan.
Step Planner::step_here(const ProgramNode* node) const {
  return {.op = node ? node->op : nullptr,
          .node = node,
          .first_argument = static_cast<uint32_t>(plan_.arguments.size()),
          .first_build = static_cast<uint32_t>(plan_.builds.size()),
          .first_drop = static_cast<uint32_t>(plan_.drops.size()),
          .first_result = node ? first_of_neighbors(*node) : kScattered,
          .result_count = node ? static_cast<uint32_t>(node->results.size()) : 0,
          .no_grad = node && node->no_grad};
}

int32_t Planner::first_of_neighbors(const ProgramNode& node) {
  if (node.results.empty() || node.results[0].empty()) return kScattered;
  const int first = node.results[0][0];
  for (size_t i = 0; i < node.results.size(); ++i)
    if (node.op->results[i].list || node.results[i][0] != first + static_cast<int>(i)) return kScattered;
  return first;
}

void Planner::run() {
  plan_.places = program_.values.size();
  for (const ProgramInput& input : program_.inputs) plan_.user_inputs += input.kind == ProgramInput::Kind::User;
  find_last_uses();
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    const size_t first = plan_.builds.size();
    add(program_.nodes[i]);
    for (uint32_t value : dying_[i]) plan_.drops.push_back(value);
    for (size_t k = first; k < plan_.builds.size(); ++k) plan_.drops.push_back(plan_.builds[k].place);
  }
  plan_.steps.push_back(step_here(nullptr));
}

// Inputs

std::string shape_text(const Tensor& t) {
  TensorMeta meta = TensorMeta::of(t);
  meta.requires_grad = false;
  meta.strides.clear();
  return meta.text();
}

std::string constant_text(const Value& value) {
  if (value.kind() == Value::Kind::String) return "'" + std::string(value.to_string()) + "'";
  if (value.kind() == Value::Kind::Bool) return value.to_bool() ? "True" : "False";
  std::ostringstream text;
  if (value.kind() == Value::Kind::Int) text << value.to_int();
  else if (value.kind() == Value::Kind::Float) text << value.to_float();
  else text << name(value.kind());
  return text.str();
}
[[noreturn, gnu::cold]] void refuse(const ProgramInput& input, const TensorMeta& wanted, const Value& got) {
  TensorMeta expected = wanted;
  expected.requires_grad = false;
  expected.strides.clear();
  throw_error(ErrorKind::Runtime, "program: input '", input.path, "': expected ", expected.text(), ", got ",
              got.is_tensor() ? shape_text(got.tensor()) : name(got.kind()));
}

void check_tensor(const ProgramInput& input, const TensorMeta& wanted, const Value& got, Bound& bound) {
  if (!got.is_tensor()) refuse(input, wanted, got);
  const Tensor& t = got.tensor();
  if (t.dtype() != wanted.dtype || t.dim() != static_cast<int64_t>(wanted.sizes.size())) refuse(input, wanted, got);
  for (size_t d = 0; d < wanted.sizes.size(); ++d) {
    const Expr& size = wanted.sizes[d];
    const int64_t came = t.sizes()[d];
    if (size.is_integer() ? size.integer() != came : size.op() == Expr::Op::Symbol && !bound.bind(size.name(), came))
      refuse(input, wanted, got);
  }
}

/// Sizes such as 2*s0, once the symbols are known, ranges and guards.
void check_sizes(const Program& program, std::span<const Value> inputs, const Bound& bound) {
  size_t at = 0;
  for (const ProgramInput& input : program.inputs) {
    if (input.kind != ProgramInput::Kind::User) continue;
    const Value& got = inputs[at++];
    const TensorMeta& wanted = program.values[static_cast<size_t>(input.value)].meta;
    for (size_t d = 0; d < wanted.sizes.size(); ++d) {
      const Expr& size = wanted.sizes[d];
      const bool derived = !size.is_integer() && size.op() != Expr::Op::Symbol;
      if (derived && bound.evaluate(size) != got.tensor().sizes()[d]) refuse(input, wanted, got);
    }
  }
  for (const Symbol& s : program.symbols) {
    const int64_t value = bound.find(s.name).value_or(s.sample);
    FACULA_CHECK(value >= s.least && (!s.most || value <= *s.most), ErrorKind::Runtime, "program: the size ", s.name,
                 " must be in [", s.least, ", ", s.most ? std::to_string(*s.most) : "any", "], got ", value);
  }
  for (const Guard& guard : program.guards) {
    const bool holds = guard.holds([&](const std::string& name) { return bound.find(name); }).value_or(false);
    FACULA_CHECK(holds, ErrorKind::Runtime, "program: recorded for sizes where ", guard.text(), " (", guard.source,
                 "), got ", guard.left.text(), " = ", bound.evaluate(guard.left));
  }
}

void bind_inputs(const Program& program, std::span<const Value> given, std::span<const Tensor> held, size_t wanted,
                 Value* frame, Bound& bound) {
  FACULA_CHECK(given.size() == wanted, ErrorKind::Type, "program: expected ", wanted, " inputs, got ", given.size());
  size_t at = 0;
  for (const ProgramInput& input : program.inputs) {
    Value& place = frame[input.value];
    if (input.kind != ProgramInput::Kind::User) {
      const Tensor& tensor = held.empty() ? input.tensor : held[static_cast<size_t>(&input - program.inputs.data())];
      FACULA_CHECK(tensor.defined(), ErrorKind::Runtime, "program: nothing is held for ", name(input.kind), " '",
                   input.path, "'");
      place = tensor;
      continue;
    }
    const Value& got = given[at++];
    const ProgramValue& info = program.values[static_cast<size_t>(input.value)];
    if (info.kind == Value::Kind::Tensor && input.constant.is_none()) {
      check_tensor(input, info.meta, got, bound);
    } else if (!input.constant.is_none()) {
      FACULA_CHECK(got == input.constant, ErrorKind::Runtime, "program: input '", input.path, "': expected ",
                   constant_text(input.constant), ", with which it was recorded, got ", constant_text(got));
    } else {
      FACULA_CHECK(got.kind() == info.kind, ErrorKind::Type, "program: input '", input.path, "': expected ",
                   name(info.kind), ", got ", name(got.kind()));
    }
    place = got;
  }
  if (!program.symbols.empty() || !program.guards.empty()) check_sizes(program, given, bound);
}

/// An op may give None for a result that was not requested (a gradient by a mask), which then stands for no tensor.
void check_gaps(const BoxedOp& op, const Value* const* given) {
  const auto missing = [](const Value& v) {
    if (v.kind() != Value::Kind::Tensors) return v.is_none();
    return std::any_of(v.tensors().begin(), v.tensors().end(), [](const Tensor& t) { return !t.defined(); });
  };
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const BoxedArgument& wanted = op.arguments[i];
    const bool needs = wanted.type.is_tensor() && !wanted.type.optional && !wanted.has_gaps();
    FACULA_CHECK(!needs || !missing(*given[i]), ErrorKind::Type, op.name, ": argument '", wanted.name, "' is a ",
                 wanted.type.text(), ", got None");
  }
}

void put_results(const ProgramNode& node, Value* made, Value* frame) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (!node.op->results[i].list) {
      frame[node.results[i][0]] = std::move(made[i]);
      continue;
    }
    const std::vector<Tensor>& parts = made[i].tensors();
    FACULA_CHECK(parts.size() == node.results[i].size(), ErrorKind::Runtime, "program: ", node.op->key(), " gave ",
                 parts.size(), " tensors where ", node.results[i].size(), " were recorded");
    for (size_t k = 0; k < parts.size(); ++k) frame[node.results[i][k]] = parts[k];
  }
}

/// Calls an op whose results do not lie side by side. Returns whether one of them is None.
bool call_scattered(const Step& step, const Value* const* arguments, Value* frame) {
  std::array<Value, kMostResults> results;
  step.op->call(arguments, results.data());
  put_results(*step.node, results.data(), frame);
  bool has_gaps = false;
  for (const auto& places : step.node->results)
    for (int place : places) has_gaps |= frame[place].is_none();
  return has_gaps;
}

[[gnu::cold, noreturn]] void rethrow_at(const ProgramNode& node, const Error& error) {
  std::string where = " [in the program's " + node.op->key();
  if (!node.source.empty()) where += ", recorded at " + node.source;
  throw Error(error.kind(), std::string(error.what()) + where + "]");
}

}  // namespace

Runner::Runner(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  program_->verify();
  auto plan = std::make_unique<RunPlan>();
  Planner(*program_, *plan).run();
  plan_ = std::move(plan);
}
Runner::~Runner() = default;

std::vector<Value> Runner::run(std::span<const Value> inputs, std::span<const Tensor> held) const {
  const RunPlan& plan = *plan_;
  std::vector<Value> room(plan.places);
  Value* const frame = room.data();
  Bound bound(*program_);
  bind_inputs(*program_, inputs, held, plan.user_inputs, frame, bound);
  const Value* arguments[kMostArguments];
  bool has_gaps = false;  // among the values
  const Step* const last = &plan.steps.back();
  for (const Step* step = plan.steps.data(); step != last; ++step) {
    const Step& next = step[1];
    try {
      for (uint32_t i = step->first_build; i < next.first_build; ++i) {
        frame[plan.builds[i].place] = made(*plan.builds[i].from, frame, bound);
      }
      for (uint32_t i = step->first_argument, k = 0; i < next.first_argument; ++i, ++k) {
        const int32_t place = plan.arguments[i];
        arguments[k] = place >= 0 ? frame + place : &plan.constants[static_cast<size_t>(~place)];
      }
      if (__builtin_expect(has_gaps, 0)) check_gaps(*step->op, arguments);
      const GradMode mode(GradMode::enabled() && !step->no_grad);
      if (__builtin_expect(step->first_result != kScattered, 1)) {
        Value* const results = frame + step->first_result;
        step->op->call(arguments, results);
        for (uint32_t i = 0; i < step->result_count; ++i) has_gaps |= results[i].is_none();
      } else {
        has_gaps |= call_scattered(*step, arguments, frame);
      }
    } catch (const Error& error) {
      rethrow_at(*step->node, error);
    }
    for (uint32_t i = step->first_drop; i < next.first_drop; ++i) frame[plan.drops[i]].reset();
  }
  std::vector<Value> outputs;
  for (const Arg& output : program_->outputs) outputs.push_back(made(output, frame, bound));
  return outputs;
}

}  // namespace facula
