#include "region/instance.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"

namespace facula {
namespace {

/// A value that has become a stream is made by no step.
bool is_needed(const GroupStep& step, const std::vector<GroupValue>& values, const std::vector<bool>& needed) {
  return std::any_of(step.out.begin(), step.out.begin() + step.outs,
                     [&](uint16_t v) { return needed[v] && values[v].kind == GroupValue::Kind::Result; });
}

}  // namespace

std::vector<bool> needed_values(const std::vector<GroupStep>& steps, const std::vector<GroupValue>& values,
                                std::vector<bool> needed) {
  for (size_t s = steps.size(); s-- > 0;) {
    if (!is_needed(steps[s], values, needed)) continue;
    for (int k = 0; k < steps[s].inputs; ++k) needed[steps[s].in[k]] = true;
  }
  return needed;
}

bool Instance::is_open() const { return open_ && steps_.size() < kMostSteps && streams_ <= kMostStreams - kMaxInputs; }

/// Without a lock: a storage that another thread gives its bytes meanwhile is one of an instance that takes no steps.
int Instance::result_of(const TensorImpl* tensor) const {
  if (!(tensor->flags & kDeferred) || tensor->storage->context != static_cast<const Recipe*>(this)) return -1;
  size_t which = outs_.size();  // the last one first: others at this address have died
  while (which > 0 && outs_[which - 1].storage != tensor->storage) --which;
  if (which == 0) return -1;
  const Result& r = outs_[--which];
  const bool whole = tensor->sizes() == IntList(r.sizes) && tensor->strides() == IntList(r.strides) &&
                     tensor->dtype == values_[r.value].dtype && tensor->data == kNowhere;
  return whole ? static_cast<int>(which) : -1;
}

int Instance::value_of(const TensorImpl* tensor, IntList sizes, IntList strides) const {
  if (!(tensor->flags & kDeferred) || tensor->data != kNowhere || sizes.size() > sizes_.size()) return -1;
  if (tensor->storage->context != static_cast<const Recipe*>(this)) return -1;
  size_t which = outs_.size();
  while (which > 0 && outs_[which - 1].storage != tensor->storage) --which;
  if (which == 0) return -1;
  const uint16_t value = outs_[which - 1].value;
  const GroupValue& v = values_[value];
  const bool whole = sizes == IntList(sizes_);
  if (v.dtype != tensor->dtype || v.of_all || (!whole && !v.per_row)) return -1;
  Dims expected = !v.per_row ? strides_ : contiguous_strides(whole ? IntList(keepdim_sizes()) : sizes);
  if (v.per_row && whole) expected.back() = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1 && strides[d] != expected[d]) return -1;
  return value;
}

bool Instance::reads(const Storage* storage) const {
  std::lock_guard guard(lock_);
  const auto is_it = [&](const Tensor& t) { return t.defined() && t.storage() == storage; };
  return std::ranges::any_of(inputs_, is_it) || std::ranges::any_of(others_, is_it);
}

bool Instance::can_look_at_rows() const {
  constexpr int64_t kLongest = 16384;
  return !folds_ && !sizes_.empty() && sizes_.back() > 1 && sizes_.back() <= kLongest && is_contiguous();
}

Dims Instance::keepdim_sizes() const {
  Dims sizes(sizes_);
  sizes.back() = 1;
  return sizes;
}

/// `strides` are of the tensor seen as the space, in elements.
uint16_t Instance::stream_of(const Tensor& tensor, Dims strides, bool per_row) {
  for (int64_t& s : strides) s = wrapping_mul(s, tensor.item_size());
  if (strides.size() < sizes_.size()) strides.push_back(0);  // one element for each row, without their dimension
  for (size_t i = 0; i < values_.size(); ++i) {
    const bool same = inputs_[i].defined() && inputs_[i].impl()->data == tensor.impl()->data &&
                      values_[i].dtype == tensor.dtype() && values_[i].strides == strides &&
                      values_[i].per_row == per_row;
    if (same) return static_cast<uint16_t>(i);
  }
  GroupValue& v = values_.emplace_back();
  v.kind = GroupValue::Kind::Stream;
  v.dtype = tensor.dtype();
  v.strides = std::move(strides);
  v.per_row = per_row;
  inputs_.push_back(alias(tensor));  // whatever becomes of the program's tensor
  ++streams_;
  return static_cast<uint16_t>(values_.size() - 1);
}

