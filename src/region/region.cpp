#include "region/region.h"

#include <algorithm>

#include "core/host.h"
#include "core/region_copies.h"
#include "core/short_memory.h"
#include "observe/everything.h"
#include "observe/observer.h"
#include "op_ids_norm.h"
#include "op_ids_reduce.h"
#include "op_ids_softmax.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "region/region_ends.h"

namespace facula {
namespace {

constexpr int64_t kLeastElements = 8192;             // below, putting off costs as much as running
constexpr size_t kMostOpen = 4;                      // spaces of elements to which steps may come
constexpr size_t kMostWaiting = 64;                  // instances
constexpr size_t kOpsPerLook = 16;                   // at the memory that is held,
constexpr int64_t kBytesPerLook = int64_t{1} << 20;  // of results: or sooner

thread_local Region* region_here = nullptr;

/// Whether the sizes of results depend on values.
bool is_sized_by_values(const OpCall& call) {
  constexpr std::string_view kSized[] = {"nonzero", "masked_select", "bincount", "unique_consecutive", "_unique"};
  const std::string_view name = call.info().name;
  return std::ranges::find(kSized, name) != std::end(kSized);
}

int64_t bytes_of(const OpCall& call) {
  int64_t bytes = 0;
  for (const ResultSlot& slot : call.results) {
    if (slot.kind() != ResultSlot::Kind::Tensor || !slot.as<Tensor>().defined()) continue;
    bytes += slot.as<Tensor>().numel() * slot.as<Tensor>().item_size();
  }
  return bytes;
}

uint8_t tensors_in(const OpCall& call) {
  size_t count = 0;
  for (const Argument& a : call.arguments)
    if (a.kind() <= Argument::Kind::Operand) a.each_tensor([&](const Tensor&) { ++count; });
  return static_cast<uint8_t>(std::min<size_t>(count, 255));
}

/// Whether the call reads what waits, or many elements.
bool is_worth_it(const OpCall& call) {
  return std::ranges::any_of(call.arguments, [](const Argument& a) {
    if (a.kind() == Argument::Kind::TensorList) return (a.flags() & kDeferred) != 0;  // to be joined
    const TensorImpl* t = a.kind() == Argument::Kind::Tensor    ? a.as<Tensor>().impl()
                          : a.kind() == Argument::Kind::Operand ? a.as<Operand>().impl()
                                                                : nullptr;
    return t && ((t->flags & kDeferred) || t->numel >= kLeastElements);
  });
}

/// A number among the arguments; false for an argument of another kind.
bool number_in(const Argument& a, Scalar& number) {
  switch (a.kind()) {
    case Argument::Kind::Scalar: number = a.as<Scalar>(); return true;
    case Argument::Kind::Int: number = Scalar(a.as<int64_t>()); return true;
    case Argument::Kind::Float: number = Scalar(a.as<double>()); return true;
    case Argument::Kind::Bool: number = Scalar(a.as<bool>()); return true;
    default: return false;
  }
}

/// The one dimension that an argument names; none for several.
std::optional<int64_t> dimension_in(const Argument& a) {
  switch (a.kind()) {
    case Argument::Kind::Int: return a.as<int64_t>();
    case Argument::Kind::IntList: return a.as<IntList>().size() == 1 ? std::optional(a.as<IntList>()[0]) : std::nullopt;
    case Argument::Kind::OptIntList: {
      const auto& list = a.as<std::optional<IntList>>();
      return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

/// Whether an argument names the last dimension of a tensor.
bool is_last(const Argument& a, const Tensor& self) {
  const std::optional<int64_t> dim = dimension_in(a);
  return dim && self.dim() > 0 && (*dim == -1 || *dim == self.dim() - 1);
}

RowCall::Result of_rows(const Tensor& self, DType dtype, bool keepdim) {
  Dims sizes(self.sizes());
  if (keepdim) sizes.back() = 1;
  else sizes.pop_back();
  return {dtype, sizes, true};
}

// Ops on rows: each says whether a call is one that can be a step, and what the step does.

template <FoldKernel* kernel, RowWork work, bool mean>
bool read_fold(const OpCall& call, const Tensor& self, RowCall& r) {
  if (!is_last(call.arguments[1], self)) return false;
  for (size_t i = 3; i < call.arguments.size(); ++i)
    if (call.arguments[i].as<std::optional<DType>>().value_or(self.dtype()) != self.dtype()) return false;
  FoldArgs args{.compute = self.dtype()};
  if (mean) args.divisor = static_cast<double>(self.size(-1));
  r.work = work;
  r.divisor = args.divisor;
  r.function = std::make_shared<RowFunction>(
      [args](const Tensor& rows, const Tensor* const* results) { (*kernel)(rows.device(), *results[0], rows, args); });
  r.results.push_back(of_rows(self, self.dtype(), call.arguments[2].as<bool>()));
  return true;
}

template <PositionKernel* kernel, RowWork work>
bool read_extremum(const OpCall& call, const Tensor& self, RowCall& r) {
  if (!is_last(call.arguments[1], self)) return false;
  r.work = work;
  r.function = std::make_shared<RowFunction>([](const Tensor& rows, const Tensor* const* results) {
    (*kernel)(rows.device(), rows.dtype(), 1, rows, *results[0], *results[1]);
  });
  for (const DType dtype : {self.dtype(), DType::Int64})
    r.results.push_back(of_rows(self, dtype, call.arguments[2].as<bool>()));
  return true;
}

template <LineKernel* kernel, RowWork work>
bool read_line(const OpCall& call, const Tensor& self, RowCall& r) {
  if (!is_last(call.arguments[1], self)) return false;
  r.work = work;
  r.function = std::make_shared<RowFunction>([](const Tensor& rows, const Tensor* const* results) {
    (*kernel)(rows.device(), rows.dtype(), 1, rows, *results[0]);
  });
  r.results.push_back({self.dtype(), Dims(self.sizes()), false});
  return true;
}

/// Layer and RMS norms, whose rows are one group of channels without inner dimensions.
bool read_norm(const OpCall& call, const Tensor& self, RowCall& r) {
  const Tensor &weight = call.arguments[1].as<Tensor>(), &bias = call.arguments[2].as<Tensor>();
  const int64_t rows = call.arguments[3].as<int64_t>(), length = self.size(-1);
  if (call.arguments[4].as<int64_t>() != 1 || rows * length != self.numel()) return false;
  for (const Tensor* t : {&weight, &bias}) {
    const bool fits = !t->defined() || (t->dtype() == self.dtype() && t->is_contiguous() && t->numel() == length);
    if (!fits || (t->defined() && ((t->flags() & (kNotPutOff | kDeferred)) || !can_be_read_late(t->storage()))))
      return false;
  }
  const int64_t channels = call.arguments[5].as<int64_t>();
  if (channels != 0 && channels != length) return false;
  const double eps = call.arguments[6].as<double>();
  const bool center = call.arguments[7].as<bool>();
  const RowLayout layout{0, 1, channels, channels ? 1 : 0};
  r.work = channels == length ? RowWork::Norm : RowWork::Other;
  r.divisor = eps;
  r.center = center;
  r.others = {weight, bias};
  r.function = std::make_shared<RowFunction>(
      [=, w = weight.defined() ? alias(weight) : Tensor(), b = bias.defined() ? alias(bias) : Tensor()](
          const Tensor& block, const Tensor* const* results) {
        RowLayout here = layout;
        here.rows = block.size(0);
        row_norm_kernel(block.device(), *results[0], *results[1], *results[2], block, w, b, here, eps, center);
      });
  r.results.push_back({self.dtype(), Dims(self.sizes()), false});
  for (int k = 0; k < 2; ++k) r.results.push_back({self.dtype(), Dims{rows}, true});
  return true;
}

struct RowOp {
  uint16_t id;
  bool (*read)(const OpCall& call, const Tensor& self, RowCall& r);
};
const RowOp row_ops[] = {
    {op_id::sum_dim, read_fold<&sum_fold, RowWork::Sum, false>},
    {op_id::mean_dim, read_fold<&sum_fold, RowWork::Sum, true>},
    {op_id::amax, read_fold<&max_fold, RowWork::Max, false>},
    {op_id::amin, read_fold<&min_fold, RowWork::Min, false>},
    {op_id::max_dim, read_extremum<&argmax_kernel, RowWork::FirstMax>},
    {op_id::min_dim, read_extremum<&argmin_kernel, RowWork::FirstMin>},
    {op_id::_softmax, read_line<&softmax_kernel, RowWork::Softmax>},
    {op_id::_log_softmax, read_line<&log_softmax_kernel, RowWork::LogSoftmax>},
    {op_id::_row_norm, read_norm},
};
const RowOp* row_op(uint16_t id) {
  const auto found = std::ranges::find(row_ops, id, &RowOp::id);
  return found == std::end(row_ops) ? nullptr : found;
}

/// Reads the arguments of an op on the rows of a real tensor; false where it runs at once.
bool read_row_call(const OpCall& call, const RowOp& op, RowCall& r) {
  if (call.form != OpForm::Function) return false;
  const Tensor& self = call.arguments[0].as<Tensor>();
  const bool real = self.dtype() == DType::Float32 || self.dtype() == DType::Float64;
  r.self = &self;
  return real && self.dim() > 0 && op.read(call, self, r);
}

/// Sorts the arguments of an element-wise op; false where it runs at once.
bool read_call(const OpCall& call, ElementCall& e) {
  const OpSemantics& semantics = op_semantics(call.op);
  e.op = semantics.element;
  if (!e.op || (e.op->checks & (ops::kCheckDegree | ops::kCheckQuotient))) return false;
  for (const Argument& a : call.arguments) {
    const bool operand = a.kind() == Argument::Kind::Tensor || a.kind() == Argument::Kind::Operand;
    if (!operand) {
      if (e.params == kMaxParams || !number_in(a, e.param[static_cast<size_t>(e.params)])) return false;
      ++e.params;
      continue;
    }
    if (e.inputs == semantics.operands) return false;
    Operand& input = e.input[static_cast<size_t>(e.inputs++)];
    if (a.kind() == Argument::Kind::Operand) input = a.as<Operand>();
    else if (a.as<Tensor>().defined()) input = Operand(a.as<Tensor>());
    else return false;
    if (input.is_tensor() && !can_wait(input.impl())) return false;
  }
  return e.inputs == semantics.operands && (e.inputs > 1 || e.input[0].is_tensor());
}

/// Whether elements of these strides lie one after the other.
bool lie_in_order(IntList sizes, IntList strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0; expected *= sizes[d])
    if (sizes[d] != 1 && strides[d] != expected) return false;
  return true;
}

/// Whether the call computes one element for each row of the instance, and one of its operands waits there.
bool stands_for_rows(const Instance& instance, const ElementCall& call) {
  if (!instance.has_rows(call.derived.sizes) || !lie_in_order(call.derived.sizes, call.derived.strides[0]))
    return false;
  for (int i = 0; i < call.inputs; ++i) {
    const TensorImpl* t = call.input[static_cast<size_t>(i)].impl();
    if (t && instance.value_of(t, call.derived.sizes, call.derived.strides[static_cast<size_t>(i) + 1]) >= 0)
      return true;
  }
  return false;
}

}  // namespace

uint32_t (*line_of_program)() = nullptr;

Region* Region::current() { return region_here; }

Region::Region(Work& work, bool follows, uint16_t compiled)
    : outer_(region_here), outer_compiled_(thread_state.compiled), work_(work) {
  std::unique_lock guard(work.lock);
  follows_ = follows && !work.recordings.empty();
  records_ = !follows_;
  recording_ = follows_ ? work.recordings.front() : std::make_shared<Recording>();
  guard.unlock();
  region_here = this;
  thread_state.compiled = compiled;
  static const bool installed = [] {
    region_hooks.op_begins = [](const OpCall& call) { return region_here && region_here->op_begins(call); };
    region_hooks.op_ends = [](const OpCall& call, bool failed) {
      if (region_here) region_here->op_ends(call, failed);
    };
    region_hooks.value_needed = [](const char* what) {
      if (region_here) region_here->value_needed(what);
    };
    facula::copy_begins = [](const Tensor& self, const Tensor& source) {
      return region_here && region_here->copy_begins(self, source);
    };
    facula::let_go_of_waiting = [](Device device) {
      return region_here && device.is_cpu() ? region_here->let_go_of_waiting() : 0;
    };
    everything_waits = [] { return region_here && region_here->stretches; };
    return true;
  }();
  (void)installed;
  set_watch(kWatchRegion, true);
}

Region::~Region() {
  set_watch(kWatchRegion, false);
  region_here = outer_;
  thread_state.compiled = outer_compiled_;
}

bool Region::op_begins(const OpCall& call) {
  if (depth_++ > 0) return false;
  if (__builtin_expect(follows_ && is_memory_short(), 0)) follows_ = records_ = false;
  if (follows_ && !follow(call)) miss();
  if (records_) note(call);
  noted_ = cursor_++;
  if (stretches) return stretches->op_begins(call);
  if (!follows_) return false;
  RecordedOp& op = recording_->ops[noted_];
  learn(op.group, int16_t{-1});
  look_at_memory(op.bytes);
  if (learned(op.waits) && is_worth_it(call) && !are_ops_seen()) {
    adds_ = true;
    const bool waits = put_off(call);
    adds_ = false;
    if (waits) return true;
  }
  const OpWeight weight = op_semantics(call.op).weight;
  const bool dear = weight == OpWeight::Heavy || weight == OpWeight::Composite;
  if (dear && GradMode::enabled()) note_what_is_read(call);
  return false;
}

/// What waits and is read by an op that is dear may go back to its recipe afterwards, if only a tape holds it.
void Region::note_what_is_read(const OpCall& call) {
  for (const Argument& argument : call.arguments) {
    argument.each_tensor([&](const Tensor& t) {
      if (!t.defined() || !(t.flags() & kDeferred)) return;
      for (const Ref<Instance>& waiting : all_) waiting->will_be_read(t.impl());
    });
  }
}

void Region::op_ends(const OpCall& call, bool failed) {
  if (--depth_ > 0 || failed || !records_) return;
  if (stretches) stretches->op_ends(call);
  RecordedOp& op = recording_->ops[noted_];
  op.bytes = bytes_of(call);
  op.results = static_cast<uint8_t>(std::min<size_t>(call.results.size(), 255));
}

void Region::value_needed(const char* what) {
  if (!records_) return;
  std::string_view word = what;
  if (word.ends_with("()")) word.remove_suffix(2);
  const uint32_t place = line_of_program ? line_of_program() : 0;
  recording_->demands.push_back({std::string(word), recording_->ops.size(), place});
  if (on_value) on_value(recording_->demands.back());
  if (stretches) stretches->end();
}

bool Region::follow(const OpCall& call) {
  return (cursor_ < recording_->ops.size() && recording_->ops[cursor_].is(call)) || switch_recording(call);
}

/// Another recording that began in the same way and goes on with this op.
bool Region::switch_recording(const OpCall& call) {
  const std::vector<RecordedOp>& past = recording_->ops;
  std::lock_guard guard(work_.lock);
  for (const auto& other : work_.recordings) {
    const bool fits =
        other->ops.size() > cursor_ && other->ops[cursor_].is(call) &&
        std::equal(past.begin(), past.begin() + static_cast<std::ptrdiff_t>(cursor_), other->ops.begin(),
                   [](const RecordedOp& a, const RecordedOp& b) { return a.op == b.op && a.form == b.form; });
    if (!fits) continue;
    recording_ = other;
    return true;
  }
  return false;
}

/// No recording knows this way: the rest of the call runs eagerly, and the call is remembered.
void Region::miss() {
  auto fresh = std::make_shared<Recording>();
  fresh->ops.assign(recording_->ops.begin(), recording_->ops.begin() + static_cast<std::ptrdiff_t>(cursor_));
  follows_ = false;
  {
    std::lock_guard guard(work_.lock);
    ++work_.misses;
  }
  records_ = !on_miss || on_miss(context);
  if (records_) recording_ = std::move(fresh);
}

void Region::note(const OpCall& call) {
  RecordedOp& op = recording_->ops.emplace_back();
  op.op = call.op;
  op.form = call.form;
  op.waits = (op_semantics(call.op).element || row_op(call.op) || is_end_op(call.op)) && call.form != OpForm::Out;
  op.operands = tensors_in(call);
  if (work_.keeps_places && line_of_program) op.place = line_of_program();
  if (is_sized_by_values(call)) value_needed("nonzero");
}

/// The open instance for the space of the call, or whose rows its elements stand for; a new one where there is none.
Ref<Instance> Region::instance_for(const ElementCall& call) {
  for (const Ref<Instance>& open : open_)
    if ((open->has_space(call.derived) || stands_for_rows(*open, call)) && open->is_open()) return open;
  int64_t numel = 1;
  for (const int64_t size : call.derived.sizes) numel *= size;
  if (numel < kLeastElements) return {};
  std::erase_if(open_, [](const Ref<Instance>& i) { return !i->is_open(); });
  if (open_.size() == kMostOpen) open_.erase(open_.begin());
  if (all_.size() == kMostWaiting) {
    for (const Ref<Instance>& waiting : all_) finish(*waiting);
    all_.clear();
    open_.clear();
  }
  all_.push_back(Ref<Instance>::adopt(new Instance(call.derived, begun_++)));
  open_.push_back(all_.back());
  return all_.back();
}

/// From time to time: what waits does not keep much memory that the program has let go, what is of no use any more
/// keeps none, and what only a tape holds is let go. `bytes`: of the results of the op that begins.
void Region::look_at_memory(int64_t bytes) {
  unseen_bytes_ += bytes;
  if (noted_ % kOpsPerLook != 0 && unseen_bytes_ < kBytesPerLook) return;
  unseen_bytes_ = 0;
  std::erase_if(all_, [&](const Ref<Instance>& waiting) {
    counts_.bytes_let_go += waiting->let_go_of_saved();
    if (waiting->holds_too_much()) waiting->make_wanted();
    if (waiting->is_of_use()) return false;
    finish(*waiting);
    return true;
  });
}

/// For a memory budget, from inside an allocation.
size_t Region::let_go_of_waiting() {
  if (adds_) return 0;
  int64_t bytes = 0;
  for (const Ref<Instance>& waiting : all_)
    if (waiting) bytes += waiting->let_go_of_saved();
  counts_.bytes_let_go += bytes;
  return static_cast<size_t>(bytes);
}

bool Region::put_off(const OpCall& call) {
  if (const RowOp* rows = row_op(call.op)) {
    RowCall r;
    return read_row_call(call, *rows, r) && put_off_rows(call, r);
  }
  if (is_end_op(call.op)) return call.form == OpForm::Function && put_off_end(call);
  ElementCall e;
  if (!read_call(call, e)) return false;
  ops::derive_elementwise(*e.op, e.input.data(), e.inputs, e.param.data(), e.params, e.derived);
  if (!has_groups(e.derived.device)) return false;
  const RecordedPlace place{recording_, noted_};
  if (call.form == OpForm::InPlace) return put_off_write(e, place);
  ops::lay_out_result(e.input.data(), e.inputs, e.derived);
  for (;;) {
    const Ref<Instance> instance = join(e);
    if (!instance) return false;
    if (instance->add(e, place, call.results[0].as<Tensor>())) return is_in(*instance);
  }
}

/// Remembers the group that the op was put into.
bool Region::is_in(const Instance& instance) {
  learn(recording_->ops[noted_].group, instance.number);
  return true;
}

/// A reduction along rows begins or joins the group of the space that it reads.
bool Region::put_off_rows(const OpCall& call, const RowCall& r) {
  const Tensor& self = *r.self;
  if (!has_groups(self.device()) || !can_wait(self.impl()) || self.numel() < kLeastElements || !self.is_contiguous())
    return false;
  if (!self.device().is_cpu() && !can_take_rows(r.work, self.size(-1))) return false;
  ElementCall space;  // of an op with one operand
  space.inputs = 1;
  space.input[0] = Operand(self);
  space.derived.device = self.device();
  space.derived.sizes = Dims(self.sizes());
  space.derived.strides[0] = space.derived.strides[1] = Dims(self.strides());
  space.derived.order = dimension_order(self.sizes(), {space.derived.strides.data(), 1});
  for (;;) {
    const Ref<Instance> instance = join(space);
    if (!instance || !instance->can_look_at_rows()) return false;
    if (instance->add_rows(r, {recording_, noted_}, call.results, space.waiting[0])) return is_in(*instance);
  }
}

/// The instance that the call is added to; none where its elements are too few. Operands that wait in another one, or
/// show a part of a waiting result, are made first, which may run this instance: then there is a new one.
Ref<Instance> Region::join(ElementCall& e) {
  for (;;) {
    Ref<Instance> instance = instance_for(e);
    if (!instance) return instance;
    for (size_t i = 0; i < static_cast<size_t>(e.inputs); ++i) {
      TensorImpl* t = e.input[i].impl();
      e.waiting[i] = t ? instance->value_of(t, e.derived.sizes, e.derived.strides[i + 1]) : -1;
      if (!t || !(t->flags & kDeferred) || e.waiting[i] >= 0) continue;
      e.waiting[i] = instance->absorb(t);
      if (e.waiting[i] < 0) materialize(Tensor::share(t));
    }
    if (instance->is_open()) return instance;
  }
}

/// A write to a result that waits is one more step: whoever needs the result gets the new values.
bool Region::put_off_write(ElementCall& e, const RecordedPlace& place) {
  TensorImpl* self = e.input[0].impl();
  if (self && !(self->flags & kDeferred)) return write_real(e);
  if (!self || self->sizes() != IntList(e.derived.sizes) || self->dtype != e.derived.result ||
      self->storage->asks != 0 || (self->flags & kInference))
    return false;
  e.derived.strides[0] = Dims(self->strides());
  e.derived.order = dimension_order(e.derived.sizes, {e.derived.strides.data(), 1});
  const Ref<Instance> instance = join(e);
  const int result = instance ? instance->result_of(self) : -1;
  return result >= 0 && instance->add_write(e, place, static_cast<size_t>(result)) && is_in(*instance);
}

void Region::finish(Instance& instance) {
  counts_.bytes_let_go += instance.let_go_of_saved();
  instance.end(tape_may_wait);
  const Instance::Outcome outcome = instance.finish();
  counts_.groups += outcome.runs > 0;
  counts_.put_off += outcome.steps;
  counts_.never_made += outcome.never_made;
  counts_.bytes_saved += outcome.bytes_saved;
  if (instance.stream.device.is_cpu()) return;
  ++counts_.on_devices;
  counts_.not_moved += outcome.not_moved;
}

void Region::leave() {
  set_watch(kWatchRegion, false);
  for (const Ref<Instance>& waiting : all_) finish(*waiting);
  all_.clear();
  open_.clear();
  if (!follows_ && !records_) return;
  std::lock_guard guard(work_.lock);
  if (follows_) {
    ++recording_->followed;
    recording_->counts = counts_;
  }
  auto& list = work_.recordings;
  std::erase(list, recording_);
  list.insert(list.begin(), recording_);
  if (list.size() > work_.limit) list.pop_back();
}

}  // namespace facula
