// Records, under a budget, the calls that compute and write memory of cells.
//
// What is recorded is what autograd could want again: calls of this thread while gradients are recorded, as they reach
// kernels (below autocast, vmap and autograd). A call is a step where at least one fresh result has kSmallest bytes or
// more; smaller results are held by the steps that read them. What a step cannot stand for gives memory without a cell,
// which never goes: ops that the boxed table does not have, tensors of vmap, of forward mode and of other classes,
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