uint16_t Instance::result_value(DType dtype, bool per_row) {
  GroupValue& v = values_.emplace_back();
  v.kind = GroupValue::Kind::Result;
  v.dtype = dtype;
  v.per_row = per_row;
  inputs_.emplace_back();
  return static_cast<uint16_t>(values_.size() - 1);
}

uint16_t Instance::number_of(DType compute, const Scalar& number) {
  GroupValue v;
  v.kind = GroupValue::Kind::Number;
  v.dtype = compute;
  ops::store_number(compute, number, v.number);
  values_.push_back(v);
  inputs_.emplace_back();
  return static_cast<uint16_t>(values_.size() - 1);
}

/// The numbers in tensors of the CPU that stand beside tensors of another device.
std::array<Scalar, kMaxInputs> Instance::numbers_beside(const ElementCall& call) const {
  std::array<Scalar, kMaxInputs> numbers;
  for (size_t i = 0; i < static_cast<size_t>(call.inputs); ++i)
    if (is_elsewhere(call.input[i])) numbers[i] = call.input[i].tensor().item();
  return numbers;
}

/// A step of the call's loop, with the lock held; the value that it makes. `numbers` are those of numbers_beside().
uint16_t Instance::add_loop(const ElementCall& call, DType result, const std::array<Scalar, kMaxInputs>& numbers) {
  const ops::ElementwiseShape& shape = call.derived;
  const DType compute = compute_dtype(shape.common);
  const bool per_row = shape.sizes != sizes_;
  GroupStep step;
  step.per_row = per_row;
  step.loop = call.op->loop;
  step.compute = compute;
  step.loop_result = ops::loop_result(*call.op, compute);
  step.inputs = static_cast<uint8_t>(call.inputs);
  for (int i = 0; i < call.params; ++i) ops::store_number(compute, call.param[i], step.params + i * item_size(compute));
  for (size_t i = 0; i < static_cast<size_t>(call.inputs); ++i) {
    const Operand& input = call.input[i];
    if (call.waiting[i] >= 0) step.in[i] = static_cast<uint16_t>(call.waiting[i]);
    else if (!input.is_tensor()) step.in[i] = number_of(compute, input.scalar());
    else if (!is_elsewhere(input)) step.in[i] = stream_of(input.tensor(), shape.strides[i + 1], per_row);
    else step.in[i] = number_of(compute, numbers[i]);
  }
  step.out[0] = result_value(result, per_row);
  steps_.push_back(step);
  return step.out[0];
}

bool Instance::add_step(const ElementCall& call, const RecordedPlace& place, std::optional<size_t> into) {
  std::array<Scalar, kMaxInputs> numbers;
  if (!stream.device.is_cpu()) numbers = numbers_beside(call);
  std::lock_guard guard(lock_);
  if (!open_) return false;
  const ops::ElementwiseShape& shape = call.derived;
  const uint16_t value = add_loop(call, shape.result, numbers);
  const Dims& strides = shape.strides[0];
  if (into) outs_[*into] = {value, place, shape.sizes, strides, outs_[*into].storage};
  else outs_.push_back({value, place, shape.sizes, strides});
  return true;
}

void Instance::read_inputs_late(const ElementCall& call) {
  for (int i = 0; i < call.inputs; ++i) {
    const TensorImpl* t = call.input[static_cast<size_t>(i)].impl();
    if (t && !(t->flags & kDeferred) && !is_elsewhere(call.input[static_cast<size_t>(i)])) read_late(t->storage);
  }
}

bool Instance::add(const ElementCall& call, const RecordedPlace& place, Tensor& result) {
  if (!add_step(call, place, std::nullopt)) return false;
  const ops::ElementwiseShape& shape = call.derived;
  result = defer(Ref<Recipe>::share(this), shape.sizes, shape.strides[0], shape.result, shape.device);
  outs_.back().storage = result.storage();
  read_inputs_late(call);
  check_taken(call);
  return true;
}

bool Instance::add_write(const ElementCall& call, const RecordedPlace& place, size_t into) {
  if (!add_step(call, place, into)) return false;
  read_inputs_late(call);
  check_taken(call);
  return true;
}

/// The weight and the bias of a norm as inputs of the step.
void Instance::name_factors(GroupStep& step, const std::vector<Tensor>& factors) {
  Dims row(sizes_.size());  // strides of one row for all
  row.back() = 1;
  step.has_weight = factors[0].defined();
  step.has_bias = factors[1].defined();
  for (const Tensor& t : factors)
    if (t.defined()) step.in[step.inputs++] = stream_of(t, row, false);
}

