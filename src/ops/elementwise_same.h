// Classifies what most operands of element-wise ops are, once for all ways in which a call is computed:
//
//     same operands: tensors of one dtype, shape and     little, on the CPU   the loop is called once
//     device, all dense, beside numbers that leave the   on another device    a plan of one row
//     dtype as it is; a condition is a dense Bool tensor much, on the CPU     a plan, whose strides are known
//
//     others                                             little, on the CPU   laid out, then the loop (small_call())
//                                                        else                 a plan: promoted, broadcast, ordered
//
// unary() and binary() try the first of these before they call elementwise().
#pragma once

#include "ops/elementwise.h"

namespace facula::ops {

/// Whether a number leaves elements of the dtype what they are.
inline bool keeps_dtype(DType dtype, const Scalar& number) {
  if (is_complex(dtype)) return true;
  if (is_floating(dtype)) return !number.is_complex();
  return dtype != DType::Bool && (number.is_integral() || number.is_bool());
}

/// One of the operands, if they are the same and the op takes them without a conversion, an error or a look at their
/// values; null otherwise.
inline const TensorImpl* same_operands(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params,
                                       int param_count) {
  const int first = op.condition_first;
  const TensorImpl* like = inputs[first].impl();
  for (int i = first + 1; !like && i < count; ++i) like = inputs[i].impl();
  if (!like || !(like->flags & kContiguous) || !contains(op.dtypes, like->dtype)) return nullptr;
  for (int i = first; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (t == like) continue;
    if (!t) {
      if (!keeps_dtype(like->dtype, inputs[i].scalar())) return nullptr;
    } else if (!(t->flags & kContiguous) || t->dtype != like->dtype || !same_shape(t, like) ||
               t->storage->device != like->storage->device) {
      return nullptr;
    }
  }
  if (const TensorImpl* condition = first ? inputs[0].impl() : nullptr) {
    if (!(condition->flags & kContiguous) || condition->dtype != DType::Bool || !same_shape(condition, like) ||
        condition->storage->device != like->storage->device)
      return nullptr;
  }
  return numbers_fit(op, like->dtype, params, param_count) ? like : nullptr;
}

}  // namespace facula::ops
