// Implements rules 5 to 7 of the CPU allocator (policy: allocator.cpp): how many bytes it may hold and keep hot. All
// functions need the lock.
#pragma once

#include "cpu/allocator_region.h"

namespace facula::cpu::detail {

constexpr size_t kFreshBytesPerCheck = 64 * kMiB;

// Rule 5, after a request.
void keep_bound();

// Fresh pages are small ones from now on, or may be large again: of a large one what is free beside the block would be
// there, too, and not be counted.
void set_tight(bool tight);

void set_bounds(size_t limit, size_t budget);

// Held bytes of both halves of the allocator, those in lists of threads among them.
size_t bytes_in_blocks();

// Rules 6 and 7: whether so many fresh bytes may be had. `reused`: hot bytes that the request itself is about to take.
bool admit_locked(size_t fresh, size_t reused, size_t bound);

}  // namespace facula::cpu::detail
