// Replaces measured times if a program requests deterministic algorithms. Costs then follow from sizes, and the time
// since a use from the number of uses, so that the same bytes are evicted in every run.
#pragma once

#include "budget/cell.h"

namespace facula::budget {

/// Returns true if costs are modeled.
bool are_modeled();
/// Nanoseconds that a call like the step is expected to take. Its results have cells.
uint64_t modeled_ns(const Step& step);
/// When a cell is used: nanoseconds, or the number of uses so far.
uint64_t time_of_use();

}  // namespace facula::budget