bool Instance::add_rows(const RowCall& call, const RecordedPlace& place, List<ResultSlot> results, int waiting) {
  const Tensor& self = *call.self;
  {
    std::lock_guard guard(lock_);
    if (!open_) return false;
    row_ = sizes_.back();
    GroupStep step;
    step.rows = call.function;
    step.work = call.work;
    step.divisor = call.divisor;
    step.center = call.center;
    step.inputs = 1;
    step.in[0] = waiting >= 0 ? static_cast<uint16_t>(waiting) : stream_of(self, Dims(self.strides()), false);
    if (call.work == RowWork::Norm && !stream.device.is_cpu()) name_factors(step, call.others);
    step.outs = static_cast<uint8_t>(call.results.size());
    for (size_t k = 0; k < call.results.size(); ++k) {
      const RowCall::Result& r = call.results[k];
      step.out[k] = result_value(r.dtype, r.per_row);
      outs_.push_back({step.out[k], place, r.sizes, contiguous_strides(r.sizes)});
    }
    steps_.push_back(std::move(step));
    for (const Tensor& t : call.others)
      if (t.defined()) others_.push_back(alias(t));
  }
  const size_t first = outs_.size() - call.results.size();
  for (size_t k = 0; k < call.results.size(); ++k) {
    const RowCall::Result& r = call.results[k];
    Tensor& result = results[k].as<Tensor>();
    result = defer(Ref<Recipe>::share(this), r.sizes, contiguous_strides(r.sizes), r.dtype, stream.device);
    outs_[first + k].storage = result.storage();
  }
  ElementCall read;  // as if it were an op on elements
  read.inputs = 1;
  read.input[0] = Operand(self);
  read.waiting[0] = waiting;
  read_inputs_late(read);
  check_taken(read);
  for (const Tensor& t : call.others)
    if (t.defined()) read_late(t.storage());
  return true;
}

int64_t Instance::held_bytes() const {
  int64_t held = 0;
  std::lock_guard guard(lock_);
  for (const Tensor& t : inputs_)
    if (t.defined() && t.storage()->refs.load() == 1) held += static_cast<int64_t>(t.storage()->nbytes);
  return held;
}

/// The results that a run writes. What nobody has wanted so far stays without bytes, as long as that holds no more
/// memory than it saves, and does not read memory that `changes`.
std::vector<size_t> Instance::choose_written(size_t which, const Tensor* changes) const {
  std::vector<size_t> written, left;
  int64_t saved = 0;
  const std::vector<bool> spoiled = changes ? readers_of(*changes) : std::vector<bool>();
  for (size_t r = 0; r < outs_.size(); ++r) {
    if (!is_wanted(r)) continue;
    RecordedOp& op = outs_[r].place.op();
    const bool all = (runs_ > 1 || ends_) && !learned(outs_[r].for_tape);
    const bool late = runs_ > 1 && (r == which || (ends_ && all));
    if (late && !learned(outs_[r].made_by_chance)) learn(op.wanted, true);
    const bool now = r == which || learned(op.wanted) || all || (changes && spoiled[outs_[r].value]);
    (now ? written : left).push_back(r);
    if (!now) saved += op.bytes;
  }
  if (held_bytes() > saved) written.insert(written.end(), left.begin(), left.end());
  return written;
}

/// The steps that make the values needed, and the values that these need; addresses are those of the inputs now.
Group Instance::part_for(std::vector<bool> needed, std::vector<uint16_t>& number) const {
  Group group;
  needed = needed_values(steps_, values_, needed);
  for (const GroupStep& step : steps_) {
    if (!is_needed(step, values_, needed)) continue;
    for (size_t k = 0; k < step.outs; ++k) needed[step.out[k]] = true;
    if (step.rows) group.row = row_;
  }
  number.assign(values_.size(), 0);
  group.values.reserve(values_.size());
  group.steps.reserve(steps_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!needed[i]) continue;
    number[i] = static_cast<uint16_t>(group.values.size());
    group.values.push_back(values_[i]);
    if (inputs_[i].defined()) group.values.back().data = inputs_[i].impl()->data;
  }
  for (const GroupStep& step : steps_) {
    if (!is_needed(step, values_, needed)) continue;
    GroupStep& copy = group.steps.emplace_back(step);
    for (size_t k = 0; k < step.outs; ++k) copy.out[k] = number[step.out[k]];
    for (int k = 0; k < step.inputs; ++k) copy.in[static_cast<size_t>(k)] = number[step.in[static_cast<size_t>(k)]];
  }
  return group;
}

