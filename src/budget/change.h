// Handles changes of what steps read. Whoever writes says so before (kReadAgain), as does whoever changes a setting
// that ops read.
//   - Where nothing that is gone needs a step, it is not repeated any more, and lets go of what it read: the bytes that
//     it made stay, as they would without a budget.
//   - Else, or where it is little, the step gets a copy of what it read.
// After a backward pass nothing needs anything: a step of an optimizer copies nothing.
#pragma once

namespace facula::budget {

/// Makes the hooks work. Once.
void install_changes();

}  // namespace facula::budget
