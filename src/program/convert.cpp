#include "program/convert.h"

#include <functional>
#include <set>

#include "program/run.h"

namespace facula {
namespace {

/// What is done to the constants of nodes and to what is known of values.
struct Change {
  std::function<void(const BoxedArgument&, Value&)> constant;
  std::function<void(TensorMeta&)> meta = [](TensorMeta&) {};
};

void visit(Program& program, const Change& change);

void visit(Arg& arg, const BoxedArgument& place, const Change& change) {
  for (Arg& item : arg.items) visit(item, place, change);
  if (arg.kind != Arg::Kind::Constant) return;
  if (arg.constant.kind() == Value::Kind::Graph) {
    auto inner = std::make_shared<Program>(arg.constant.graph()->program());
    visit(*inner, change);
    arg.constant = Value(std::make_shared<const Runner>(std::move(inner)));
  } else {
    change.constant(place, arg.constant);
  }
}
void visit(Program& program, const Change& change) {
  for (ProgramNode& node : program.nodes)
    for (size_t i = 0; i < node.arguments.size(); ++i) visit(node.arguments[i], node.op->arguments[i], change);
  for (ProgramValue& value : program.values)
    if (value.kind == Value::Kind::Tensor) change.meta(value.meta);
}

bool says_training(const BoxedArgument& place, const Value& value) {
  return value.kind() == Value::Kind::Bool && (place.name == "training" || place.name == "train");
}

}  // namespace

bool is_training(const Program& program) {
  bool found = false;
  Program copy = program;
  visit(copy, {[&](const BoxedArgument& place, Value& value) {
          found = found || (says_training(place, value) && value.to_bool());
        }});
  return found;
}

void set_training(Program& program, bool on) {
  visit(program, {[&](const BoxedArgument& place, Value& value) {
          if (says_training(place, value)) value = on;
        }});
}

void set_floating(Program& program, DType dtype) {
  FACULA_CHECK(is_floating(dtype), ErrorKind::Type, "to: a floating-point dtype is expected, got ", name(dtype));
  std::set<DType> known;
  visit(program, {[](const BoxedArgument&, Value&) {},
                  [&](TensorMeta& meta) {
                    if (is_floating(meta.dtype)) known.insert(meta.dtype);
                  }});
  if (known.empty() || known == std::set<DType>{dtype}) return;
  FACULA_CHECK(known.size() == 1, ErrorKind::NotImplemented, "to: a program whose floating-point numbers are all ",
               name(*known.begin()), " can be converted, got one with ", name(*known.rbegin()), " as well");
  const DType before = *known.begin();
  visit(program, {[&](const BoxedArgument&, Value& value) {
                    if (value.kind() == Value::Kind::DType && value.to_dtype() == before) value = dtype;
                  },
                  [&](TensorMeta& meta) {
                    if (meta.dtype == before) meta.dtype = dtype;
                  }});
}

void set_device(Program& program, Device device) {
  visit(program, {[&](const BoxedArgument&, Value& value) {
                    if (value.kind() == Value::Kind::Device) value = device;
                  },
                  [&](TensorMeta& meta) { meta.device = device; }});
}

}  // namespace facula
