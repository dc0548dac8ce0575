// Runs several steps at once, or a step from a finding of its op (core/findings.h), where that takes less time than the
// ops one after the other. Results have the same bits.
//
//   - A batch norm knows the statistics of its batch, and only computes its result.
//   - Element-wise steps that write to that result in place, such as an activation, write to each part of it while it
//     is in the cache.
#pragma once

#include <tuple>
#include <vector>

#include "budget/cell.h"

namespace facula::budget {

/// Returns true if calls of the op note findings that make running it again cheaper (core/findings.h).
bool finds_out(uint16_t op);
/// Whether the op of the step has found out what makes it cheaper.
bool begins_together(const Step& step);
/// States how much less time a run of the step will take than its call; of one that writes in place to `before`.
void expect_shorter(Step& step, const Cell* before);
/// Whether the step, which writes to the bytes of `before` in place, can be one of those that follow: its cell is not
/// read by anybody else.
bool can_follow(const Step& step, const Cell& before);

/// A step that follows, with its second operand, if it has one.
struct Follower {
  const Step* step;
  Tensor other;
};
/// Runs the step and what follows it; `given` are its arguments with tensors. Returns its results, as its op has them.
std::vector<Tensor> run_together(const std::vector<Value>& given, const Step& step,
                                 const std::vector<Follower>& followers);

}  // namespace facula::budget
