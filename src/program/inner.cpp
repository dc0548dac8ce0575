#include "program/inner.h"

#include <algorithm>

#include "autograd/function_support.h"
#include "op_ids_shape.h"

namespace facula {
namespace {

template <class T>
Value optional_value(const Argument& a) {
  const std::optional<T>& v = a.as<std::optional<T>>();
  return v ? Value(*v) : Value();
}
template <class T>
Value plain_value(const Argument& a) {
  return Value(a.as<T>());
}
Value floats_value(FloatList list) { return Value(std::vector<double>(list.begin(), list.end())); }
Value operand_value(const Argument& a) {
  const Operand& o = a.as<Operand>();
  return o.is_tensor() ? Value(o.tensor()) : Value(o.scalar());
}
Value tensors_value(const Argument& a) {
  const TensorList& list = a.as<TensorList>();
  return Value(std::vector<Tensor>(list.begin(), list.end()));
}
Value generator_value(const Argument& a) { return Value(a.as<Generator*>()); }

using Kind = Argument::Kind;
struct Conversion {
  Kind kind;
  Value (*convert)(const Argument&);
};
/// In the order of the kinds.
const Conversion conversions[] = {
    {Kind::Tensor, plain_value<Tensor>},
    {Kind::TensorList, tensors_value},
    {Kind::Operand, operand_value},
    {Kind::Scalar, plain_value<Scalar>},
    {Kind::OptScalar, optional_value<Scalar>},
    {Kind::Int, plain_value<int64_t>},
    {Kind::OptInt, optional_value<int64_t>},
    {Kind::Float, plain_value<double>},
    {Kind::OptFloat, optional_value<double>},
    {Kind::Bool, plain_value<bool>},
    {Kind::OptBool, optional_value<bool>},
    {Kind::IntList, plain_value<IntList>},
    {Kind::OptIntList, optional_value<IntList>},
    {Kind::FloatList, [](const Argument& a) { return floats_value(a.as<FloatList>()); }},
    {Kind::OptFloatList,
     [](const Argument& a) {
       const auto& list = a.as<std::optional<FloatList>>();
       return list ? floats_value(*list) : Value();
     }},
    {Kind::String, plain_value<std::string_view>},
    {Kind::OptString, optional_value<std::string_view>},
    {Kind::DType, plain_value<DType>},
    {Kind::OptDType, optional_value<DType>},
    {Kind::OptDevice, optional_value<Device>},
    {Kind::OptLayout, optional_value<Layout>},
    {Kind::MemoryFormat, plain_value<MemoryFormat>},
    {Kind::OptMemoryFormat, optional_value<MemoryFormat>},
    {Kind::Generator, generator_value},
};

/// What a number becomes where an op wants a tensor; no op makes these.
bool is_number(const Tensor& t) {
  constexpr DType kOfNumbers[] = {DType::Float64, DType::Int64, DType::Complex128, DType::Bool};
  return t.dim() == 0 && !t.is_meta() &&
         std::find(std::begin(kOfNumbers), std::end(kOfNumbers), t.dtype()) != std::end(kOfNumbers);
}

}  // namespace

Value value_of(const Argument& argument) {
  const Conversion& c = conversions[static_cast<size_t>(argument.kind())];
  FACULA_CHECK(c.kind == argument.kind(), ErrorKind::Runtime, "recorder: the table of arguments is out of order, got ",
               static_cast<int>(argument.kind()));
  return c.convert(argument);
}

InnerRecorder::InnerRecorder(Recorder& recorder) : recorder_(recorder), copies_before_(watch_copies(this)) {
  recorder_.know_memory();
  recorder_.find_other = [this](const Tensor& tensor) { return value_of_other(tensor); };
  add_observer(this, Watched::ThisThread);
}

InnerRecorder::~InnerRecorder() {
  remove_observer(this, Watched::ThisThread);
  watch_copies(copies_before_);
  recorder_.find_other = nullptr;
}

void InnerRecorder::finish() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void InnerRecorder::op_begins(const OpCall& call) { depth_ += call.form != OpForm::Composite; }

void InnerRecorder::op_ends(const OpCall& call, bool failed) {
  if (call.form == OpForm::Composite || --depth_ > 0 || failed || failure_) return;
  const Unwatched unseen;
  try {
    record(call);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void InnerRecorder::elements_copied(const Tensor& to, const Tensor& from) {
  if (depth_ > 0 || failure_) return;
  const Unwatched unseen;
  try {
    static const BoxedOp& op = *find_boxed("copy_.default");
    running_ = &op;
    filled_ = to.impl();
    std::vector<Arg> arguments{recorder_.argument(to), recorder_.argument(from), Value(false)};
    const Value written = to;
    recorder_.add(op, std::move(arguments), {&written, 1});
  } catch (...) {
    failure_ = std::current_exception();
  }
}

// The values of the arguments are looked up first: where a view has to be made, its row comes before this one.
void InnerRecorder::record(const OpCall& call) {
  const BoxedOp* op = find_boxed(call.op, call.form);
  FACULA_CHECK(op, ErrorKind::NotImplemented, "recorder: the table has no op ", call.info().name);
  running_ = op;
  const bool idle = call.op == op_id::conj && !call.arguments[0].as<Tensor>().is_complex();  // the same memory
  if (idle) return;
  const size_t outs = op->outs(), given = call.arguments.size();
  FACULA_CHECK(given == op->arguments.size(), ErrorKind::Runtime, "recorder: ", op->key(), " takes ",
               op->arguments.size(), " arguments, got ", given);
  // as the table has them: out= tensors first
  const auto argument = [&](size_t i) -> const Argument& { return call.arguments[(i + given - outs) % given]; };
  filled_ = op->fills && argument(0).kind() == Kind::Tensor ? argument(0).as<Tensor>().impl() : nullptr;
  found_.clear();
  for (size_t i = 0; i < given; ++i) find_values(argument(i));
  Trace& trace = recorder_.begin(*op);
  const int* value = found_.data();
  for (size_t i = 0; i < given; ++i) put(trace, argument(i), value);
  if (call.form == OpForm::Function) {
    for (const ResultSlot& slot : call.results) give(slot);
  } else {
    for (size_t i = 0; i < std::max<size_t>(outs, 1); ++i) {
      const Tensor& written = argument(i).as<Tensor>();
      materialize_layout(written);
      recorder_.result(written);
    }
  }
}

void InnerRecorder::find_values(const Argument& argument) {
  if (argument.kind() == Kind::TensorList) {
    for (const Tensor& t : argument.as<TensorList>()) found_.push_back(t.defined() ? recorder_.value_of(t) : -1);
  } else {
    argument.each_tensor([&](const Tensor& t) { found_.push_back(recorder_.value_of(t)); });
  }
}

void InnerRecorder::put(Trace& trace, const Argument& argument, const int*& value) {
  switch (argument.kind()) {
    case Kind::Tensor:
      if (argument.as<Tensor>().defined()) return trace.put_ref(*value++);
      return trace.put(Value());
    case Kind::TensorList: {
      const size_t count = argument.as<TensorList>().size();
      trace.put_refs({std::exchange(value, value + count), count});
      return;
    }
    case Kind::Operand:
      if (argument.as<Operand>().is_tensor()) return trace.put_ref(*value++);
      return trace.put(facula::value_of(argument));
    case Kind::IntList: return trace.put_ints(argument.as<IntList>());
    default: return trace.put(facula::value_of(argument));
  }
}

void InnerRecorder::give(const ResultSlot& slot) {
  switch (slot.kind()) {
    case ResultSlot::Kind::Tensor: materialize_layout(slot.as<Tensor>()); return recorder_.result(slot.as<Tensor>());
    case ResultSlot::Kind::TensorList:
      materialize_layout(TensorList(slot.as<std::vector<Tensor>>()));
      return recorder_.result(TensorList(slot.as<std::vector<Tensor>>()));
    case ResultSlot::Kind::Bool: return recorder_.number(Value::Kind::Bool);
    case ResultSlot::Kind::Int: return recorder_.number(Value::Kind::Int);
    case ResultSlot::Kind::Float: return recorder_.number(Value::Kind::Float);
    default: return recorder_.number(Value(slot.as<Scalar>()).kind());
  }
}

std::string InnerRecorder::running() const { return running_ ? running_->key() : "the end"; }

int InnerRecorder::value_of_other(const Tensor& tensor) {
  const int of = recorder_.first_on_storage(tensor);
  if (of < 0 && tensor.impl() == filled_) return fresh_memory(tensor);
  if (of < 0 && is_number(tensor)) return number(tensor);
  FACULA_CHECK(of >= 0, ErrorKind::NotImplemented, "joint: ", running(), " was given a tensor ",
               TensorMeta::of(tensor).text(), " that no op of the program has made");
  return view_of_known(tensor, of);
}

int InnerRecorder::view_of_known(const Tensor& tensor, int of) {
  const TraceValue& base = recorder_.trace().values[static_cast<size_t>(of)];
  FACULA_CHECK(base.dtype == tensor.dtype() && base.offset == 0 && base.contiguous, ErrorKind::NotImplemented,
               "joint: ", running(), " was given another view of the memory of ", recorder_.trace().meta(of).text(),
               ", got ", TensorMeta::of(tensor).text());
  const Value made = tensor;
  recorder_.add(*find_boxed("as_strided.default"),
                {Arg::of(of), Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.storage_offset())},
                {&made, 1});
  return recorder_.value_of(tensor);
}

int InnerRecorder::number(const Tensor& tensor) {
  const Value made = tensor;
  const std::vector<int64_t> none;
  recorder_.add(*find_boxed("full.default"),
                {Value(none), Value(tensor.item()), Value(tensor.dtype()), Value(tensor.device())}, {&made, 1});
  return recorder_.value_of(tensor);
}

int InnerRecorder::fresh_memory(const Tensor& tensor) {
  const BoxedOp& op = *find_boxed("empty_strided.default");
  const Value made = tensor;
  recorder_.add(op, {Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.dtype()), Value(tensor.device())},
                {&made, 1});
  return recorder_.value_of(tensor);
}

}  // namespace facula
