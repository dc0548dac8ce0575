// Indexing with tensors on the CPU.
#include <cstring>

#include "cpu/isa.h"
#include "cpu/isa/cast.h"
#include "ops/index.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
bool is_nonzero(const T& value) {
  if constexpr (requires { value.real(); }) return value.real() != 0 || value.imag() != 0;
  else if constexpr (requires { value.re; }) return static_cast<float>(value.re) != 0 || static_cast<float>(value.im) != 0;
  else return value != T(0);
}

// Calls f(multi-index, element offset) for every element in order.
template <class F>
void for_each(IntList sizes, IntList strides, F&& f) {
  int64_t numel = 1;
  for (int64_t s : sizes) numel *= s;
  Dims index(sizes.size());
  int64_t offset = 0;
  for (int64_t i = 0; i < numel; ++i) {
    f(index, offset);
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < sizes[d]) break;
      offset -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

int64_t count_nonzero(const Tensor& in) {
  int64_t count = 0;
  visit_dtype(in.dtype(), [&]<class T>(TypeTag<T>) {
    for_each(in.sizes(), in.strides(), [&](const Dims&, int64_t at) { count += is_nonzero(in.data<T>()[at]); });
  });
  return count;
}

void nonzero_cpu(const Tensor& out, const Tensor& in) {
  int64_t* o = out.data<int64_t>();
  visit_dtype(in.dtype(), [&]<class T>(TypeTag<T>) {
    for_each(in.sizes(), in.strides(), [&](const Dims& index, int64_t at) {
      if (!is_nonzero(in.data<T>()[at])) return;
      for (int64_t k : index) *o++ = k;
    });
  });
}

IntList tail(IntList list, size_t count) { return list.slice(list.size() - count, count); }

template <class F>
void for_each_pair(const Tensor& dense, const IndexPlan& plan, F&& f) {
  size_t block = plan.block_shape.size(), positions = static_cast<size_t>(dense.dim()) - block;
  const int64_t* offsets = plan.offsets.data<int64_t>();
  int64_t p = 0;
  for_each(dense.sizes().slice(0, positions), dense.strides().slice(0, positions), [&](const Dims&, int64_t at) {
    int64_t base = offsets[p++];
    for_each(tail(dense.sizes(), block), tail(dense.strides(), block), [&](const Dims& index, int64_t inner) {
      int64_t target = base;
      for (size_t d = 0; d < block; ++d) target += index[d] * plan.block_strides[d];
      f(at + inner, target);
    });
  });
}

void index_cpu(const Tensor& out, const Tensor& in, const IndexPlan& plan) {
  int64_t item = in.item_size();
  for_each_pair(out, plan, [&](int64_t to, int64_t from) { std::memcpy(out.data<char>() + to * item, in.data<char>() + from * item, item); });
}

template <class T>
void add_to(T& target, const T& value) {
  if constexpr (std::is_same_v<T, bool>) target = target || value;
  else if constexpr (requires { value.re; }) {
    target.re = Half(static_cast<float>(target.re) + static_cast<float>(value.re));
    target.im = Half(static_cast<float>(target.im) + static_cast<float>(value.im));
  } else target = T(target + value);
}

void index_put_cpu(const Tensor& out, const IndexPlan& plan, const Tensor& values, bool accumulate) {
  int64_t item = out.item_size();
  if (!accumulate) {
    for_each_pair(values, plan, [&](int64_t from, int64_t to) { std::memcpy(out.data<char>() + to * item, values.data<char>() + from * item, item); });
    return;
  }
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_pair(values, plan, [&](int64_t from, int64_t to) { add_to(out.data<T>()[to], values.data<T>()[from]); });
  });
}

}  // namespace

void register_index() {
  count_nonzero_kernel.set(DeviceType::CPU, count_nonzero);
  nonzero_kernel.set(DeviceType::CPU, nonzero_cpu);
  index_kernel.set(DeviceType::CPU, index_cpu);
  index_put_kernel.set(DeviceType::CPU, index_put_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
