#include "cuda/transpose.h"

#include "cuda/kernel.h"
#include "cuda/kernels/transpose_args.h"
#include "cuda/strided.h"

namespace facula::cuda {
namespace {

constexpr int64_t kLeastSide = 16;  // of shorter ones most of a tile is empty

/// Whether the first `size` elements of all lines can be moved by 16 bytes.
bool is_whole(const PlanOperand& operand, int64_t size, IntList strides, size_t innermost) {
  const int64_t wide = 16 / item_size(operand.dtype);
  bool whole = size % wide == 0 && is_aligned(operand, static_cast<int>(wide));
  for (size_t d = 0; d < strides.size(); ++d) whole = whole && (d == innermost || strides[d] % wide == 0);
  return whole;
}

/// The dimension along which the input's elements are neighbors, where tiles can be made of it and the first; else 0.
size_t other_side(const JoinedPlan& plan) {
  if (plan.strides(0)[0] != 1 || plan.strides(1)[0] <= 0 || plan.shape()[0] < kLeastSide) return 0;
  for (size_t d = 1; d < plan.shape().size(); ++d)
    if (plan.strides(1)[d] == 1 && plan.strides(0)[d] > 0 && plan.shape()[d] >= kLeastSide) return d;
  return 0;
}

FastDivision tiles_of(int64_t size, int64_t side) {
  return fast_division(static_cast<unsigned>((size + side - 1) / side));
}

}  // namespace

bool run_transpose(const Plan& plan, int device) {
  static const DeviceKernel kernel{"transpose.cuh", "transpose"};
  if (plan.shape.size() < 2 || plan.in[0].strides[0] == item_size(plan.in[0].dtype)) return false;  // most, at once
  const JoinedPlan joined(plan);
  if (!joined.has_form() || !joined.is_small()) return false;
  const size_t across = other_side(joined);
  if (!across) return false;
  const IntList shape = joined.shape(), to = joined.strides(0), from = joined.strides(1);
  const int64_t side = transpose_side(static_cast<int>(item_size(plan.out.dtype)));
  TransposeArgs a{plan.in[0].data,
                  plan.out.data,
                  static_cast<unsigned>(shape[0]),
                  static_cast<unsigned>(shape[across]),
                  static_cast<unsigned>(from[0]),
                  static_cast<unsigned>(to[across]),
                  tiles_of(shape[across], side),
                  tiles_of(shape[0], side),
                  0,
                  {},
                  {},
                  {}};
  int64_t blocks = int64_t{a.tiles_across.by} * a.tiles_down.by;
  for (size_t d = 1; d < shape.size(); ++d) {
    if (d == across) continue;
    a.batch[a.batch_dims] = fast_division(static_cast<unsigned>(shape[d]));
    a.in_batch[a.batch_dims] = from[d];
    a.out_batch[a.batch_dims++] = to[d];
    blocks *= shape[d];
  }
  const bool whole_in = is_whole(plan.in[0], shape[across], from, across),
             whole_out = is_whole(plan.out, shape[0], to, 0);
  kernel(device, {plan.out.dtype, whole_in, whole_out}, {256, blocks}, a);
  return true;
}

}  // namespace facula::cuda
