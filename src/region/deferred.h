// Defers everything that can wait, for tests: an oracle for the doors to memory (core/recipe.h) that needs no plan.
// With FACULA_DEFER=all every op on the CPU that only computes new tensors gives tensors without bytes, whose recipe is
// the op and the arguments it was called with; with a number for a seed, one in two does so. Programs must not see it.
//
// What waits: calls of the function form of an op whose row (program/boxed.h) says that it draws nothing, writes to
// nothing and gives memory of its own, while nobody sees ops. The results must be known without running, so the op runs
// on meta tensors; where it cannot, or gives what needs more than memory (lazily conjugated, sparse, private layouts,
// no elements), it runs at once, and so do ops that refuse values (kRefuseValues): errors come at the call. What is
// read is the memory that the arguments have now: writes to it run the op first.
#pragma once

#include <cstdint>

namespace facula::region {

/// Reads FACULA_DEFER. Called once, when the library is about to be used; throws where it is neither "all" nor a
/// number.
void start_deferral();

/// What deferral has done in this process.
struct Deferrals {
  uint64_t deferred = 0;  // ops that were put off
  uint64_t made = 0;      // ops that were then run
  uint64_t at_once = 0;   // calls that could not wait, of ops that can
};
Deferrals count_deferrals();

}  // namespace facula::region
