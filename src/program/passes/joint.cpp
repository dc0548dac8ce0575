#include <map>
#include <unordered_map>

#include "autograd/engine.h"
#include "autograd/function_support.h"
#include "core/generator_looks.h"
#include "core/generators.h"
#include "functions.h"
#include "program/effects.h"
#include "program/inner.h"
#include "program/passes/passes.h"
#include "program/run.h"

namespace facula {
namespace {

/// Calls use(Generator&) for the generators that a program names.
template <class F>
void each_own_generator(const Program& program, F&& use) {
  for (const ProgramNode& node : program.nodes) {
    for (const Arg& arg : node.arguments) {
      if (arg.kind != Arg::Kind::Constant) continue;
      if (arg.constant.kind() == Value::Kind::Generator) use(*arg.constant.to_generator());
      if (arg.constant.kind() == Value::Kind::Graph) each_own_generator(arg.constant.graph()->program(), use);
    }
  }
}

/// Puts the generators that a program can draw from, of all devices and its own, back where they were.
class Redrawn {
 public:
  explicit Redrawn(const Program& program) {
    if (!may_draw(program)) return;
    for (Generator* generator : default_generators()) keep(*generator);
    each_own_generator(program, [this](Generator& generator) { keep(generator); });
  }
  ~Redrawn() {
    for (const auto& [generator, state] : states_) {
      const std::lock_guard lock(generator->mutex);
      generator->set_state(state.data(), state.size());
    }
  }
  Redrawn(const Redrawn&) = delete;

 private:
  void keep(Generator& generator) {
    const std::lock_guard lock(generator.mutex);
    std::vector<uint8_t> state(generator.state_bytes());
    generator.get_state(state.data());
    note_look(generator);
    states_.try_emplace(&generator, std::move(state));
  }
  std::map<Generator*, std::vector<uint8_t>> states_;
};

/// What only a run with these values would do cannot be written down once and for all.
void refuse_choices(const Program& program) {
  for (const ProgramNode& node : program.nodes) {
    const std::string& name = node.op->name;
    const bool chooses = node.op->id == 0 && (name == "cond" || name == "while_loop" || name == "_assert_async");
    FACULA_CHECK(!chooses, ErrorKind::NotImplemented, "joint: ", name,
                 " depends on values, so that gradients are those of one branch only, got it ",
                 node.source.empty() ? "in the program" : "at " + node.source);
    for (const Arg& arg : node.arguments) {
      if (arg.kind == Arg::Kind::Constant && arg.constant.kind() == Value::Kind::Graph) {
        refuse_choices(arg.constant.graph()->program());
      }
    }
  }
}

/// A program while it runs once more: on stand-ins for what it is given and what it holds.
class Rerun {
 public:
  /// It runs `factor` ops for each of the program's, or so.
  Rerun(const Program& program, std::span<const Value> examples, size_t factor) : program_(program), effects_(program) {
    refuse_choices(program);
    recorder.expect(program.inputs.size() + program.nodes.size() * factor);
    size_t wanted = 0, at = 0;
    for (const ProgramInput& input : program.inputs) wanted += input.kind == ProgramInput::Kind::User;
    FACULA_CHECK(examples.empty() || examples.size() == wanted, ErrorKind::Type, "joint: expected ", wanted,
                 " example inputs, got ", examples.size());
    on_meta_ = examples.empty() && wanted > 0;
    recorder.program()->symbols = program.symbols;
    recorder.program()->guards = program.guards;
    for (const ProgramInput& input : program.inputs) {
      const bool given = input.kind == ProgramInput::Kind::User;
      add_input(input, given && !on_meta_ ? examples[at] : Value());
      at += given;
    }
  }

  /// The outputs; what is recorded from here on is seen by `recorder`.
  std::vector<Value> run() {
    const Runner runner(std::shared_ptr<const Program>(std::shared_ptr<void>(), &program_));
    return runner.run(given_, stand_ins_);
  }

  Recorder recorder;
  /// For every input of the new program that requires a gradient: its number, and what stands for it.
  std::vector<std::pair<int, Tensor>> leaves;

