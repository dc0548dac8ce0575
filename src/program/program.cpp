#include "program/program.h"

namespace facula {

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

void Program::index_names() {
  for (; indexed_ < values.size(); ++indexed_) by_name_.try_emplace(values[indexed_].name, static_cast<int>(indexed_));
}

int Program::add_value(std::string_view name, Value::Kind kind, TensorMeta meta) {
  index_names();
  const int number = static_cast<int>(values.size());
  std::string unique(name);
  const auto [named, fresh] = by_name_.try_emplace(unique, number);
  if (!fresh) {
    int& next = named->second.next;  // stays where it is when others come
    unique += '_';
    do unique.replace(name.size() + 1, std::string::npos, std::to_string(next++));
    while (!by_name_.try_emplace(unique, number).second);
  }
  ++indexed_;
  values.push_back({std::move(unique), kind, std::move(meta)});
  return number;
}

int Program::add_named(std::string name, Value::Kind kind, TensorMeta meta) {
  index_names();
  const int number = static_cast<int>(values.size());
  const bool fresh = by_name_.try_emplace(name, number).second;
  FACULA_CHECK(fresh, ErrorKind::Value, "program: a value is defined twice, got '", name, "'");
  ++indexed_;
  values.push_back({std::move(name), kind, std::move(meta)});
  return number;
}

int Program::find_value(std::string_view name) {
  index_names();
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second.value;
}

void Program::keep_values(const std::vector<int>& number) {
  size_t count = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    if (number[v] < 0) continue;
    if (count != v) values[count] = std::move(values[v]);
    ++count;
  }
  if (count == values.size()) return;
  values.resize(count);
  by_name_.clear();
  indexed_ = 0;
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
