// Declares the CPU's caching allocator. allocator.cpp opens with its policy.
//
// Small blocks (up to kSmallBlock bytes) come from core/small_block.h. Larger ones come from two address
// ranges shared by all threads. Whoever releases a block says its size again; any thread may release any
// block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/small_block.h"

namespace facula::cpu {

constexpr size_t kAlignment = 64;

struct Gauge {
  size_t current = 0;
  size_t peak = 0;
};

struct MemoryStats {
  Gauge allocated_bytes;    // in blocks that callers hold, sizes as rounded
  Gauge reserved_bytes;     // allocated and cached
  Gauge allocations;        // blocks that callers hold
  size_t cached_bytes = 0;  // released by callers, cached for the next request
  size_t largest_free_block = 0;
  size_t segments = 0;       // address ranges taken from the system
  size_t segment_bytes = 0;  // usable bytes in them; those never touched or trimmed cost no memory
  uint64_t total_allocations = 0;
  uint64_t hits = 0;  // requests served without asking the system for memory
  uint64_t misses = 0;
  uint64_t trims = 0;     // times that cached memory went back to the system
  uint64_t retries = 0;   // requests for which the cache had to be emptied
  uint64_t failures = 0;  // requests that ended in an OutOfMemory error
  size_t limit = 0;       // 0: none
  size_t budget = 0;      // 0: none
};

// Whether the allocator was compiled to keep released blocks; for AddressSanitizer it is not. And whether a sanitizer
// watches it. What uses the allocator may have been compiled otherwise: tests ask here.
bool keeps_released_blocks();
bool is_watched();

// Peaks see small blocks with the granularity in which threads fetch them (at most 32 KiB per size and
// thread), and of larger ones what threads keep (at most 256 KiB per thread).
MemoryStats memory_stats();
void reset_peak_memory_stats();

// Gives all cached memory back to the system, apart from blocks in the lists of other threads.
void empty_cache();

// Installed by what keeps memory that it can do without: gives it back before a request fails, and in empty_cache().
inline bool (*drop_cached_memory)() = nullptr;

// Bound in bytes on allocated and cached memory together; 0 removes it. Memory already held is not taken
// away.
void set_memory_limit(size_t bytes);

// The same bound as one that is met by letting go of what can be made again (core/budget_hooks.h), before a request is
// refused; 0 removes it. The smaller of limit and budget counts. What is held already goes with the next request.
void set_memory_budget(size_t bytes);

// For memory that somebody else will take, as Python does for lists: throws OutOfMemory, "<op>: cannot get ...", when
// so many bytes more than what is held pass the limit or what the system has.
void check_room(const char* op, size_t bytes);

namespace detail {
void* large_allocate(size_t bytes);
void large_release(void* block, size_t bytes) noexcept;
}  // namespace detail

// A block of at least `bytes` bytes, aligned to 64; its content is undefined. For 0 bytes a block like any
// other (one of 64 bytes), to be released like any other. Throws OutOfMemory, after which the allocator works
// as before.
inline void* allocate(size_t bytes) {
  return bytes <= kSmallBlock ? small_allocate(bytes) : detail::large_allocate(bytes);
}

// `bytes` as given to allocate. A null pointer is ignored.
inline void release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  bytes <= kSmallBlock ? small_release(block, bytes) : detail::large_release(block, bytes);
}

}  // namespace facula::cpu
