// Defers everything that can wait, for tests: an oracle for the deferrals to memory (core/recipe.h) that needs no plan.
// With FACULA_DEFER=all every op on the CPU that only computes new tensors returns deferred tensors, whose recipe is
// the op and its arguments. With a number for a seed, one in two does so. Programs must not see it.
//
// A call waits if it is the function form of an op whose row (program/boxed.h) says that it draws nothing, writes to
// nothing and returns memory of its own, and if nobody observes ops. The op runs at the call, on what its arguments
// will be, to find out what it will return. So errors and warnings come there, and layouts are the usual ones. It runs
// again when somebody needs the result, and gives the same bits, or an error is raised: what it read has changed, and a
// write was missed. Results that need more than memory (lazily conjugated, sparse, private layouts, no elements) do not
// wait, nor does an op that returns its arguments' memory.
#pragma once

#include <cstdint>

namespace facula::region {

/// Reads FACULA_DEFER. Called once, before the library is used; throws where it is neither "all" nor a number.
void start_deferral();

/// What deferral has done in this process.
struct Deferrals {
  uint64_t deferred = 0;  // ops that were put off
  uint64_t made = 0;      // ops that were then run
  uint64_t at_once = 0;   // calls whose results could not wait
};
Deferrals count_deferrals();

}  // namespace facula::region
