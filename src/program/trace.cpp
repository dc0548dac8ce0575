#include "program/trace.h"

#include <algorithm>
#include <bit>

namespace facula {

using Kind = TraceArgument::Kind;

namespace {

uint32_t count_of(size_t n) { return static_cast<uint32_t>(n); }

uint64_t mixed(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

void NumberTable::grow(size_t size) {
  const std::vector<Slot> before = std::move(slots_);
  slots_.assign(std::max<size_t>(std::bit_ceil(size), 16), {});
  for (const Slot& slot : before) {
    if (slot.number < 0) continue;
    size_t at = slot.hash & mask();
    while (slots_[at].number >= 0) at = (at + 1) & mask();
    slots_[at] = slot;
  }
}

void Trace::reserve(size_t count) {
  rows.reserve(count);
  arguments.reserve(count * 4);
  constants.reserve(count * 2);
  values.reserve(count);
  dims.reserve(count * 6);
}

void Trace::begin(const BoxedOp& op, uint32_t place, bool no_grad) {
  rows.push_back({&op, count_of(arguments.size()), count_of(values.size()), count_of(lengths.size()), place, no_grad});
}

void Trace::put_refs(std::span<const int> list) {
  arguments.push_back({Kind::Refs, count_of(refs.size()), count_of(list.size())});
  refs.insert(refs.end(), list.begin(), list.end());
}

void Trace::put_ints(IntList list) {
  arguments.push_back({Kind::Ints, count_of(ints.size()), count_of(list.size())});
  ints.insert(ints.end(), list.begin(), list.end());
}

void Trace::put(Value constant) {
  arguments.push_back({Kind::Constant, count_of(constants.size())});
  constants.push_back(std::move(constant));
}

void Trace::put(Arg argument) {
  if (argument.kind == Arg::Kind::Constant) return put(std::move(argument.constant));
  if (argument.kind == Arg::Kind::Ref) return put_ref(argument.ref);
  arguments.push_back({Kind::Refs, count_of(refs.size()), count_of(argument.items.size())});
  for (const Arg& item : argument.items) refs.push_back(item.kind == Arg::Kind::Ref ? item.ref : -1);
}

int Trace::add_value(Value::Kind kind) {
  values.emplace_back().kind = kind;
  return static_cast<int>(values.size()) - 1;
}

int Trace::add_value(const Tensor& t) {
  TraceValue& value = values.emplace_back();
  if (!t.defined()) return static_cast<int>(values.size()) - 1;
  value.storage = Ref<Storage>::share(t.storage());
  value.offset = t.byte_offset();
  value.dims = count_of(dims.size());
  value.ndim = static_cast<uint32_t>(t.dim());
  value.dtype = t.dtype();
  value.device = t.device();
  value.contiguous = t.is_contiguous();
  value.conjugate = t.is_conj();
  value.requires_grad = t.requires_grad();
  for (const IntList list : {t.sizes(), t.strides()}) dims.insert(dims.end(), list.begin(), list.end());
  return static_cast<int>(values.size()) - 1;
}

uint64_t Trace::hash_of(const Tensor& t) {
  uint64_t hash = mixed(reinterpret_cast<uintptr_t>(t.storage()), static_cast<uint64_t>(t.byte_offset()));
  for (const IntList list : {t.sizes(), t.strides()}) {
    for (int64_t n : list) hash = mixed(hash, static_cast<uint64_t>(n));
  }
  return hash;
}

bool Trace::shows_same(int number, const Tensor& t) const {
  const TraceValue& value = values[static_cast<size_t>(number)];
  const auto mine = dims.begin() + value.dims;
  return value.storage.get() == t.storage() && value.offset == t.byte_offset() && value.dtype == t.dtype() &&
         value.conjugate == t.is_conj() && t.dim() == value.ndim &&
         std::equal(t.sizes().begin(), t.sizes().end(), mine) &&
         std::equal(t.strides().begin(), t.strides().end(), mine + value.ndim);
}

Arg Trace::argument(const TraceArgument& argument) const {
  if (argument.kind == Kind::Constant) return constants[argument.at];
  if (argument.kind == Kind::Ref) return Arg::of(static_cast<int>(argument.at));
  if (argument.kind == Kind::Ints) return Value(IntList(ints.data() + argument.at, argument.count));
  std::vector<Arg> items;
  items.reserve(argument.count);
  for (uint32_t i = 0; i < argument.count; ++i) {
    const int ref = refs[argument.at + i];
    items.push_back(ref < 0 ? Arg() : Arg::of(ref));
  }
  return Arg::list(std::move(items));
}

TensorMeta Trace::meta(int number) const {
  const TraceValue& value = values[static_cast<size_t>(number)];
  TensorMeta meta;
  if (!value.storage) return meta;
  const auto mine = dims.begin() + value.dims;
  meta.dtype = value.dtype;
  meta.sizes.assign(mine, mine + value.ndim);
  if (!value.contiguous) meta.strides.assign(mine + value.ndim, mine + 2 * value.ndim);
  meta.device = value.device;
  meta.requires_grad = value.requires_grad;
  return meta;
}

}  // namespace facula