void Instance::make(size_t which) {
  {
    std::lock_guard guard(lock_);
    open_ = false;  // from here on nothing but inputs_ changes, and that only here
    ++runs_;
  }
  const std::vector<size_t> written = choose_written(which);
  if (!written.empty()) run(written, nullptr);
}

void Instance::run(const std::vector<size_t>& written, const Target* target) {
  const std::vector<Tensor> held = inputs_;
  std::vector<uint16_t> number;
  std::vector<Tensor> bytes;
  std::vector<bool> needed(values_.size());
  for (const size_t r : written) needed[outs_[r].value] = true;
  if (target) needed[target->value] = true;
  Group group = part_for(std::move(needed), number);
  const OnStream there(stream);
  for (const size_t r : written) {
    GroupValue& v = group.values[number[outs_[r].value]];
    v.data = bytes.emplace_back(empty_strided(outs_[r].sizes, outs_[r].strides, v.dtype, stream.device)).impl()->data;
  }
  read_joined(group);
  if (target) place_target(group, number, *target);
  group.numel = numel();
  collapse(group, sizes_, order_);
  run_group(stream.device, group);
  const std::vector<bool> again = read_again(written);
  for (size_t k = 0; k < written.size(); ++k) {
    Result& r = outs_[written[k]];
    r.made = true;
    if (!target && may_be_let_go(r)) put_reclaimable(written[k], bytes[k]);
    else if (!again[k]) put(written[k], bytes[k]);
    else if (const Tensor shared = put_and_share(written[k], bytes[k]); shared.defined()) read_written(r.value, shared);
  }
  forget_unneeded_inputs();
}

/// Lets go of what no result reads that can be needed.
void Instance::forget_inputs(const std::vector<bool>& needed) {
  std::vector<Tensor> dying(values_.size()), others;  // they die without the lock, which some of them may want
  std::vector<Taken> taken;
  std::lock_guard guard(lock_);
  taken.swap(taken_);
  for (size_t i = 0; i < dying.size(); ++i)
    if (!needed[i]) dying[i] = std::move(inputs_[i]);
  if (std::ranges::none_of(needed, [](bool n) { return n; })) others.swap(others_);
}

Instance::Outcome Instance::finish() {
  constexpr uint8_t kOften = 2;
  Outcome o{runs_, static_cast<int64_t>(steps_.size())};
  const auto let_go = [](const Result& r) { return learned(r.for_tape); };
  const bool alone = steps_.size() == 1 && !lent_ && !values_[steps_[0].in[0]].joined && !outs_.empty();
  if (alone && std::ranges::none_of(outs_, let_go)) {  // nothing was gained
    RecordedOp& op = outs_[0].place.op();
    const auto times = static_cast<uint8_t>(learned(op.alone) + 1);
    learn(op.alone, times);
    if (times == kOften) learn(op.waits, false);
  }
  for (const Result& r : outs_) {
    if (r.made) continue;
    ++o.never_made;
    o.bytes_saved += r.place.op().bytes;
  }
  if (!stream.device.is_cpu()) o.not_moved = bytes_not_moved();
  return o;
}

/// What the ops alone would have read and written, less what one run reads and writes, in bytes.
int64_t Instance::bytes_not_moved() const {
  std::vector<int64_t> bytes(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].kind == GroupValue::Kind::Number) continue;
    bytes[i] = item_size(values_[i].dtype);
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (values_[i].kind != GroupValue::Kind::Stream || values_[i].strides[d] != 0) bytes[i] *= sizes_[d];
  }
  int64_t saved = 0;
  for (const GroupStep& step : steps_) {
    for (size_t k = 0; k < step.inputs; ++k) saved += bytes[step.in[k]];
    for (size_t k = 0; k < step.outs; ++k) saved += bytes[step.out[k]];
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].kind == GroupValue::Kind::Stream) saved -= runs_ * bytes[i];
  for (const Result& r : outs_)
    if (r.made) saved -= bytes[r.value];
  return saved;
}

}  // namespace facula
