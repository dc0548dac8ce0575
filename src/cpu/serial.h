// Runs loops of kernels whose steps depend on each other.
#pragma once

#include "core/parallel.h"

namespace facula::cpu {

/// Calls f(i) for `count` numbers in their order, each of `work` element operations: without the interpreter's lock
/// where that is long, and in a loop that can be stopped.
template <class F>
void one_by_one(int64_t count, int64_t work, F&& f) {
  const int64_t grain = kGrain / std::max<int64_t>(work, 1) + 1;
  const LockRelease release(count > grain);
  sliced_for(0, count, grain, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) f(i);
  });
}

}  // namespace facula::cpu
