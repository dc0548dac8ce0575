#include "program/record.h"

#include "functions_create.h"

namespace facula {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) { return is_digit(c) || c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

/// A name that text forms and other languages can take.
std::string plain_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) c = is_plain(c) ? c : '_';
  return name.empty() || is_digit(name[0]) ? "_" + name : name;
}

Value::Kind kind_of(const Value& v) { return v.is_none() ? Value::Kind::Tensor : v.kind(); }

/// An address as a hash, which no other address has; so what is found by it is the same.
uint64_t hash_of(const void* address) {
  return __builtin_bswap64(reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15u);
}
constexpr auto kAlways = [](int) { return true; };

}  // namespace

void Recorder::expect(size_t ops) {
  trace_.reserve(ops);
  held_.reserve(ops);
  for (NumberTable* table : {&by_impl_, &by_memory_, &by_storage_}) table->reserve(ops);
}

// ---- which tensors are known

int Recorder::find_impl(const Tensor& tensor) const {
  const int at = by_impl_.find(hash_of(tensor.impl()), kAlways);
  return at < 0 ? -1 : held_[static_cast<size_t>(at)].second;
}

void Recorder::know(const Tensor& tensor, int value) {
  const uint64_t hash = hash_of(tensor.impl());
  const int at = by_impl_.find(hash, kAlways);
  if (at >= 0) {
    held_[static_cast<size_t>(at)].second = value;
  } else {
    by_impl_.put(hash, static_cast<int>(held_.size()), kAlways);
    held_.emplace_back(tensor, value);
  }
  if (knows_memory_) remember(tensor, value);
}

void Recorder::remember(const Tensor& tensor, int value) {
  if (tensor.flags() & kBatched) return;
  by_memory_.put(Trace::hash_of(tensor), value, [&](int other) { return trace_.shows_same(other, tensor); });
  const uint64_t storage = hash_of(tensor.storage());
  if (by_storage_.find(storage, kAlways) < 0) by_storage_.put(storage, value, kAlways);
}

void Recorder::know_memory() {
  knows_memory_ = true;
  for (const auto& [tensor, value] : held_) remember(tensor, value);
}

int Recorder::first_on_storage(const Tensor& tensor) const {
  return by_storage_.find(hash_of(tensor.storage()), kAlways);
}

int Recorder::value_of(const Tensor& tensor) {
  if (knows_memory_) {
    const auto same = [&](int value) { return trace_.shows_same(value, tensor); };
    if (const int value = by_memory_.find(Trace::hash_of(tensor), same); value >= 0) return value;
  }
  if (const int value = find_impl(tensor); value >= 0) return value;
  return find_other ? find_other(tensor) : add_constant(tensor);
}

// ---- inputs

void Recorder::say(int value, std::string_view name, TensorMeta meta) {
  inputs_.push_back({value, plain_name(name), std::move(meta)});
}

bool Recorder::add_input(const Tensor& tensor, ProgramInput input, std::string_view name, TensorMeta meta) {
  if (knows(tensor)) return false;
  input.value = trace_.add_value(tensor);
  say(input.value, name, std::move(meta));
  know(tensor, input.value);
  program_->inputs.push_back(std::move(input));
  return true;
}

void Recorder::add_number(ProgramInput input, std::string_view name, Value::Kind kind) {
  input.value = trace_.add_value(kind);
  say(input.value, name, {});
  program_->inputs.push_back(std::move(input));
}

int Recorder::add_constant(const Tensor& tensor) {
  size_t before = 0, constants = 0;
  for (const ProgramInput& input : program_->inputs) {
    before += input.kind != ProgramInput::Kind::User;
    constants += input.kind == ProgramInput::Kind::Constant;
  }
  ProgramInput input;
  input.kind = ProgramInput::Kind::Constant;
  input.path = find_path ? find_path(tensor) : "";
  const bool held = !input.path.empty();
  if (held) {
    input.tensor = tensor;
  } else {
    const GradMode off(false);
    input.path = "lifted_tensor_" + std::to_string(constants);
    input.tensor = clone(alias(tensor));
  }
  const int value = input.value = trace_.add_value(tensor);
  say(value, "c_" + input.path, TensorMeta::of(input.tensor));
  program_->inputs.insert(program_->inputs.begin() + static_cast<std::ptrdiff_t>(before), std::move(input));
  know(tensor, value);
  if (!held) {
    const Value copied = tensor;
    add(*find_boxed("lift_fresh_copy.default"), {Arg::of(value)}, {&copied, 1});
  }
  return value_of(tensor);
}

