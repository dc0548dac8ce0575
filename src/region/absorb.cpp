// A value that waits in a group which takes no more steps is needed in another one: its steps are taken over, so that
// it is computed again, block by block, and never written. That is what becomes of the values that a tape holds when a
// backward pass reads them.
//
// The other group's inputs must not have changed between its steps and those of this one. They do not while the value
// waits (core/recipe.h), and when this group is among those that wait, it would wait for itself. So what is taken over
// counts if the value waits still when the step that reads it has been added (check_taken()).
#include <algorithm>

#include "core/checked.h"
#include "ops/kernel_table.h"
#include "region/instance.h"

namespace facula {
namespace {

constexpr int kMostAgain = 12;                 // that are computed again in the place of a value
constexpr int kAlwaysCheap = 3;                // as many are by every group that reads it
constexpr int64_t kLarge = int64_t{32} << 20;  // bytes of a value, from which on memory takes longer than any loop
constexpr uint16_t kNone = UINT16_MAX;

bool is_dear(const GroupStep& step) { return !step.copies && !(light_loops && light_loops[step.loop]); }

}  // namespace

/// What a value of another instance is made of.
struct Instance::Cone {
  std::vector<bool> needed;  // by value; what was taken over before is not followed further
  size_t steps = 0, streams = 0;
  std::vector<uint16_t> dear;  // values of loops that take longer than memory
};

std::vector<uint16_t>& Instance::taken_from(Instance& from) {
  for (Taken& t : taken_)
    if (t.from.get() == &from) return t.here;
  return taken_.emplace_back(Taken{Ref<Instance>::share(&from), std::vector<uint16_t>(from.values_.size(), kNone)})
      .here;
}

std::optional<Instance::Cone> Instance::cone_of(const Instance& from, uint16_t value,
                                                const std::vector<uint16_t>& here) {
  Cone cone;
  cone.needed.resize(from.values_.size());
  cone.needed[value] = true;
  for (size_t s = from.steps_.size(); s-- > 0;) {
    const GroupStep& step = from.steps_[s];
    const uint16_t out = step.out[0];
    if (step.rows || step.fold || step.per_row) {
      const auto end = step.out.begin() + step.outs;
      if (std::any_of(step.out.begin(), end, [&](uint16_t v) { return cone.needed[v]; })) return std::nullopt;
      continue;
    }
    if (!cone.needed[out] || here[out] != kNone || !from.is_made_by_step(out)) continue;
    ++cone.steps;
    if (is_dear(step)) cone.dear.push_back(out);
    for (int k = 0; k < step.inputs; ++k) cone.needed[step.in[static_cast<size_t>(k)]] = true;
  }
  for (size_t v = 0; v < cone.needed.size(); ++v) {
    if (!cone.needed[v] || here[v] != kNone) continue;
    const GroupValue& known = from.values_[v];
    const bool stream = known.kind == GroupValue::Kind::Stream;
    if (known.per_row || known.of_all || known.joined || (stream && !from.inputs_[v].defined())) return std::nullopt;
    cone.streams += stream;
  }
  return cone;
}

/// An input of another instance, as one of this.
uint16_t Instance::stream_like(const GroupValue& stream, const Tensor& tensor) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const bool same = inputs_[i].defined() && inputs_[i].impl()->data == tensor.impl()->data && !values_[i].per_row &&
                      values_[i].dtype == stream.dtype && values_[i].strides == stream.strides;
    if (same) return static_cast<uint16_t>(i);
  }
  values_.push_back(stream);
  inputs_.push_back(tensor);
  ++streams_;
  return static_cast<uint16_t>(values_.size() - 1);
}

void Instance::take(const Instance& from, const Cone& cone, std::vector<uint16_t>& here) {
  for (size_t v = 0; v < cone.needed.size(); ++v) {
    if (!cone.needed[v] || here[v] != kNone) continue;
    const GroupValue& known = from.values_[v];
    if (known.kind == GroupValue::Kind::Stream) {
      here[v] = stream_like(known, from.inputs_[v]);
    } else {
      here[v] = static_cast<uint16_t>(values_.size());
      values_.push_back(known);
      inputs_.emplace_back();
    }
  }
  std::vector<bool> made(values_.size());  // by steps that are here already
  for (const GroupStep& step : steps_)
    for (size_t k = 0; k < step.outs; ++k) made[step.out[k]] = true;
  for (const GroupStep& step : from.steps_) {
    const uint16_t out = step.out[0];
    if (!cone.needed[out] || step.rows || step.fold || !from.is_made_by_step(out) || made[here[out]]) continue;
    GroupStep& copy = steps_.emplace_back(step);
    copy.out[0] = here[out];
    for (int k = 0; k < step.inputs; ++k) copy.in[static_cast<size_t>(k)] = here[step.in[static_cast<size_t>(k)]];
  }
}

/// Whether computing again takes less time than writing and reading.
bool Instance::is_worth_taking(const Instance& from, const Result& result, const Cone& cone) const {
  const bool again = result.taken_by && result.taken_by != this;
  if (cone.steps > static_cast<size_t>(again ? kAlwaysCheap : kMostAgain)) return false;
  return cone.dear.empty() || from.result_bytes(result) >= kLarge;
}