 private:
  void add_input(ProgramInput input, const Value& example) {
    const ProgramValue& value = program_.values[static_cast<size_t>(input.value)];
    const bool user = input.kind == ProgramInput::Kind::User;
    Tensor stand_in;
    if (value.kind == Value::Kind::Tensor) {
      stand_in = user ? of_example(input, value.meta, example) : of_held(input);
      if (user) given_.push_back(stand_in);
      if (recorder.add_input(stand_in, input, value.name, value.meta) && stand_in.requires_grad()) {
        leaves.emplace_back(static_cast<int>(recorder.program()->inputs.size()) - 1, stand_in);
      }
    } else {
      given_.push_back(input.constant.is_none() ? example : input.constant);
      recorder.add_number(std::move(input), value.name, value.kind);
    }
    stand_ins_.push_back(stand_in);
  }

  Tensor of_example(const ProgramInput& input, const TensorMeta& meta, const Value& example) const {
    if (on_meta_) return fresh(meta);
    FACULA_CHECK(example.is_tensor(), ErrorKind::Type, "joint: the example of '", input.path,
                 "' must be a tensor, got ", name(example.kind()));
    return leaf(clone(alias(example.tensor())), requires_grad(example.tensor()));
  }

  /// A stand-in shares the memory of what the program does not write to; others are copied.
  Tensor of_held(const ProgramInput& input) {
    FACULA_CHECK(input.tensor.defined(), ErrorKind::Runtime, "joint: nothing is held for ", name(input.kind), " '",
                 input.path, "'");
    Tensor& made = held_[input.tensor.impl()];
    if (made.defined()) return made;
    const bool shared = !effects_.is_written(input.value);
    const Tensor own = alias(input.tensor);
    made = leaf(on_meta_ ? empty(own.sizes(), own.dtype(), kMeta)
                : shared ? own
                         : clone(own),
                requires_grad(input.tensor));
    return made;
  }

  Tensor fresh(const TensorMeta& meta) const {
    std::vector<int64_t> sizes;
    for (const Expr& size : meta.sizes) {
      const auto n = size.evaluate([&](const std::string& name) -> std::optional<int64_t> {
        const Symbol* symbol = program_.find_symbol(name);
        return symbol ? std::optional(symbol->sample) : std::nullopt;
      });
      FACULA_CHECK(n, ErrorKind::Value, "decompose: the size ", size.text(), " has no sample");
      sizes.push_back(*n);
    }
    return leaf(empty(IntList(sizes), meta.dtype, kMeta), meta.requires_grad);
  }
  static Tensor leaf(Tensor t, bool wants_gradient) {
    if (wants_gradient) set_requires_grad(t, true);
    return t;
  }

