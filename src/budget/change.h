// Handles changes of memory that steps read. Whoever writes says so before (kReadAgain), as does whoever changes a
// setting that ops read.
//   - If no evicted cell needs a step, the step is no longer repeatable and releases what it read. The bytes that it
//     computed stay, as they would without a budget.
//   - Otherwise, or if the memory is small, the step gets a copy of what it read.
//
// After a backward pass nothing needs the steps, so a step of an optimizer copies nothing.
#pragma once

namespace facula::budget {

/// Makes the hooks work. Once.
void install_changes();

}  // namespace facula::budget
