#include "program/inner.h"

#include <algorithm>

#include "autograd/function_support.h"

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

Value value_of(const ResultSlot& slot) {
  switch (slot.kind()) {
    case ResultSlot::Kind::Tensor: return slot.as<Tensor>();
    case ResultSlot::Kind::TensorList: return slot.as<std::vector<Tensor>>();
    case ResultSlot::Kind::Bool: return slot.as<bool>();
    case ResultSlot::Kind::Int: return slot.as<int64_t>();
    case ResultSlot::Kind::Float: return slot.as<double>();
    default: return Value(slot.as<Scalar>());
  }
}

/// Which elements of which memory a tensor shows, and as what.
std::vector<int64_t> memory_of(const Tensor& t) {
  std::vector<int64_t> key{static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.storage())), t.storage_offset(),
                           static_cast<int64_t>(t.dtype()), t.is_conj()};
  for (const IntList list : {t.sizes(), t.strides()}) key.insert(key.end(), list.begin(), list.end());
  return key;
}

/// What a number becomes where an op wants a tensor; no op makes these.
bool is_number(const Tensor& t) {
  constexpr DType kOfNumbers[] = {DType::Float64, DType::Int64, DType::Complex128, DType::Bool};
  return t.dim() == 0 && !t.is_meta() &&
         std::find(std::begin(kOfNumbers), std::end(kOfNumbers), t.dtype()) != std::end(kOfNumbers);
}

/// Ops that write all elements of their first argument, whatever they were.
bool fills(const BoxedOp& op) {
  constexpr std::string_view kFilling[] = {"fill_", "zero_", "copy_", "eye", "arange"};
  const bool known = std::find(std::begin(kFilling), std::end(kFilling), op.name) != std::end(kFilling);
  return op.form == OpForm::Out || (op.form == OpForm::InPlace && (op.draws || known));
}

}  // namespace

Value value_of(const Argument& argument) {
  const Conversion& c = conversions[static_cast<size_t>(argument.kind())];
  FACULA_CHECK(c.kind == argument.kind(), ErrorKind::Runtime, "recorder: the table of arguments is out of order, got ",
               static_cast<int>(argument.kind()));
  return c.convert(argument);
}

InnerRecorder::InnerRecorder(Recorder& recorder) : recorder_(recorder), copies_before_(watch_copies(this)) {
  recorder_.each_known([&](const Tensor& tensor, int value) { remember(tensor, value); });
  recorder_.find_same = [this](const Tensor& tensor) { return same_memory(tensor); };
  recorder_.find_other = [this](const Tensor& tensor) { return view_of_known(tensor); };
  recorder_.on_known = [this](const Tensor& tensor, int value) { remember(tensor, value); };
  add_observer(this, Watched::ThisThread);
}

InnerRecorder::~InnerRecorder() {
  remove_observer(this, Watched::ThisThread);
  watch_copies(copies_before_);
  recorder_.find_same = nullptr;
  recorder_.find_other = nullptr;
  recorder_.on_known = nullptr;
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
    const BoxedOp& op = *find_boxed("copy_.default");
    running_ = op.key();
    filled_ = to.impl();
    std::vector<Arg> arguments{recorder_.argument(to), recorder_.argument(from), Value(false)};
    const Value written = to;
    recorder_.add(op, std::move(arguments), {&written, 1});
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void InnerRecorder::record(const OpCall& call) {
  const BoxedOp* op = find_boxed(call.op, call.form);
  FACULA_CHECK(op, ErrorKind::NotImplemented, "recorder: the table has no op ", call.info().name);
  running_ = op->key();
  const bool idle = op->name == "conj" && !call.arguments[0].as<Tensor>().is_complex();  // the same memory
  if (idle) return;
  const size_t outs = op->outs(), given = call.arguments.size();
  FACULA_CHECK(given == op->arguments.size(), ErrorKind::Runtime, "recorder: ", running_, " takes ",
               op->arguments.size(), " arguments, got ", given);
  std::vector<Value> values;  // as the table has them: out= tensors first
  for (size_t i = 0; i < given; ++i) values.push_back(value_of(call.arguments[(i + given - outs) % given]));
  filled_ = fills(*op) && values[0].is_tensor() ? values[0].tensor_impl() : nullptr;
  std::vector<Arg> arguments;
  for (const Value& v : values) arguments.push_back(recorder_.argument(v));
  std::vector<Value> results;
  if (call.form == OpForm::Function) {
    for (const ResultSlot& slot : call.results) results.push_back(value_of(slot));
  } else {
    results.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(outs, 1)));
  }
  for (const Value& v : results) {
    if (v.is_tensor()) materialize_layout(v.tensor());
    if (v.kind() == Value::Kind::Tensors) materialize_layout(TensorList(v.tensors()));
  }
  recorder_.add(*op, std::move(arguments), results);
}

void InnerRecorder::remember(const Tensor& tensor, int value) {
  if (is_batched(tensor)) return;
  const Tensor held = alias(tensor);
  by_memory_[memory_of(tensor)] = {value, held};
  whole_.try_emplace(tensor.storage(), value, held);
}

int InnerRecorder::same_memory(const Tensor& tensor) const {
  const auto found = by_memory_.find(memory_of(tensor));
  return found == by_memory_.end() ? -1 : found->second.first;
}

int InnerRecorder::view_of_known(const Tensor& tensor) {
  const auto found = whole_.find(tensor.storage());
  if (found == whole_.end() && tensor.impl() == filled_) return fresh_memory(tensor);
  if (found == whole_.end() && is_number(tensor)) return number(tensor);
  FACULA_CHECK(found != whole_.end(), ErrorKind::NotImplemented, "joint: ", running_, " was given a tensor ",
               TensorMeta::of(tensor).text(), " that no op of the program has made");
  const auto& [value, base] = found->second;
  FACULA_CHECK(base.dtype() == tensor.dtype() && base.storage_offset() == 0 && base.is_contiguous(),
               ErrorKind::NotImplemented, "joint: ", running_, " was given another view of the memory of ",
               TensorMeta::of(base).text(), ", got ", TensorMeta::of(tensor).text());
  const Value made = tensor;
  recorder_.add(*find_boxed("as_strided.default"),
                {Arg::of(value), Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.storage_offset())},
                {&made, 1});
  return same_memory(tensor);
}

int InnerRecorder::number(const Tensor& tensor) {
  const Value made = tensor;
  const std::vector<int64_t> none;
  recorder_.add(*find_boxed("full.default"),
                {Value(none), Value(tensor.item()), Value(tensor.dtype()), Value(tensor.device())}, {&made, 1});
  return same_memory(tensor);
}

int InnerRecorder::fresh_memory(const Tensor& tensor) {
  const BoxedOp& op = *find_boxed("empty_strided.default");
  const Value made = tensor;
  recorder_.add(op, {Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.dtype()), Value(tensor.device())},
                {&made, 1});
  return same_memory(tensor);
}

}  // namespace facula
