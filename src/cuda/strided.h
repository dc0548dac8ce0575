// Describes plans for kernels that are compiled for the layouts of their operands.
#pragma once

#include <optional>
#include <utility>

#include "cuda/kernels/strided_args.h"
#include "ops/iterator.h"

namespace facula::cuda {

/// What pointwise_strided (kernels/strided.cuh) is launched with for a plan.
struct StridedPlan {
  StridedForm form;
  int64_t blocks;
  StridedArgs arguments;
};

/// A plan with the dimensions joined that are one for all operands, and without those of one element.
class JoinedPlan {
 public:
  explicit JoinedPlan(const Plan& plan);

  /// Whether the kernel takes so many dimensions, and all strides are whole elements; else the rest is not set.
  bool has_form() const { return has_form_; }
  /// Whether offsets of 31 bits reach all elements.
  bool is_small() const;
  /// Of a plan that has a form and is small.
  StridedPlan strided() const;
  /// Innermost dimension first.
  IntList shape() const { return {shape_, dims_}; }
  /// In elements; operand 0 is the result.
  IntList strides(int operand) const { return {strides_[operand], dims_}; }

 private:
  const PlanOperand& operand(int k) const { return k ? plan_.in[static_cast<size_t>(k - 1)] : plan_.out; }
  bool is_number(int k) const { return operand(k).residency == Residency::Number; }
  bool has_vectors(int k, int width) const;
  int width_of(int repeats) const;
  void fill(StridedOperand& to, int k) const;

  const Plan& plan_;
  size_t dims_ = 0;
  int64_t shape_[kMostStridedDims], strides_[kMaxInputs + 1][kMostStridedDims];
  bool has_form_ = true;
};

/// The fewest and most bytes of an element in memory; of operands that `skipped` has the bit of, nothing counts.
ItemBytes item_bytes(const Plan& plan, int skipped = 0);
/// Whether vectors of so many elements may begin at an operand's first one.
bool is_aligned(const PlanOperand& operand, int width);
/// Both halves of a plan of several elements, divided in its outermost dimension.
std::pair<Plan, Plan> halves(const Plan& plan);

}  // namespace facula::cuda
