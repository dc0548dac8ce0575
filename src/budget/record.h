// Records, under a budget, the calls that compute and write memory of cells.
//
// It records what autograd could need again: calls of this thread while gradients are recorded, as they reach kernels
// (below autocast, vmap and autograd). A call is a step if at least one fresh result has 64 KiB or more
// (set_smallest()); smaller results are held by the steps that read them. Other calls make memory without a cell, which
// is never evicted: ops that the boxed table does not have, tensors of vmap, of forward mode and of other classes, and
// calls that wrote much besides their results.
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// Storages of fewer bytes get no cell. For tests; 64 KiB otherwise. Blocks of the small allocator never get one.
size_t set_smallest(size_t bytes);

/// The outermost call that this thread is in; null outside of calls.
const OpCall* present_call();

/// Makes the hooks around ops and copies work. Once.
void install_recording();

}  // namespace facula::budget
