// Chooses which bytes are evicted: those that are cheapest to compute again for their size and the time since they were
// used.
//
//   cost of a cell = (time of its steps + time of the steps that are missing around it) / (bytes x time since last use)
//
// If writing the bytes to a file and reading them takes less time than the steps, that time counts instead (moved.h).
//
// The missing steps are those that would have to run before the cell can be computed, since their results are not here
// either, and those of evicted cells that need it. Both are walked exactly (h_DTR of the paper "Dynamic Tensor
// Rematerialization" with its exact neighborhood).
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// Takes away bytes of cells on `device` until `wanted` have gone or none is left that can come back; they are among
/// the dead of `locked`. Returns how many went. Others may be on the way to a file (moved.h): finish_moves() lets go of
/// them.
size_t let_go(Device device, size_t wanted, Locked& locked);
/// Whether a cell that is gone depends on what the step makes, also through others that are here: they may go once
/// nobody saves them any more. With the lock held, as all here.
bool is_needed(Step& step);
/// The step, which is not needed, and all that depend on it will not be repeated: no cell of theirs goes from now on,
/// but where it is moved.
void never_repeat(Step& step);
/// The cell that is dearest to make again for its size, of those that lie nowhere else and come back faster from the
/// host's memory than they are made again; null where there is none.
Cell* dearest(Device device);
/// Whether the steps of a cell can run again, or else it can be moved.
bool can_come_back(const Cell& cell);
/// How many could go, if all went that are here now.
size_t bytes_that_can_go(Device device);

}  // namespace facula::budget