// ---- ops

Arg Recorder::argument(const Value& value) {
  if (value.is_tensor()) return Arg::of(value_of(value.tensor()));
  if (value.kind() != Value::Kind::Tensors) return value;
  std::vector<Arg> items;
  for (const Tensor& t : value.tensors()) items.push_back(t.defined() ? Arg::of(value_of(t)) : Arg());
  return Arg::list(std::move(items));
}

uint32_t Recorder::place() {
  if (!find_source && module.empty()) {
    if (places_.empty()) places_.emplace_back();
    return 0;
  }
  Place here{module, find_source ? find_source() : ""};
  if (places_.empty()) places_.emplace_back();
  const auto [known, fresh] =
      place_numbers_.try_emplace(here.module + '\n' + here.source, static_cast<uint32_t>(places_.size()));
  if (fresh) places_.push_back(std::move(here));
  return known->second;
}

Trace& Recorder::begin(const BoxedOp& op) {
  trace_.begin(op, place(), grad_enabled_ && !GradMode::enabled());
  return trace_;
}

void Recorder::result(const Tensor& tensor) {
  const int value = trace_.add_value(tensor);
  if (tensor.defined()) know(tensor, value);
}

void Recorder::result(TensorList list) {
  trace_.lengths.push_back(static_cast<uint32_t>(list.size()));
  for (const Tensor& t : list) result(t);
}

void Recorder::add(const BoxedOp& op, std::vector<Arg> arguments, std::span<const Value> results) {
  FACULA_CHECK(arguments.size() == op.arguments.size() && results.size() == op.results.size(), ErrorKind::Runtime,
               "recorder: ", op.signature(), " was recorded with ", arguments.size(), " arguments and ", results.size(),
               " results");
  Trace& trace = begin(op);
  for (Arg& argument : arguments) trace.put(std::move(argument));
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (op.results[i].list) result(TensorList(results[i].tensors()));
    else if (results[i].is_tensor()) result(results[i].tensor());
    else number(kind_of(results[i]));
  }
}

// ---- the program

void Recorder::name_inputs(int before, size_t& at) {
  for (; at < inputs_.size() && inputs_[at].value < before; ++at) {
    const Value::Kind kind = trace_.values[static_cast<size_t>(inputs_[at].value)].kind;
    program_->add_value(inputs_[at].name, kind, std::move(inputs_[at].meta));
  }
}

void Recorder::add_node(size_t i) {
  const TraceRow& row = trace_.rows[i];
  const BoxedOp& op = *row.op;
  ProgramNode& node = program_->nodes.emplace_back();
  node.op = &op;
  node.module = places_[row.place].module;
  node.source = places_[row.place].source;
  node.no_grad = row.no_grad;
  node.arguments.reserve(op.arguments.size());
  for (size_t k = 0; k < op.arguments.size(); ++k) {
    node.arguments.push_back(trace_.argument(trace_.arguments[row.arguments + k]));
  }
  const std::string name = plain_name(op.name);
  size_t length = row.lengths;
  node.results.resize(op.results.size());
  for (size_t k = 0; k < op.results.size(); ++k) {
    const uint32_t count = op.results[k].list ? trace_.lengths[length++] : 1;
    for (uint32_t n = 0; n < count; ++n) {
      const int value = static_cast<int>(program_->values.size());
      const Value::Kind kind = trace_.values[static_cast<size_t>(value)].kind;
      node.results[k].push_back(program_->add_value(name, kind, trace_.meta(value)));
    }
  }
}

const std::shared_ptr<Program>& Recorder::finish() {
  size_t inputs = 0;
  program_->values.reserve(trace_.values.size());
  program_->nodes.reserve(trace_.rows.size());
  for (size_t i = 0; i < trace_.rows.size(); ++i) {
    name_inputs(static_cast<int>(trace_.rows[i].results), inputs);
    add_node(i);
  }
  name_inputs(static_cast<int>(trace_.values.size()), inputs);
  return program_;
}

}  // namespace facula
