// What instances begin and end with besides loops: joined tensors, casts, folds of all elements, and writes to memory
// that exists.
#include <algorithm>

#include "core/checked.h"
#include "region/instance.h"

namespace facula {
namespace {

/// Whether the two may share a byte.
bool may_meet(const Tensor& a, const Tensor& b) {
  if (!share_bytes(a.storage(), b.storage())) return false;
  const Extent x = byte_extent(a), y = byte_extent(b);
  return a.impl()->data + x.low < b.impl()->data + y.high && b.impl()->data + y.low < a.impl()->data + x.high;
}

Dims bytes_of(Dims strides, int64_t item) {
  for (int64_t& s : strides) s = wrapping_mul(s, item);
  return strides;
}

Dims innermost_first(size_t ndim) {
  Dims order;
  for (size_t d = ndim; d-- > 0;) order.push_back(static_cast<int64_t>(d));
  return order;
}

}  // namespace

/// The tensor that waits for the result added last.
Tensor Instance::promise(uint16_t value, const Dims& sizes, const Dims& strides) {
  Tensor result = defer(Ref<Recipe>::share(this), sizes, strides, values_[value].dtype);
  outs_.back().storage = result.storage();
  return result;
}

bool Instance::add_cast(const ElementCall& call, DType dtype, const RecordedPlace& place, Tensor& result) {
  const Tensor& self = call.input[0].tensor();
  const bool waits = call.waiting[0] >= 0;
  GroupStep step;
  {
    std::lock_guard guard(lock_);
    if (!open_) return false;
    step.copies = true;
    step.inputs = 1;
    step.in[0] = waits ? static_cast<uint16_t>(call.waiting[0]) : stream_of(self, call.derived.strides[1], false);
    step.per_row = values_[step.in[0]].per_row;
    step.out[0] = result_value(dtype, step.per_row);
    steps_.push_back(step);
    outs_.push_back({step.out[0], place, call.derived.sizes, call.derived.strides[0]});
  }
  result = promise(step.out[0], call.derived.sizes, call.derived.strides[0]);
  if (!waits) read_late(self.storage());
  check_taken(call);
  return true;
}

bool Instance::add_fold(int value, const FoldKernel& fold, double divisor, const RecordedPlace& place, Tensor& result) {
  GroupStep step;
  {
    std::lock_guard guard(lock_);
    if (!open_) return false;
    folds_ = true;
    step.fold = &fold;
    step.divisor = divisor;
    step.inputs = 1;
    step.in[0] = static_cast<uint16_t>(value);
    step.out[0] = result_value(values_[step.in[0]].dtype, false);
    values_.back().of_all = true;
    steps_.push_back(step);
    outs_.push_back({step.out[0], place, {}, {}});
  }
  result = promise(step.out[0], {}, {});
  return true;
}

// ---- joined tensors

/// What makes a value, as a group of its own; false where that is not cheap, or the instance takes no steps any more.
bool Instance::part_of(uint16_t value, Joined::Part& part, std::vector<Tensor>& inputs) const {
  constexpr size_t kMostSteps = 6;
  std::lock_guard guard(lock_);
  if (!open_) return false;
  std::vector<bool> needed(values_.size());
  needed[value] = true;
  std::vector<uint16_t> number;
  Group group = part_for(needed, number);
  if (group.steps.size() > kMostSteps) return false;
  for (const GroupStep& step : group.steps)
    if (step.rows || step.fold || step.per_row || (!step.copies && !light_loops[step.loop])) return false;
  for (const GroupValue& v : group.values)
    if (v.joined || v.per_row) return false;
  group.numel = numel();
  collapse(group, sizes_, order_);
  for (size_t i = 0; i < values_.size(); ++i)
    if (inputs_[i].defined() && group.values[number[i]].data == inputs_[i].impl()->data) inputs.push_back(inputs_[i]);
  part.group = std::move(group);
  part.value = number[value];
  lent_ = true;
  return true;
}

/// A part that waits and is cheap, or has its bytes.
void Instance::read_part(const Tensor& t, Joined::Part& part, std::vector<Tensor>& inputs) {
  size_t which = 0;
  if (const Ref<Recipe> behind = recipe_of(t, which)) {
    const auto* other = dynamic_cast<const Instance*>(behind.get());
    const int value = other && other->is_contiguous() ? other->value_of(t.impl(), t.sizes(), t.strides()) : -1;
    if (value >= 0 && other->part_of(static_cast<uint16_t>(value), part, inputs)) return;
    materialize(t);
  }
  GroupValue& v = part.group.values.emplace_back();
  v.dtype = t.dtype();
  v.data = t.impl()->data;
  v.strides = bytes_of(Dims(t.strides()), t.item_size());
  part.group.numel = t.numel();
  collapse(part.group, t.sizes(), innermost_first(t.sizes().size()));
  inputs.push_back(alias(t));
}

bool Instance::add_join(const JoinCall& call, const RecordedPlace& place, Tensor& result) {
  auto joined = std::make_shared<Joined>();
  std::vector<Tensor> inputs;
  joined->parts.resize(call.parts.size());
  for (size_t p = 0; p < call.parts.size(); ++p) {
    joined->parts[p].length = call.lengths[p] * call.inner;
    joined->length += joined->parts[p].length;
    read_part(call.parts[p], joined->parts[p], inputs);
  }
  GroupStep step;
  {
    std::lock_guard guard(lock_);
    if (!open_) return false;  // a part that was made before needed this one
    GroupValue& v = values_.emplace_back();
    v.kind = GroupValue::Kind::Joined;
    v.dtype = call.parts[0].dtype();
    v.joined = std::move(joined);
    inputs_.emplace_back();
    step.copies = true;
    step.inputs = 1;
    step.in[0] = static_cast<uint16_t>(values_.size() - 1);
    step.out[0] = result_value(call.parts[0].dtype(), false);
    steps_.push_back(step);
    outs_.push_back({step.out[0], place, call.sizes, strides_});
    streams_ += static_cast<int64_t>(inputs.size());
    others_.insert(others_.end(), inputs.begin(), inputs.end());
  }
  result = promise(step.out[0], call.sizes, strides_);
  for (const Tensor& t : inputs) read_late(t.storage());
  return true;
}

/// Has steps read joined values themselves, where their result is not written.
void Instance::read_joined(Group& group) {
  for (size_t s = 0; s < group.steps.size();) {
    const GroupStep step = group.steps[s];
    const GroupValue &from = group.values[step.in[0]], &to = group.values[step.out[0]];
    const bool is_read = step.copies && from.kind == GroupValue::Kind::Joined && from.dtype == to.dtype && !to.data &&
                         s + 1 < group.steps.size() && std::ranges::none_of(group.steps, [&](const GroupStep& other) {
                           return other.fold && other.in[0] == step.out[0];
                         });
    if (!is_read) {
      ++s;
      continue;
    }
    group.steps.erase(group.steps.begin() + static_cast<std::ptrdiff_t>(s));
    for (GroupStep& later : group.steps)
      for (size_t k = 0; k < later.inputs; ++k)
        if (later.in[k] == step.out[0]) later.in[k] = step.in[0];
  }
}

// ---- writes to memory that exists

/// The values that are made of what memory holds now.
std::vector<bool> Instance::readers_of(const Tensor& memory) const {
  std::vector<bool> reads(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) reads[i] = inputs_[i].defined() && may_meet(inputs_[i], memory);
  for (const GroupStep& step : steps_)
    for (int k = 0; k < step.inputs; ++k)
      for (size_t o = 0; o < step.outs; ++o)
        if (reads[step.in[static_cast<size_t>(k)]]) reads[step.out[o]] = true;
  return reads;
}

/// Whether every stream either does not meet the memory, or has each element where its new value goes.
bool Instance::can_write_to(const Tensor& into) const {
  const Dims strides = bytes_of(Dims(into.strides()), into.item_size());
  const auto meets = [&](const Tensor& t) { return t.defined() && may_meet(t, into); };
  if (std::ranges::any_of(others_, meets)) return false;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!meets(inputs_[i])) continue;
    const GroupValue& v = values_[i];
    if (v.per_row || v.dtype != into.dtype() || inputs_[i].impl()->data != into.impl()->data) return false;
    for (size_t d = 0; d < sizes_.size(); ++d)
      if (sizes_[d] != 1 && v.strides[d] != strides[d]) return false;
  }
  return true;
}