  const Program& program_;
  const Effects effects_;
  bool on_meta_ = false;
  std::vector<Tensor> stand_ins_;
  std::vector<Value> given_;
  std::unordered_map<const TensorImpl*, Tensor> held_;
};

Arg output_of(Recorder& recorder, const Value& value) { return recorder.argument(value); }

/// The roots of a backward pass, and the gradients that it starts with.
struct Start {
  std::vector<Edge> roots;
  std::vector<Tensor> seeds;
};

Start start_of(Recorder& recorder, const std::vector<Value>& outputs, int loss) {
  Start start;
  if (loss >= 0) {
    FACULA_CHECK(static_cast<size_t>(loss) < outputs.size(), ErrorKind::Index, "joint: the program has ",
                 outputs.size(), " outputs, got number ", loss);
    const Value& value = outputs[static_cast<size_t>(loss)];
    FACULA_CHECK(value.is_tensor() && value.tensor().numel() == 1 && recorded_flags_of(value.tensor()),
                 ErrorKind::Runtime, "joint: output ", loss, " must be a scalar that requires a gradient, got ",
                 value.is_tensor() ? TensorMeta::of(value.tensor()).text() : name(value.kind()));
    start.seeds.push_back(ones_like(value.tensor()));
    start.roots.push_back(gradient_edge(value.tensor().impl()));
    return start;
  }
  for (const Value& value : outputs) {
    if (!value.is_tensor() || !recorded_flags_of(value.tensor())) continue;
    const std::string name = "tangents_" + std::to_string(start.seeds.size());
    const Tensor& result = value.tensor();
    const Unwatched unseen;
    start.seeds.push_back(zeros_like(alias(result)));
    ProgramInput input;
    input.path = name;
    recorder.add_input(start.seeds.back(), input, name, TensorMeta::of(start.seeds.back()));
    start.roots.push_back(gradient_edge(result.impl()));
  }
  FACULA_CHECK(!start.roots.empty(), ErrorKind::Runtime, "joint: none of the ", outputs.size(),
               " outputs requires a gradient");
  return start;
}

/// The program as one that autograd does not follow: inputs that require gradients are detached first, and nothing is
/// said of where gradients were off.
void cut_from_autograd(Program& program) {
  const BoxedOp* detach = find_boxed("detach.default");
  std::vector<ProgramNode> first;
  std::vector<int> detached(program.values.size(), -1);
  for (const ProgramInput& input : program.inputs) {
    if (!input.tensor.defined() || !requires_grad(input.tensor)) continue;
    const ProgramValue value = program.values[static_cast<size_t>(input.value)];
    TensorMeta meta = value.meta;
    meta.requires_grad = false;
    ProgramNode node;
    node.op = detach;
    node.arguments = {Arg::of(input.value)};
    node.results = {{program.add_value("detach", Value::Kind::Tensor, meta)}};
    detached[static_cast<size_t>(input.value)] = node.results[0][0];
    first.push_back(std::move(node));
  }
  const auto replaced = [&](int& ref) {
    const size_t at = static_cast<size_t>(ref);
    if (at < detached.size() && detached[at] >= 0) ref = detached[at];
  };
  for (ProgramNode& node : program.nodes) {
    node.no_grad = false;
    for (Arg& arg : node.arguments) arg.each_ref(replaced);
  }
  for (Arg& output : program.outputs) output.each_ref(replaced);
  program.nodes.insert(program.nodes.begin(), std::make_move_iterator(first.begin()),
                       std::make_move_iterator(first.end()));
}

}  // namespace

std::shared_ptr<Program> decompose(const Program& program, std::span<const Value> examples) {
  const GradMode on(true);
  Rerun rerun(program, examples, 1);
  const Redrawn draws(program);
  InnerRecorder inner(rerun.recorder);
  const std::vector<Value> outputs = rerun.run();
  inner.finish();
  std::vector<Arg> made;
  for (const Value& v : outputs) made.push_back(output_of(rerun.recorder, v));
  rerun.recorder.set_outputs(std::move(made));
  const std::shared_ptr<Program>& result = rerun.recorder.finish();
  remove_dead(*result);
  result->verify();
  return result;
}

Joint joint(const Program& program, std::span<const Value> examples, const JointOptions& options) {
  const GradMode on(true);
  Rerun rerun(program, examples, 4);
  const Redrawn draws(program);
  InnerRecorder inner(rerun.recorder);
  const std::vector<Value> outputs = rerun.run();
  const Start start = start_of(rerun.recorder, outputs, options.loss);
  std::vector<Edge> wanted;
  for (const auto& [input, leaf] : rerun.leaves) wanted.push_back(gradient_edge(leaf.impl()));
  FACULA_CHECK(!wanted.empty(), ErrorKind::Runtime,
               "joint: a parameter or an input that requires a gradient is expected, got none");
  const std::vector<Tensor> gradients =
      run_backward(start.roots, start.seeds, wanted,
                   {.keep_graph = options.differentiable, .create_graph = options.differentiable, .accumulate = false});
  inner.finish();
  Joint made;
  std::vector<Arg> all;
  for (const Value& v : outputs) all.push_back(output_of(rerun.recorder, v));
  made.results = all.size();
  std::vector<OutputRole>& roles = rerun.recorder.program()->roles;
  roles.resize(all.size());
  if (options.loss >= 0) roles[static_cast<size_t>(options.loss)].kind = OutputRole::Kind::Loss;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    all.push_back(output_of(rerun.recorder, gradients[i]));
    const int number = rerun.leaves[i].first;
    const ProgramInput& input = rerun.recorder.program()->inputs[static_cast<size_t>(number)];
    const bool user = input.kind == ProgramInput::Kind::User;
    roles.push_back({user ? OutputRole::Kind::InputGradient : OutputRole::Kind::ParameterGradient, input.path});
    made.gradient_of.push_back(number);
  }
  rerun.recorder.set_outputs(std::move(all));
  made.program = rerun.recorder.finish();
  if (!options.differentiable) cut_from_autograd(*made.program);
  remove_dead(*made.program);
  made.program->verify();
  return made;
}

}  // namespace facula
