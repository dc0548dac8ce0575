#include "ops/iterator.h"

#include "core/checked.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace facula {

Dims broadcast_strides(IntList sizes, IntList strides, IntList shape) {
  Dims out(shape.size());
  size_t shift = shape.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) out[shift + i] = sizes[i] == 1 && shape[shift + i] != 1 ? 0 : strides[i];
  return out;
}

void collapse(Plan& plan, IntList shape, List<Dims> strides, const Dims& order) {
  size_t operands = strides.size();
  auto stored = [&](size_t k) -> Dims& { return k == 0 ? plan.out.strides : plan.in[k - 1].strides; };
  plan.shape.clear();
  for (size_t k = 0; k < operands; ++k) stored(k).clear();
  for (int64_t d : order) {
    if (shape[d] == 1) continue;
    bool merges = !plan.shape.empty();
    for (size_t k = 0; k < operands && merges; ++k) merges = stored(k).back() * plan.shape.back() == strides[k][d];
    if (merges) {
      plan.shape.back() *= shape[d];
      continue;
    }
    plan.shape.push_back(shape[d]);
    for (size_t k = 0; k < operands; ++k) stored(k).push_back(strides[k][d]);
  }
  if (plan.shape.empty()) {
    plan.shape.push_back(1);
    for (size_t k = 0; k < operands; ++k) stored(k).push_back(0);
  }
}

Plan copy_plan(const Tensor& out, const Tensor& in) {
  Plan plan;
  plan.inputs = 1;
  plan.numel = out.numel();
  plan.out.data = out.impl()->data;
  plan.out.dtype = out.dtype();
  plan.in[0].data = in.impl()->data;
  plan.in[0].dtype = in.dtype();
  std::array<Dims, 2> strides{Dims(out.strides()), broadcast_strides(in.sizes(), in.strides(), out.sizes())};
  const Dims order = dimension_order(out.sizes(), {strides.data(), strides.size()});
  for (int64_t& s : strides[0]) s = wrapping_mul(s, out.item_size());
  for (int64_t& s : strides[1]) s = wrapping_mul(s, in.item_size());
  collapse(plan, out.sizes(), {strides.data(), strides.size()}, order);
  return plan;
}

}  // namespace facula
