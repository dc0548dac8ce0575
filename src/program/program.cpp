#include "program/program.h"

#include <sstream>

#include "program/run.h"

namespace facula {

bool ProgramNode::has_effects() const {
  if (op->has_effects()) return true;
  return std::any_of(arguments.begin(), arguments.end(), [](const Arg& arg) {
    if (arg.constant.kind() != Value::Kind::Graph) return false;
    const std::vector<ProgramNode>& inside = arg.constant.graph()->program().nodes;
    return std::any_of(inside.begin(), inside.end(), [](const ProgramNode& node) { return node.has_effects(); });
  });
}

TensorMeta TensorMeta::of(const Tensor& t) {
  TensorMeta meta;
  meta.dtype = t.dtype();
  for (int64_t size : t.sizes()) meta.sizes.emplace_back(size);
  if (!t.is_contiguous()) {
    for (int64_t stride : t.strides()) meta.strides.emplace_back(stride);
  }
  meta.device = t.device();
  meta.requires_grad = t.requires_grad();
  return meta;
}

namespace {
std::string listed(const std::vector<Expr>& parts) {
  std::string text = "[";
  for (const Expr& part : parts) text += (text.size() > 1 ? ", " : "") + part.text();
  return text + "]";
}
}  // namespace

std::string TensorMeta::text() const {
  std::string text = std::string(facula::name(dtype)) + listed(sizes);
  if (!strides.empty()) text += " strides" + listed(strides);
  if (!device.is_cpu()) text += " on " + to_string(device);
  return text + (requires_grad ? " requires_grad" : "");
}

Arg Arg::of(int ref) {
  Arg arg;
  arg.kind = Kind::Ref;
  arg.ref = ref;
  return arg;
}
Arg Arg::list(std::vector<Arg> items) {
  Arg arg;
  arg.kind = Kind::List;
  arg.items = std::move(items);
  return arg;
}

const char* name(ProgramInput::Kind kind) {
  constexpr const char* kNames[] = {"user", "parameter", "buffer", "constant"};
  return kNames[static_cast<size_t>(kind)];
}

const char* name(OutputRole::Kind kind) {
  constexpr const char* kNames[] = {"result", "loss", "parameter_gradient", "input_gradient"};
  return kNames[static_cast<size_t>(kind)];
}

int Program::add_value(std::string_view name, Value::Kind kind, TensorMeta meta) {
  std::string unique(name);
  for (int i = 1; by_name_.contains(unique); ++i) unique = std::string(name) + "_" + std::to_string(i);
  return add_named(std::move(unique), kind, std::move(meta));
}

int Program::add_named(std::string name, Value::Kind kind, TensorMeta meta) {
  const int number = static_cast<int>(values.size());
  const bool fresh = by_name_.emplace(name, number).second;
  FACULA_CHECK(fresh, ErrorKind::Value, "program: a value is defined twice, got '", name, "'");
  values.push_back({std::move(name), kind, std::move(meta)});
  return number;
}

int Program::find_value(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

const Symbol* Program::find_symbol(std::string_view name) const {
  for (const Symbol& s : symbols) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

void Program::hold(ProgramInput& input, const Tensor& tensor) {
  const TensorMeta& wanted = values[static_cast<size_t>(input.value)].meta;
  const TensorMeta came = TensorMeta::of(tensor);
  FACULA_CHECK(came.dtype == wanted.dtype && came.sizes == wanted.sizes, ErrorKind::Value, "program: ", input.path,
               ": expected ", wanted.text(), ", got ", came.text());
  input.tensor = tensor;
}

}  // namespace facula
