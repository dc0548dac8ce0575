// Collects what is known of the bytes in cells, for the text of an error.
#pragma once

#include "budget/why_full.h"

namespace facula::budget {

/// Bytes of cells on `device` that are here and cannot go: those that the call of this thread reads, those that anybody
/// else than saved values holds, and those that no step can make again.
std::vector<HeldMemory> held_in_cells(Device device);

}  // namespace facula::budget
