#include "region/region_ends.h"

#include <algorithm>

#include "autograd/function_support.h"
#include "core/write.h"
#include "observe/observer.h"
#include "op_ids_create.h"
#include "op_ids_reduce.h"
#include "op_ids_split_join.h"
#include "region/region.h"

namespace facula {
namespace {

struct WholeFold {
  uint16_t id;
  const FoldKernel* fold;
  bool mean;
};
const WholeFold whole_folds[] = {
    {op_id::sum, &sum_fold, false},
    {op_id::mean, &sum_fold, true},
    {op_id::max, &max_fold, false},
    {op_id::min, &min_fold, false},
};
const WholeFold* whole_fold(uint16_t id) {
  const auto found = std::ranges::find(whole_folds, id, &WholeFold::id);
  return found == std::end(whole_folds) ? nullptr : found;
}

bool is_join(uint16_t id) { return id == op_id::cat || id == op_id::stack; }

/// Whether the memory of a tensor may be written now, by an op that would say so otherwise.
bool can_be_written(const TensorImpl* t) {
  if ((t->flags & (kNotPutOff | kDeferred)) || !t->storage->device.is_cpu() || t->storage->is_read_only()) return false;
  if ((t->flags & kInference) && !(thread_state.modes & kModeInference)) return false;
  for (int d = 0; d < t->ndim; ++d)
    if (t->sizes()[d] > 1 && t->strides()[d] == 0) return false;
  return true;
}

/// The parts of a call of cat or stack; false where it runs at once.
bool read_join(const OpCall& call, JoinCall& join) {
  if (call.arguments[0].kind() != Argument::Kind::TensorList) return false;
  const TensorList& parts = call.arguments[0].as<TensorList>();
  if (parts.empty()) return false;
  const bool stacks = call.op == op_id::stack;
  const int64_t ndim = parts[0].dim() + stacks;
  int64_t dim = call.arguments[1].as<int64_t>();
  if (dim < 0) dim += ndim;
  if (dim < 0 || dim >= ndim) return false;
  bool waits = false, contiguous = stacks || ndim < 4 || ndim > 5;
  for (const Tensor& t : parts) {
    const bool fits =
        can_wait(t.impl()) && t.is_cpu() && t.dtype() == parts[0].dtype() && t.dim() == parts[0].dim() && t.numel() > 0;
    if (!fits) return false;
    waits = waits || (t.flags() & kDeferred);
    contiguous = contiguous || (t.is_dense() && t.suggest_memory_format() == MemoryFormat::Contiguous);
    for (int64_t d = 0; d < t.dim(); ++d)
      if ((stacks || d != dim) && t.size(d) != parts[0].size(d)) return false;
    join.lengths.push_back(stacks ? 1 : t.size(dim));
    join.parts.push_back(t);
  }
  join.sizes = Dims(parts[0].sizes());
  if (stacks) join.sizes.insert(static_cast<size_t>(dim), 0);
  join.sizes[static_cast<size_t>(dim)] = 0;
  for (const int64_t length : join.lengths) join.sizes[static_cast<size_t>(dim)] += length;
  for (size_t d = static_cast<size_t>(dim) + 1; d < join.sizes.size(); ++d) join.inner *= join.sizes[d];
  return waits && contiguous;
}

/// The space of an op with one operand whose result has these sizes and strides.
ElementCall space_of(const Tensor& self, IntList sizes, IntList strides) {
  ElementCall space;
  space.inputs = 1;
  space.input[0] = Operand(self);
  space.derived.device = kCPU;
  space.derived.sizes = Dims(sizes);
  space.derived.strides[0] = space.derived.strides[1] = Dims(strides);
  space.derived.order = dimension_order(sizes, {space.derived.strides.data(), 1});
  return space;
}

}  // namespace

bool is_end_op(uint16_t id) { return id == op_id::to_dtype || is_join(id) || whole_fold(id); }

bool Region::put_off_end(const OpCall& call) {
  if (is_join(call.op)) return put_off_join(call);
  const TensorImpl* self = call.arguments[0].as<Tensor>().impl();
  if (!can_wait(self) || !self->storage->device.is_cpu()) return false;
  return call.op == op_id::to_dtype ? put_off_cast(call) : put_off_fold(call);
}

/// The open instance that will make the tensor.
Ref<Instance> Region::open_with(const TensorImpl* waiting) {
  if (!(waiting->flags & kDeferred)) return {};
  for (const Ref<Instance>& open : open_)
    if (waiting->storage->context == static_cast<const Recipe*>(open.get()) && open->is_open()) return open;
  return {};
}

bool Region::put_off_cast(const OpCall& call) {
  const Tensor& self = call.arguments[0].as<Tensor>();
  const DType dtype = call.arguments[1].as<DType>();
  if (self.dtype() == dtype || is_complex(self.dtype()) || is_complex(dtype) || !self.is_dense()) return false;
  ElementCall space = space_of(self, self.sizes(), self.strides());
  for (;;) {
    const Ref<Instance> instance = join(space);
    if (!instance) return false;
    if (instance->add_cast(space, dtype, {recording_, noted_}, call.results[0].as<Tensor>())) return is_in(*instance);
  }
}

bool Region::put_off_fold(const OpCall& call) {
  const Tensor& self = call.arguments[0].as<Tensor>();
  const WholeFold& fold = *whole_fold(call.op);
  if (self.dtype() != DType::Float32 && self.dtype() != DType::Float64) return false;
  for (size_t i = 1; i < call.arguments.size(); ++i)
    if (call.arguments[i].as<std::optional<DType>>().value_or(self.dtype()) != self.dtype()) return false;
  const Ref<Instance> instance = open_with(self.impl());
  if (!instance) return false;
  const int value = instance->value_of(self.impl(), self.sizes(), self.strides());
  if (value < 0 || self.numel() != instance->numel() || instance->has_rows()) return false;
  const double divisor = fold.mean ? static_cast<double>(self.numel()) : 1;
  return instance->add_fold(value, *fold.fold, divisor, {recording_, noted_}, call.results[0].as<Tensor>()) &&
         is_in(*instance);
}

bool Region::put_off_join(const OpCall& call) {
  JoinCall join;
  if (!read_join(call, join)) return false;
  ElementCall space = space_of(join.parts[0], join.sizes, contiguous_strides(join.sizes));
  for (;;) {
    const Ref<Instance> instance = instance_for(space);
    if (!instance) return false;
    if (instance->add_join(join, {recording_, noted_}, call.results[0].as<Tensor>())) return is_in(*instance);
  }
}

/// A write to memory that exists, of operands that wait, is done at once by their group.
bool Region::write_real(ElementCall& e) {
  const TensorImpl* self = e.input[0].impl();
  if (!can_be_written(self) || self->sizes() != IntList(e.derived.sizes) || !can_cast(e.derived.result, self->dtype))
    return false;
  Ref<Instance> instance;
  for (size_t i = 0; i < static_cast<size_t>(e.inputs) && !instance; ++i)
    if (const TensorImpl* t = e.input[i].impl()) instance = open_with(t);
  if (!instance || instance->sizes() != e.derived.sizes) return false;
  for (size_t i = 0; i < static_cast<size_t>(e.inputs); ++i) {
    const TensorImpl* t = e.input[i].impl();
    e.waiting[i] = t ? instance->value_of(t, e.derived.sizes, e.derived.strides[i + 1]) : -1;
    if (t && (t->flags & kDeferred) && e.waiting[i] < 0) return false;
  }
  const Tensor into = e.input[0].tensor();
  run_readers(into.storage(), instance.get());
  return instance->write(e, into) && is_in(*instance);
}

bool Region::copy_begins(const Tensor& self, const Tensor& source) {
  if (depth_ > 0 || !follows_ || are_ops_seen() || !(source.flags() & kDeferred)) return false;
  if (!can_wait(source.impl()) || !source.is_cpu() || !can_be_written(self.impl()) || self.sizes() != source.sizes())
    return false;
  if (is_complex(self.dtype()) != is_complex(source.dtype())) return false;
  const Ref<Instance> instance = open_with(source.impl());
  if (!instance || instance->sizes() != Dims(self.sizes())) return false;
  const int value = instance->value_of(source.impl(), source.sizes(), source.strides());
  if (value < 0) return false;
  run_readers(self.storage(), instance.get());
  return instance->write_value(value, self);
}

}  // namespace facula