/// Has the last step of the run write to memory. A copy is not made where the step before can write there itself.
void Instance::place_target(Group& group, const std::vector<uint16_t>& number, const Target& target) const {
  uint16_t value = number[target.value];
  const GroupStep& last = group.steps.back();
  const bool alone =
      std::ranges::none_of(inputs_, [&](const Tensor& t) { return t.defined() && may_meet(t, target.into); });
  if (last.copies && last.out[0] == value && alone) {
    const GroupValue& source = group.values[last.in[0]];
    const bool is_folded =
        std::ranges::any_of(group.steps, [&](const GroupStep& s) { return s.fold && s.in[0] == last.in[0]; });
    if (source.kind == GroupValue::Kind::Result && source.dtype == group.values[value].dtype && !source.data &&
        !source.per_row && !is_folded) {
      value = last.in[0];
      group.steps.pop_back();
    }
  }
  GroupValue& v = group.values[value];
  v.data = target.into.impl()->data;
  v.strides = bytes_of(Dims(target.into.strides()), target.into.item_size());
}

/// Runs with a step more, which `add` adds.
bool Instance::write_last(const Tensor& into, const std::function<uint16_t()>& add) {
  bool ran = false;
  run_alone([&] {
    Target target{0, into};
    {
      std::lock_guard guard(lock_);
      if (!open_) return;
      target.value = add();
      open_ = false;
      ++runs_;
    }
    run(choose_written(outs_.size(), &into), &target);
    ran = true;
  });
  return ran;
}

bool Instance::write(const ElementCall& call, const Tensor& into) {
  for (size_t i = 0; i < static_cast<size_t>(call.inputs); ++i) {  // those that no step has read so far
    if (call.waiting[i] >= 0 || !call.input[i].is_tensor() || !may_meet(call.input[i].tensor(), into)) continue;
    const TensorImpl* t = call.input[i].impl();
    if (t->data != into.impl()->data || t->dtype != into.dtype() || t->sizes() != into.sizes() ||
        t->strides() != into.strides())
      return false;
  }
  return can_write_to(into) && write_last(into, [&] { return add_loop(call, into.dtype(), {}); });
}

bool Instance::write_value(int value, const Tensor& into) {
  if (values_[static_cast<size_t>(value)].per_row) return false;  // repeated along the rows
  return can_write_to(into) && write_last(into, [&] {
           GroupStep step;
           step.copies = true;
           step.inputs = 1;
           step.in[0] = static_cast<uint16_t>(value);
           step.out[0] = result_value(into.dtype(), false);
           steps_.push_back(step);
           return step.out[0];
         });
}

}  // namespace facula
