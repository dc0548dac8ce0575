// Which bytes go: the cheapest to make again for their size and the time since they were used.
//
//   cost of a cell = (time of its steps + time of the steps that are missing around it) / (bytes x time since last use)
//
// Missing around it are the steps that would have to run before it can be made, since what they make is not here either,
// and those of cells that are gone and need it. Both are walked exactly (h_DTR of the paper "Dynamic Tensor
// Rematerialization" with its exact neighborhood).
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// Takes away bytes of cells on `device` until `wanted` have gone or none is left that can be made again; they are among
/// the dead of `locked`. Returns how many went.
size_t let_go(Device device, size_t wanted, Locked& locked);
/// Whether a cell that is gone needs the step, now or through others that are gone. With the lock held, as all here.
bool is_needed(const Step& step);
/// Whether the steps of a cell, and those that they need, can run again. With the lock held.
bool can_be_made_again(const Cell& cell);
/// How many could go, if all went that are here now.
size_t bytes_that_can_go(Device device);

}  // namespace facula::budget