/// Where a value is not worth it because of loops whose results are alive, these are written from the next call on, so
/// that it is computed of them.
void Instance::write_dear(Result& result, const std::vector<uint16_t>& dear) {
  for (size_t r = 0; r < outs_.size(); ++r) {
    const uint16_t value = outs_[r].value;
    if (value == result.value || std::ranges::find(dear, value) == dear.end() || !is_wanted(r)) continue;
    learn(outs_[r].place.op().wanted, true);
    learn(result.made_by_chance, true);
  }
}

int Instance::absorb(const TensorImpl* tensor) {
  size_t which = 0;
  const Ref<Recipe> recipe = recipe_of(Tensor::share(const_cast<TensorImpl*>(tensor)), which);
  auto* from = dynamic_cast<Instance*>(recipe.get());
  const bool here = stream.device.is_cpu() && from && from->stream.device.is_cpu();  // others: not tried
  if (!here || from == this || from->sizes_ != sizes_ || from->strides_ != strides_) return -1;
  const int result = from->result_of(tensor);
  if (result < 0) return -1;
  std::optional<Cone> cone;
  const int value = absorb_result(*from, from->outs_[static_cast<size_t>(result)], cone);
  if (value < 0 && cone) from->write_dear(from->outs_[static_cast<size_t>(result)], cone->dear);
  return value;
}

int Instance::absorb_result(Instance& from, Result& result, std::optional<Cone>& cone) {
  std::scoped_lock guard(lock_, from.lock_);
  if (!open_ || from.open_) return -1;
  std::vector<uint16_t>& here = taken_from(from);
  if (here[result.value] != kNone) return here[result.value];
  cone = cone_of(from, result.value, here);
  if (!cone || !is_worth_taking(from, result, *cone)) return -1;
  constexpr size_t kRoom = 4;  // for steps that read it
  if (steps_.size() + cone->steps + kRoom > kMostSteps ||
      streams_ + static_cast<int64_t>(cone->streams) > kMostStreams - kMaxInputs)
    return -1;
  take(from, *cone, here);
  result.taken_by = this;
  return here[result.value];
}

/// Called when the step has its result, so that this instance is one that waits: whoever writes to an input from now on
/// runs it. If that happened before, the value has its bytes, and they are read.
void Instance::check_taken(const ElementCall& call) {
  for (size_t k = 0; k < static_cast<size_t>(call.inputs); ++k) {
    const TensorImpl* t = call.input[k].impl();
    if (!t || call.waiting[k] < 0 || t->storage->context == static_cast<const Recipe*>(this)) continue;
    std::vector<Tensor> inputs;
    {
      std::lock_guard guard(lock_);
      inputs = inputs_;
    }
    for (const Tensor& input : inputs)
      if (input.defined()) read_late(input.storage());
    size_t which = 0;
    const Tensor now = Tensor::share(const_cast<TensorImpl*>(t));
    if (!recipe_of(now, which)) read_instead(static_cast<uint16_t>(call.waiting[k]), now);
  }
}

/// The value is a tensor that has its bytes now.
void Instance::read_instead(uint16_t value, const Tensor& tensor) {
  std::vector<Taken> dying;  // without the lock
  read_written(value, alias(tensor));
  std::lock_guard guard(lock_);
  dying.swap(taken_);
}

void Instance::read_written(uint16_t value, const Tensor& tensor) {
  {
    std::lock_guard guard(lock_);
    GroupValue& v = values_[value];  // the step that made it is of no use from now on
    v.kind = GroupValue::Kind::Stream;
    v.strides = Dims(tensor.strides());
    for (int64_t& s : v.strides) s = wrapping_mul(s, tensor.item_size());
    inputs_[value] = tensor;
    ++streams_;
  }
  read_late(tensor.storage());
}

/// Which of the results that a run has written are read when those that it leaves, or that are let go, are made later.
std::vector<bool> Instance::read_again(const std::vector<size_t>& written) const {
  std::vector<bool> needed(values_.size()), again(written.size()), alone(values_.size());
  for (size_t r = 0; r < outs_.size(); ++r) {
    const bool now = std::ranges::find(written, r) != written.end();
    if (now ? may_be_let_go(outs_[r]) : is_wanted(r)) needed[outs_[r].value] = true;
  }
  needed = needed_values(steps_, values_, needed);
  for (const GroupStep& step : steps_)
    if (step.outs == 1) alone[step.out[0]] = true;
  for (size_t k = 0; k < written.size(); ++k) {
    const Result& r = outs_[written[k]];
    const GroupValue& v = values_[r.value];
    again[k] = needed[r.value] && alone[r.value] && !v.per_row && !v.of_all && !may_be_let_go(r);
  }
  return again;
}

void Instance::will_be_read(const TensorImpl* tensor) {
  const int result = result_of(tensor);
  if (result >= 0) learn(outs_[static_cast<size_t>(result)].read_at_once, true);
}

}  // namespace facula
