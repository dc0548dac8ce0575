// Ops by name, for the C interface.
#include <algorithm>
#include <map>
#include <mutex>

#include "capi/capi.h"

namespace facula::capi {
namespace {

/// What the C interface says of an op: texts that live as long as the library.
struct OpTexts {
  std::string name, signature;
  std::vector<std::string> types, results;
};

const OpTexts& texts_of(const BoxedOp* op) {
  static std::mutex mutex;
  static auto* const known = new std::map<const BoxedOp*, OpTexts>;
  const std::scoped_lock lock(mutex);
  const auto [place, fresh] = known->try_emplace(op);
  if (fresh) {
    place->second = {op->key(), op->signature(), {}, {}};
    for (const BoxedArgument& a : op->arguments) place->second.types.push_back(a.type.text());
    for (const BoxedType& t : op->results) place->second.results.push_back(t.text());
  }
  return place->second;
}

const std::vector<const BoxedOp*>& ops() {
  static const auto* const all = new std::vector<const BoxedOp*>(all_boxed());
  return *all;
}

const BoxedOp* boxed(fc_op op) { return reinterpret_cast<const BoxedOp*>(op); }

const BoxedOp* found(const std::string& word) {
  const bool bare = word.find('.') == std::string::npos;
  const std::string plain = word + ".default";
  const BoxedOp* op = find_boxed(word);
  if (!op && bare) op = find_boxed(plain);
  if (!op) op = find_aten(word);
  if (!op && bare) op = find_aten(plain);
  return op;
}

const BoxedArgument* argument_of(fc_op op, int32_t index) {
  const bool there = op && index >= 0 && index < fc_op_argument_count(op);
  return there ? &boxed(op)->arguments[static_cast<size_t>(index)] : nullptr;
}

/// An integer for a list of a known number of them stands for all.
Value spread(Value value, const BoxedType& type) {
  if (!type.list_size || value.kind() != Value::Kind::Int) return value;
  return std::vector<int64_t>(static_cast<size_t>(type.list_size), value.to_int());
}

std::vector<Value> completed(const BoxedOp& op, const fc_value* given, size_t count) {
  FACULA_CHECK(count <= op.arguments.size(), ErrorKind::Type, op.key(), ": takes ", op.arguments.size(),
               " arguments, got ", count);
  FACULA_CHECK(given || count == 0, ErrorKind::Value, op.key(), ": ", count, " arguments at NULL");
  std::vector<Value> values;
  values.reserve(op.arguments.size());
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const BoxedArgument& argument = op.arguments[i];
    if (i >= count || given[i].kind == FC_DEFAULT) {
      FACULA_CHECK(!argument.required, ErrorKind::Type, op.key(), ": the argument ", argument.name, " is missing");
      values.push_back(argument.default_value);
      continue;
    }
    values.push_back(spread(from_c(given[i], (op.key() + ": " + argument.name).c_str()), argument.type));
    FACULA_CHECK(argument.accepts(values.back()), ErrorKind::Type, op.key(), ": ", argument.name, " must be ",
                 argument.type.text(), ", got ", name(values.back().kind()));
  }
  return values;
}

}  // namespace
}  // namespace facula::capi

using namespace facula;
using namespace facula::capi;

extern "C" {

size_t fc_op_count(void) { return facula::capi::ops().size(); }
fc_op fc_op_at(size_t index) {
  return index < fc_op_count() ? reinterpret_cast<fc_op>(facula::capi::ops()[index]) : nullptr;
}
fc_op fc_op_find(const char* name) {
  const BoxedOp* op = nullptr;
  guarded([&] { op = name ? found(name) : nullptr; });
  return reinterpret_cast<fc_op>(op);
}

const char* fc_op_name(fc_op op) { return op ? texts_of(boxed(op)).name.c_str() : nullptr; }
const char* fc_op_signature(fc_op op) { return op ? texts_of(boxed(op)).signature.c_str() : nullptr; }
const char* fc_op_aten_name(fc_op op) { return op ? boxed(op)->aten.c_str() : nullptr; }
bool fc_op_draws(fc_op op) { return op && boxed(op)->draws; }

int32_t fc_op_argument_count(fc_op op) { return op ? static_cast<int32_t>(boxed(op)->arguments.size()) : 0; }
const char* fc_op_argument_name(fc_op op, int32_t index) {
  const BoxedArgument* argument = argument_of(op, index);
  return argument ? argument->name.c_str() : nullptr;
}
const char* fc_op_argument_type(fc_op op, int32_t index) {
  return argument_of(op, index) ? texts_of(boxed(op)).types[static_cast<size_t>(index)].c_str() : nullptr;
}
bool fc_op_argument_required(fc_op op, int32_t index) {
  const BoxedArgument* argument = argument_of(op, index);
  return argument && argument->required;
}
bool fc_op_argument_written(fc_op op, int32_t index) {
  const BoxedArgument* argument = argument_of(op, index);
  return argument && argument->written;
}
fc_status fc_op_argument_default(fc_op op, int32_t index, fc_value* out) {
  return guarded([&] {
    const BoxedArgument* argument = argument_of(op, index);
    FACULA_CHECK(argument && !argument->required, ErrorKind::Value,
                 "fc_op_argument_default: ", op ? boxed(op)->key() : "NULL", " has no argument ", index,
                 " with a default");
    to_c(argument->default_value, there(out, "fc_op_argument_default"));
  });
}

int32_t fc_op_result_count(fc_op op) { return op ? static_cast<int32_t>(boxed(op)->results.size()) : 0; }
const char* fc_op_result_type(fc_op op, int32_t index) {
  const bool there = index >= 0 && index < fc_op_result_count(op);
  return there ? texts_of(boxed(op)).results[static_cast<size_t>(index)].c_str() : nullptr;
}
const char* fc_op_result_name(fc_op op, int32_t index) {
  if (index < 0 || index >= fc_op_result_count(op)) return nullptr;
  const std::vector<std::string>& names = boxed(op)->result_names;
  return names.empty() ? "" : names[static_cast<size_t>(index)].c_str();
}

fc_status fc_call(fc_op op, const fc_value* arguments, size_t count, fc_value* results, size_t room) {
  return guarded([&] {
    FACULA_CHECK(op, ErrorKind::Value, "fc_call: there is no such op (fc_op_find gave NULL)");
    const BoxedOp& row = *boxed(op);
    check_room(row.results.size(), results, room, row.key().c_str());
    const std::vector<Value> values = completed(row, arguments, count);
    std::vector<const Value*> given;
    for (const Value& v : values) given.push_back(&v);
    std::vector<Value> made(std::max<size_t>(row.results.size(), 1));
    row.call(given.data(), made.data());
    made.resize(row.results.size());
    hand_over(made, results);
  });
}

}  // extern "C"
