// facula-run: runs an exported program on files of arrays. No Python is in the process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "autograd/engine.h"
#include "core/parallel.h"
#include "cxx/load.h"
#include "functions.h"
#include "program/custom.h"
#include "program/pt2.h"
#include "program/run.h"
#include "run/arrays.h"
#include "run/inputs.h"
#include "run/list.h"

namespace facula {
namespace {

// Outputs

Value item_of(const Value& list, size_t i) {
  if (list.kind() == Value::Kind::Tensors) return list.tensors().at(i);
  if (list.kind() == Value::Kind::Ints) return list.ints().at(i);
  std::vector<double> room;
  return list.floats(room).at(i);
}

/// Tensors under the names of the program's values; numbers are arrays without dimensions. What is no array, such as
/// None, is left out.
class Outputs {
 public:
  explicit Outputs(const Program& program) : program_(program) {}
  void add(const Arg& arg, const Value& value) {
    for (size_t i = 0; i < arg.items.size(); ++i) add(arg.items[i], item_of(value, i));
    if (arg.kind == Arg::Kind::List) return;
    const std::string name = name_of(arg);
    if (value.is_tensor()) {
      all.push_back({name, value.tensor()});
    } else if (value.is_number()) {
      const Scalar scalar = value.to_scalar();
      all.push_back({name, scalar_tensor(scalar, scalar.is_floating() ? DType::Float64 : scalar.dtype())});
    }
  }
  std::vector<NamedTensor> all;

 private:
  /// What is no value of the program, or was written before, is called by its number.
  std::string name_of(const Arg& arg) {
    const std::string number = "output_" + std::to_string(count_++);
    if (arg.kind != Arg::Kind::Ref || !seen_.insert(arg.ref).second) return number;
    return program_.values[static_cast<size_t>(arg.ref)].name;
  }
  const Program& program_;
  std::set<int> seen_;
  size_t count_ = 0;
};

void describe(const std::vector<NamedTensor>& outputs) {
  for (const auto& [name, tensor] : outputs)
    std::printf("%s%s\n", padded(name).c_str(), described(TensorMeta::of(tensor)).c_str());
}

// Running

std::vector<Value> repeated(const Runner& runner, const std::vector<Value>& inputs, int times) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> took;
  std::vector<Value> outputs;
  for (int i = 0; i < times; ++i) {
    outputs.clear();
    const auto start = Clock::now();
    outputs = runner(inputs);
    took.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  if (times > 1) {
    const double first = took[0];
    std::sort(took.begin(), took.end());
    std::printf("%d runs: the first took %.3f ms, half of them at most %.3f ms, the fastest %.3f ms\n", times, first,
                took[took.size() / 2], took[0]);
  }
  return outputs;
}

void run(const RunOptions& options) {
  load();
  if (options.threads) set_num_threads(options.threads);
  for (const std::string& library : options.libraries) load_custom_library(library);
  const std::shared_ptr<Program> program = load_program(options.program);
  if (options.list) {
    list_program(*program);
    return;
  }
  const GradMode no_gradients(false);
  RunInputs inputs(*program);
  for (const RunOptions::Input& input : options.inputs) inputs.read(input);
  const Runner runner(program);
  const std::vector<Value> results = repeated(runner, inputs.values(), options.repeat);
  Outputs outputs(*program);
  for (size_t i = 0; i < results.size(); ++i) outputs.add(program->outputs[i], results[i]);
  if (options.output.empty()) describe(outputs.all);
  else write_arrays(options.output, outputs.all);
}

int main_of(const std::vector<std::string_view>& arguments) {
  RunOptions options;
  constexpr int kWrongCall = 2;
  try {
    options = parse_run_options(arguments);
  } catch (const Error& error) {
    std::fprintf(stderr, "facula-run: %s\n%s", error.what(), kRunUsage);
    return kWrongCall;
  }
  if (options.help) return std::fputs(kRunUsage, stdout) < 0;
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "facula-run: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace facula

int main(int count, char** arguments) { return facula::main_of({arguments + 1, arguments + count}); }
