#include "program/inner.h"

#include <algorithm>
#include <span>

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

/// The arguments of a call in the order of the op table, where out= tensors come first; calls have them last.
class TableArguments {
 public:
  TableArguments(const OpCall& call, size_t outs) : list_(call.arguments), outs_(outs) {}
  size_t size() const { return list_.size(); }
  const Argument& operator[](size_t i) const { return list_[(i + size() - outs_) % size()]; }

 private:
  const std::span<const Argument> list_;
  const size_t outs_;
};

/// `conj` of real numbers returns its argument.
bool returns_argument(const OpCall& call) {
  return call.op == op_id::conj && !call.arguments[0].as<Tensor>().is_complex();
}

/// Whether a tensor can be a Python number that an op was given in place of a tensor; no op makes these.
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

/// Nothing may be thrown through an op: what goes wrong is stored for finish().
template <class F>
void InnerRecorder::guarded(F f) {
  if (failure_) return;
  const Unwatched unseen;
  try {
    f();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void InnerRecorder::op_ends(const OpCall& call, bool failed) {
  if (call.form == OpForm::Composite || --depth_ > 0 || failed) return;
  guarded([&] { record(call); });
}

void InnerRecorder::elements_copied(const Tensor& to, const Tensor& from) {
  if (depth_ > 0) return;
  guarded([&] {
    static const BoxedOp& op = *find_boxed("copy_.default");
    running_ = &op;
    filled_ = to.impl();
    std::vector<Arg> arguments{recorder_.argument(to), recorder_.argument(from), Value(false)};
    const Value written = to;
    recorder_.add(op, std::move(arguments), {&written, 1});
  });
}

// A row has three parts: the op, its arguments, its results. The values of tensors are looked up before it begins:
// where one needs an op of its own (value_of_other), that row comes first.
void InnerRecorder::record(const OpCall& call) {
  const BoxedOp* op = find_boxed(call.op, call.form);
  FACULA_CHECK(op, ErrorKind::NotImplemented, "recorder: the table has no op ", call.info().name);
  if (returns_argument(call)) return;
  const TableArguments arguments(call, op->outs());
  FACULA_CHECK(arguments.size() == op->arguments.size(), ErrorKind::Runtime, "recorder: ", op->key(), " takes ",
               op->arguments.size(), " arguments, got ", arguments.size());
  running_ = op;
  const bool fills = op->fills && arguments[0].kind() == Kind::Tensor;
  filled_ = fills ? arguments[0].as<Tensor>().impl() : nullptr;
  found_.clear();
  next_found_ = 0;
  for (size_t i = 0; i < arguments.size(); ++i) find_values(arguments[i]);

  Trace& trace = recorder_.begin(*op);
  for (size_t i = 0; i < arguments.size(); ++i) put_argument(trace, arguments[i]);
  if (call.form == OpForm::Function) {
    for (const ResultSlot& slot : call.results) put_result(slot);
    return;
  }
  const size_t written = std::max<size_t>(op->outs(), 1);  // of in-place ops the first argument
  for (size_t i = 0; i < written; ++i) {
    const Tensor& result = arguments[i].as<Tensor>();
    materialize_layout(result);
    recorder_.result(result);
  }
}

void InnerRecorder::find_values(const Argument& argument) {
  if (argument.kind() == Kind::TensorList) {
    for (const Tensor& t : argument.as<TensorList>()) found_.push_back(t.defined() ? recorder_.value_of(t) : -1);
  } else {
    argument.each_tensor([&](const Tensor& t) { found_.push_back(recorder_.value_of(t)); });
  }
}

void InnerRecorder::put_argument(Trace& trace, const Argument& argument) {
  switch (argument.kind()) {
    case Kind::Tensor:
      if (argument.as<Tensor>().defined()) return trace.put_ref(found_[next_found_++]);
      return trace.put(Value());
    case Kind::TensorList: {
      const size_t count = argument.as<TensorList>().size();
      return trace.put_refs({found_.data() + std::exchange(next_found_, next_found_ + count), count});
    }
    case Kind::Operand:
      if (argument.as<Operand>().is_tensor()) return trace.put_ref(found_[next_found_++]);
      return trace.put(facula::value_of(argument));
    case Kind::IntList: return trace.put_ints(argument.as<IntList>());
    default: return trace.put(facula::value_of(argument));
  }
}

void InnerRecorder::put_result(const ResultSlot& slot) {
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
  const int base = recorder_.first_on_storage(tensor);
  if (base >= 0) return add_view(tensor, base);
  if (tensor.impl() == filled_) return add_memory(tensor);
  if (is_number(tensor)) return add_number(tensor);
  throw_error(ErrorKind::NotImplemented, "joint: ", running(), " was given a tensor ", TensorMeta::of(tensor).text(),
              " that no op of the program has made");
}

int InnerRecorder::add_view(const Tensor& tensor, int base) {
  const TraceValue& seen = recorder_.trace().values[static_cast<size_t>(base)];
  FACULA_CHECK(seen.dtype == tensor.dtype() && seen.offset == 0 && seen.contiguous, ErrorKind::NotImplemented,
               "joint: ", running(), " was given another view of the memory of ", recorder_.trace().meta(base).text(),
               ", got ", TensorMeta::of(tensor).text());
  const Value made = tensor;
  recorder_.add(*find_boxed("as_strided.default"),
                {Arg::of(base), Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.storage_offset())},
                {&made, 1});
  return recorder_.value_of(tensor);
}

int InnerRecorder::add_number(const Tensor& tensor) {
  const Value made = tensor;
  const std::vector<int64_t> none;
  recorder_.add(*find_boxed("full.default"),
                {Value(none), Value(tensor.item()), Value(tensor.dtype()), Value(tensor.device())}, {&made, 1});
  return recorder_.value_of(tensor);
}

int InnerRecorder::add_memory(const Tensor& tensor) {
  const BoxedOp& op = *find_boxed("empty_strided.default");
  const Value made = tensor;
  recorder_.add(op, {Value(tensor.sizes()), Value(tensor.strides()), Value(tensor.dtype()), Value(tensor.device())},
                {&made, 1});
  return recorder_.value_of(tensor);
}

}  // namespace facula
