#include "region/stretch_open.h"

#include <algorithm>

#include "core/backend.h"
#include "core/kernel.h"
#include "core/storage.h"
#include "ops/group.h"
#include "program/inner.h"

namespace facula {
namespace {

constexpr int kUnknown = -2;       // a tensor that cannot be an operand of what waits
constexpr size_t kMostCodes = 16;  // of one end, for other results that are alive

/// Whether a value stands for the number: there are none for integers beyond those of int64.
bool stands_for(const Argument& a) {
  const auto fits = [](const Scalar& s) { return !s.is_integral() || s.dtype() == DType::Int64; };
  switch (a.kind()) {
    case Argument::Kind::Scalar: return fits(a.as<Scalar>());
    case Argument::Kind::OptScalar: return fits(a.as<std::optional<Scalar>>().value_or(Scalar()));
    case Argument::Kind::Operand: return a.as<Operand>().is_tensor() || fits(a.as<Operand>().scalar());
    case Argument::Kind::Generator: return a.as<Generator*>() == nullptr;
    default: return true;
  }
}

/// Whether nobody else holds the bytes of a fresh tensor, which fill its storage.
bool owns_storage(const Tensor& t) {
  const Extent extent = byte_extent(t);
  const Storage* s = t.storage();
  return t.impl()->refs.load() == 1 && s->refs.load() == 1 && t.impl()->data == s->data && extent.low == 0 &&
         static_cast<int64_t>(s->nbytes) == extent.high && can_be_read_late(s);
}

/// What the program sees of a fresh result.
TensorForm promised(const Tensor& t) {
  TensorForm form = TensorForm::of(t);
  if (t.flags() & kPrivateLayout) form.strides = contiguous_strides(t.sizes());
  return form;
}

/// Norms of channels keep running statistics in training, which their row does not say.
bool writes_now(const StretchOp& op) {
  if (op.row->name != "_channel_norm") return false;
  return op.arguments[3].tensors[0] >= 0 && op.arguments[5].number.to_bool();
}

std::vector<Tensor> call_row(const char* key, std::vector<Value> arguments) {
  const BoxedOp& op = *find_boxed(key);
  std::vector<const Value*> given;
  for (const Value& v : arguments) given.push_back(&v);
  std::vector<Value> made(op.results.size());
  op.call(given.data(), made.data());
  std::vector<Tensor> tensors;
  for (const Value& v : made) tensors.push_back(v.tensor());
  return tensors;
}

/// The tensor on memory of its own, with the strides of `form`.
Tensor copied(const Tensor& t, const TensorForm& form) {
  const Tensor fresh = call_row("empty_strided.default", {Value(IntList(form.sizes)), Value(IntList(form.strides)),
                                                          Value(form.dtype), Value(form.device)})[0];
  call_row("copy_.default", {Value(fresh), Value(t), Value(false)});
  return fresh;
}

/// The tensor on a copy of the memory that it shows, gaps and shared places included.
Tensor copied_places(const Tensor& t) {
  const int64_t places = byte_extent(t).high / static_cast<int64_t>(t.item_size());
  const Tensor flat = tensor_on_storage(t.storage(), t.dtype(), t.storage_offset(), {places}, {1}, "stretch");
  const Tensor fresh = call_row("clone.default", {Value(flat), Value()})[0];
  Tensor made = tensor_on_storage(fresh.storage(), t.dtype(), 0, t.sizes(), t.strides(), "stretch");
  made.impl()->flags |= t.flags() & kConjugate;
  return made;
}

Tensor without_elements(const TensorForm& form) {
  return call_row("empty_strided.default",
                  {Value(IntList(form.sizes)), Value(IntList(form.strides)), Value(form.dtype), Value(form.device)})[0];
}

/// A tensor of the same form that has no elements in memory.
Tensor without_values(const Tensor& t) {
  Tensor made = call_row("empty_strided.default",
                         {Value(t.sizes()), Value(t.strides()), Value(t.dtype()), Value(Device(DeviceType::Meta))})[0];
  made.impl()->flags |= t.flags() & kConjugate;
  return made;
}

}  // namespace

Stretch::Stretch(StretchRun& run, std::shared_ptr<StretchTree> tree)
    : run_(&run), tree_(std::move(tree)), at_(&tree_->root) {}

bool Stretch::is_open() const {
  const std::lock_guard guard(lock_);
  return open_;
}

bool Stretch::has_room(size_t ways) const {
  const std::lock_guard guard(tree_->lock);
  return at_->next.size() < ways;
}

// ---- reading a call

int Stretch::number_of_waiting(const Tensor& t, int result) const {
  const TensorForm form = TensorForm::of(t);
  const int64_t offset = t.storage_offset();
  for (size_t i = values_.size(); i-- > 0;) {
    const Known& v = values_[i];
    if (v.result == result && v.offset == offset && v.form == form) return static_cast<int>(i);
  }
  return kUnknown;
}

/// Whether the tensor lies where the others do; the first one says where.
bool Stretch::takes(const Tensor& t) {
  if (!t.is_cpu() && !t.device().is_cuda()) return false;
  if (values_.empty() && fresh_.empty()) stream_ = current_stream(t.device());
  return stream_.device == t.device() && (t.is_cpu() || stream_ == current_stream(t.device()));
}

int Stretch::number_of(const Tensor& t, StretchOp& op) {
  if (!t.defined()) return -1;
  if ((t.flags() & (kBatched | kPythonDispatch | kSparse)) || !takes(t)) return kUnknown;
  if (t.flags() & kDeferred) {
    size_t which = 0;
    const Ref<Recipe> behind = recipe_of(t, which);
    if (behind.get() == this) return number_of_waiting(t, static_cast<int>(which));
    materialize_bytes(t);
  }
  materialize_layout(t);
  const bool late = can_be_read_late(t.storage());
  if ((!late || !tree_->shows_inputs) && op.kind != StretchOp::Kind::Computes) return kUnknown;
  const TensorForm form = TensorForm::of(t);
  const auto is_it = [&](const Tensor& known) {
    return known.storage() == t.storage() && known.impl()->data == t.impl()->data && TensorForm::of(known) == form;
  };
  if (late) {
    const auto [begin, end] = by_place_.equal_range(t.impl()->data);
    for (auto i = begin; i != end; ++i)
      if (is_it(values_[static_cast<size_t>(i->second)].real)) return i->second;
    for (size_t i = 0; i < fresh_.size(); ++i)
      if (is_it(fresh_[i].first)) return op.first + static_cast<int>(i);
  }
  const BareThread bare;
  Tensor kept = late ? alias(t) : copied_places(t);  // who writes to it uncounted would not be noticed
  if (TensorForm::of(kept) != form) return kUnknown;
  // Who asks whether a tensor is held by nobody else, as the engine does of gradients, does not ask it of parameters.
  const Tensor original = (t.flags() & kRequiresGrad) ? t : kept;
  fresh_.emplace_back(std::move(kept), original);
  op.inputs.push_back(form);
  return op.first + static_cast<int>(op.inputs.size()) - 1;
}

void Stretch::forget_call() {
  fresh_.clear();
  made_.clear();
  ran_ = false;
}

bool Stretch::read(const OpCall& call, StretchOp& op) {
  forget_call();
  op.first = static_cast<int>(values_.size());
  op.arguments.reserve(call.arguments.size());
  for (const Argument& a : call.arguments) {
    StretchArgument& read = op.arguments.emplace_back();
    if (!stands_for(a)) return false;
    read.is_list = a.kind() == Argument::Kind::TensorList;
    read.has_tensors = read.is_list || a.kind() == Argument::Kind::Tensor ||
                       (a.kind() == Argument::Kind::Operand && a.as<Operand>().is_tensor());
    if (read.is_list) {
      for (const Tensor& t : a.as<TensorList>()) read.tensors.push_back(number_of(t, op));
    } else if (read.has_tensors) {
      const bool operand = a.kind() == Argument::Kind::Operand;
      read.tensors.push_back(number_of(operand ? Tensor(a.as<Operand>().tensor()) : a.as<Tensor>(), op));
    } else {
      read.number = value_of(a);
    }
    if (std::ranges::find(read.tensors, kUnknown) != read.tensors.end()) return false;
    const BoxedType& type = op.row->arguments[op.arguments.size() - 1].type;
    if (read.has_tensors && !read.is_list && read.tensors[0] < 0 && !type.optional) return false;  // of a formula
  }
  if (op.kind != StretchOp::Kind::Writes) return !writes_now(op);
  const StretchArgument& into = op.arguments[0];
  if (!into.has_tensors || into.is_list || into.tensors[0] < 0 || into.tensors[0] >= op.first) return false;
  const Tensor& self = call.arguments[0].as<Tensor>();
  return values_[static_cast<size_t>(into.tensors[0])].result >= 0 && !(self.flags() & kInference) &&
         self.storage()->asks == 0;
}

StretchNode* Stretch::find(const StretchOp& op) const {
  const std::lock_guard guard(tree_->lock);
  for (const auto& node : at_->next)
    if (node->op.is_same_call(op)) return node.get();
  return nullptr;
}

// ---- recording

/// What a value will be.
Tensor Stretch::expected(int number) const {
  const Known& v = values_[static_cast<size_t>(number)];
  if (v.result < 0) return v.real;
  const Tensor& base = expected_[static_cast<size_t>(v.result)];
  if (v.offset == 0 && v.form == values_[static_cast<size_t>(result_values_[static_cast<size_t>(v.result)])].form)
    return base;
  materialize_layout(base);
  Tensor seen = tensor_on_storage(base.storage(), v.form.dtype, v.offset, v.form.sizes, v.form.strides, "stretch");
  if (v.form.conjugate) seen.impl()->flags |= kConjugate;
  return seen;
}

/// From here on it is known what values will be.
void Stretch::expect() {
  if (expects_) return;
  std::vector<int> numbers = wanted();
  const StretchProgram so_far = program(numbers);
  std::vector<Tensor> made = so_far.run(values(so_far.inputs));
  const std::lock_guard guard(lock_);
  expected_.resize(result_values_.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    expected_[static_cast<size_t>(values_[static_cast<size_t>(numbers[i])].result)] = std::move(made[i]);
  expects_ = true;
}

/// Whether what an op gave can wait. What has no elements need not: it is made at the call.
bool Stretch::fits(const StretchOp& op, const std::vector<Tensor>& made) const {
  if (op.kind == StretchOp::Kind::Writes) return true;
  return std::ranges::all_of(made, [this](const Tensor& t) {
    if (!t.defined()) return true;
    const bool plain = !(t.flags() & (kConjugate | kSparse | kDeferred)) && t.device() == stream_.device;
    return plain && (t.numel() == 0 || ((t.flags() & (kDense | kContiguous)) && owns_storage(t)));
  });
}

/// What an operand of the op that is read will be.
Tensor Stretch::operand(const StretchOp& op, int number) const {
  return number >= op.first ? fresh_[static_cast<size_t>(number - op.first)].first : expected(number);
}

/// Whether sizes and types of what the op gives do not depend on values: tensors without any give the same.
bool Stretch::is_same_on_meta(const StretchOp& op) const {
  if (op.kind != StretchOp::Kind::Computes) return true;
  const auto reads = [](const StretchArgument& a) { return a.has_tensors; };
  if (std::ranges::none_of(op.arguments, reads)) return true;
  std::vector<Tensor> made;
  try {
    made = run_op(op, [&](int number) { return without_values(operand(op, number)); });
  } catch (const Error&) {
    return false;
  }
  return std::ranges::equal(made, made_, [](const Tensor& a, const Tensor& b) {
    return a.defined() == b.defined() && (!a.defined() || (a.sizes() == b.sizes() && a.dtype() == b.dtype()));
  });
}

void Stretch::run_expected(const StretchOp& op) {
  made_ = run_op(op, [&](int number) { return operand(op, number); });
  ran_ = true;
}

StretchNode* Stretch::record(StretchOp op) {
  if (op.kind != StretchOp::Kind::Views) {
    const BareThread bare;
    expect();
    try {
      run_expected(op);
    } catch (const Error&) {  // the op itself says what is wrong
      return nullptr;
    }
    if (!fits(op, made_) || !is_same_on_meta(op)) op.kind = StretchOp::Kind::RunsAtOnce;
    if (op.kind == StretchOp::Kind::Computes)
      for (const Tensor& t : made_) op.results.push_back(t.defined() ? std::optional(promised(t)) : std::nullopt);
  }
  recorded_ = true;
  const std::lock_guard guard(tree_->lock);
  StretchNode* node = at_->next.emplace_back(std::make_unique<StretchNode>()).get();
  node->op = std::move(op);
  node->before = at_;
  return node;
}

// ---- waiting

void Stretch::take_inputs(const StretchOp& op) {
  for (auto& [kept, original] : fresh_) {
    if (can_be_read_late(original.storage())) by_place_.emplace(kept.impl()->data, static_cast<int>(values_.size()));
    Known& v = values_.emplace_back();
    v.form = op.inputs[values_.size() - 1 - static_cast<size_t>(op.first)];
    v.real = std::move(kept);
    v.original = std::move(original);
  }
  fresh_.clear();
}

void Stretch::read_operands_late(const StretchOp& op) {
  const auto watch = [this](int number) {
    if (number < 0) return;
    Known& v = values_[static_cast<size_t>(number)];
    if (v.result >= 0) return;
    Storage* s = v.real.storage();
    if (!std::exchange(v.is_read, true)) {
      const std::lock_guard guard(reads_lock_);
      reads_.push_back(s);
    }
    read_late(s);  // once more: it is forgotten where nothing waits
  };
  for (const StretchArgument& a : op.arguments) std::ranges::for_each(a.tensors, watch);
}

bool Stretch::put_off(StretchNode& node, const OpCall& call) {
  const StretchOp& op = node.op;
  if (expects_ && !ran_) {
    const BareThread bare;
    run_expected(op);
  }
  const Ref<Recipe> self = Ref<Recipe>::share(this);
  {
    const std::lock_guard guard(lock_);
    if (!open_) return false;
    take_inputs(op);
    at_ = &node;
    for (size_t i = 0; i < op.results.size(); ++i) {
      Known& v = values_.emplace_back();
      if (!op.results[i]) continue;
      v.form = *op.results[i];
      if (std::ranges::find(v.form.sizes, 0) != v.form.sizes.end()) {
        call.results[i].as<Tensor>() = without_elements(v.form);
        continue;
      }
      v.result = static_cast<int>(result_values_.size());
      result_values_.push_back(static_cast<int>(values_.size()) - 1);
      if (expects_) expected_.push_back(made_[i]);
      call.results[i].as<Tensor>() = defer(self, v.form.sizes, v.form.strides, v.form.dtype, v.form.device);
    }
  }
  made_.clear();
  read_operands_late(op);
  return true;
}

void Stretch::show(StretchNode& node, const OpCall& call) {
  std::vector<Tensor> made;
  for (const ResultSlot& slot : call.results) {
    if (slot.kind() == ResultSlot::Kind::Tensor) made.push_back(slot.as<Tensor>());
    if (slot.kind() != ResultSlot::Kind::TensorList) continue;
    const auto& list = slot.as<std::vector<Tensor>>();
    made.insert(made.end(), list.begin(), list.end());
  }
  {
    const std::lock_guard guard(tree_->lock);
    node.op.views = static_cast<int>(made.size());
  }
  const std::lock_guard guard(lock_);
  take_inputs(node.op);
  at_ = &node;
  for (const Tensor& t : made) {
    Known& v = values_.emplace_back();
    v.form = TensorForm::of(t);
    size_t which = 0;
    if ((t.flags() & kDeferred) && recipe_of(t, which).get() == this) {
      v.result = static_cast<int>(which);
      v.offset = t.storage_offset();
    } else {
      v.real = alias(t);
      by_place_.emplace(t.impl()->data, static_cast<int>(values_.size()) - 1);
    }
  }
}

bool Stretch::reads(const Storage* storage) const {
  const std::lock_guard guard(reads_lock_);
  return std::ranges::find(reads_, storage) != reads_.end();
}

void Stretch::dropped(size_t which) noexcept {
  Tensor dead;
  const std::lock_guard guard(lock_);
  if (which < expected_.size()) std::swap(dead, expected_[which]);
}

// ---- making

std::vector<int> Stretch::wanted() const {
  std::vector<int> numbers;
  for (size_t k = 0; k < result_values_.size(); ++k)
    if (is_wanted(k)) numbers.push_back(result_values_[k]);
  return numbers;
}

std::vector<Tensor> Stretch::values(const std::vector<int>& numbers) const {
  std::vector<Tensor> found;
  for (const int number : numbers) found.push_back(values_[static_cast<size_t>(number)].real);
  return found;
}

/// The ops so far that these results need.
StretchProgram Stretch::program(std::vector<int> results) const {
  StretchProgram made;
  for (const StretchNode* node = at_; node->before; node = node->before) made.ops.push_back(&node->op);
  std::vector<int> base(values_.size());  // of views: on whose memory they are
  for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<int>(i);
  for (auto op = made.ops.rbegin(); op != made.ops.rend(); ++op)
    if ((*op)->kind == StretchOp::Kind::Views)
      for (int k = 0; k < (*op)->views; ++k)
        base[static_cast<size_t>((*op)->first_result() + k)] =
            base[static_cast<size_t>((*op)->arguments[0].tensors[0])];
  std::vector<bool> value(base.size()), memory(base.size());
  const auto need = [&](int number) {
    if (number >= 0)
      value[static_cast<size_t>(number)] = memory[static_cast<size_t>(base[static_cast<size_t>(number)])] = true;
  };
  std::ranges::for_each(results, need);
  const auto is_needed = [&](const StretchOp& op) {
    if (op.kind == StretchOp::Kind::Writes)
      return bool(memory[static_cast<size_t>(base[static_cast<size_t>(op.arguments[0].tensors[0])])]);
    for (int i = op.first_result(); i < op.end(); ++i)
      if (op.kind == StretchOp::Kind::Views ? value[static_cast<size_t>(i)] : memory[static_cast<size_t>(i)])
        return true;
    return false;
  };
  std::erase_if(made.ops, [&](const StretchOp* op) {  // the last one first
    if (!is_needed(*op)) return true;
    for (const StretchArgument& a : op->arguments) std::ranges::for_each(a.tensors, need);
    return false;
  });
  std::ranges::reverse(made.ops);
  for (size_t i = 0; i < values_.size(); ++i)
    if (value[i] && values_[i].original.defined()) made.inputs.push_back(static_cast<int>(i));
  made.tree = tree_;
  made.records_gradients = gradients_;
  made.results = std::move(results);
  made.values = static_cast<int>(values_.size());
  return made;
}

StretchCode Stretch::compile(const std::vector<int>& wanted) {
  const StretchProgram made = program(wanted);
  std::vector<Tensor> originals;  // as the program has them
  for (const int number : made.inputs) {
    const Known& v = values_[static_cast<size_t>(number)];
    const bool same = v.original.storage() == v.real.storage() && TensorForm::of(v.original) == v.form;
    originals.push_back(same ? v.original : v.real);
  }
  StretchCode code{made.inputs, wanted, 0};
  code.code = tree_->host->compile(made, originals, values(made.inputs));
  const std::lock_guard guard(tree_->lock);
  at_->codes.push_back(code);
  return code;
}

/// Code that computes at least these results; made now where that is allowed.
std::optional<StretchCode> Stretch::code_for(const std::vector<int>& wanted) {
  size_t codes = 0;
  {
    const std::lock_guard guard(tree_->lock);
    for (const StretchCode& code : at_->codes)
      if (std::ranges::includes(code.results, wanted)) return code;
    codes = at_->codes.size();
  }
  const bool here = run_ && thread_ == std::this_thread::get_id() && !raised_;
  if (!here || codes >= kMostCodes || !run_->ask()) return std::nullopt;
  recorded_ = true;
  return compile(wanted);
}

void Stretch::make(size_t) {
  {
    const std::lock_guard guard(lock_);
    open_ = false;
  }
  const OnStream there(stream_);
  const bool seen = are_ops_seen();  // the ops of a backend's code are not the program's
  const BareThread bare;
  const std::vector<int> numbers = wanted();
  if (!seen && !std::exchange(failed_, true)) {
    if (const std::optional<StretchCode> code = code_for(numbers)) {
      give(code->results, tree_->host->run(code->code, values(code->inputs), code->results.size()));
      failed_ = false;
      return forget();
    }
  }
  const StretchProgram made = program(numbers);
  give(numbers, made.run(values(made.inputs)));
  forget();
}

/// Everything is made: nothing that was read is held any more.
void Stretch::forget() {
  if (thread_ != std::this_thread::get_id()) return;  // which may be reading a call
  std::vector<Known> values;
  std::vector<Tensor> expected;
  const std::lock_guard guard(lock_);
  values.swap(values_);
  expected.swap(expected_);
  by_place_.clear();
}

/// Puts results into their places. They are what the ops would give, in form.
void Stretch::give(const std::vector<int>& numbers, std::vector<Tensor> made) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Known& v = values_[static_cast<size_t>(numbers[i])];
    if (!is_wanted(static_cast<size_t>(v.result))) continue;
    Tensor t = std::exchange(made[i], Tensor());
    FACULA_CHECK(t.defined() && t.dtype() == v.form.dtype && t.sizes() == IntList(v.form.sizes), ErrorKind::Runtime,
                 tree_->host->name(), ": expected result ", i, " to be what the program gives, dtype ",
                 name(v.form.dtype), " and shape ", IntList(v.form.sizes), ", got ",
                 t.defined() ? name(t.dtype()) : "none", " and shape ", t.defined() ? t.sizes() : IntList());
    materialize(t);
    const bool fits = t.strides() == IntList(v.form.strides) && !(t.flags() & kConjugate) && owns_storage(t);
    put(static_cast<size_t>(v.result), fits ? t : copied(t, v.form));
  }
}

void Stretch::end(bool raised) {
  raised_ = raised;
  make_wanted();
}

}  // namespace facula
