// Declares how the CPU allocator sees the released blocks that threads cache (cpu/thread_blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/thread_blocks.h"

namespace facula::cpu::detail {

/// Counts the blocks that threads keep and callers do not hold, and how often threads took one again.
struct CachedBlocks {
  size_t bytes = 0, count = 0;
  uint64_t taken = 0;
};
/// With the lock held.
CachedBlocks cached_blocks();

/// Those of the calling thread.
extern thread_local constinit ThreadBlocks* thread_blocks __attribute__((tls_model("initial-exec")));
/// Gives the block to the calling thread; returns false where it has no room for it.
bool cache_block(void* block, size_t bytes) noexcept;
/// Frees a block that a thread had. With the lock held.
void give_back(void* address);

}  // namespace facula::cpu::detail
