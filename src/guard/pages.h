// Puts the CPU's memory between pages that nobody may touch. This finds kernels that read or write past the ends of
// their tensors, or after these are gone, at the speed of an ordinary build.
#pragma once

namespace facula::guard {

/// While on, storages of the calling thread end where a page without access begins, whatever their size; what is
/// released stays inaccessible for a while. For tests.
void guard_pages(bool on);

}  // namespace facula::guard
