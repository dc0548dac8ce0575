// The CPU's caching allocator. The policy stands at the head of allocator.cpp.
//
// Small blocks (up to kSmallLimit bytes) come from lists of the calling thread, in about 3 ns; they also hold
// tensor and storage headers, autograd nodes and Python objects. Larger ones come from two address ranges
// shared by all threads. Whoever releases a block says its size again. Any thread may release any block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace facula::cpu {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallLimit = 4096;

struct Gauge {
  size_t current = 0;
  size_t peak = 0;
};

struct MemoryStats {
  Gauge allocated_bytes;    // in blocks that callers hold, sizes as rounded
  Gauge reserved_bytes;     // allocated and cached
  Gauge allocations;        // blocks that callers hold
  size_t cached_bytes = 0;  // released by callers, kept for the next request
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
};

// Peaks see small blocks with the granularity in which threads fetch them (at most 32 KiB per size and
// thread).
MemoryStats memory_stats();
void reset_peak_memory_stats();

// Gives all cached memory back to the system, apart from small blocks in the lists of other threads.
void empty_cache();

// Bound in bytes on allocated and cached memory together; 0 removes it. Memory already held is not taken
// away.
void set_memory_limit(size_t bytes);

namespace detail {

struct FreeBlock {
  FreeBlock* next;
};

// One size of one thread. Only its thread writes; memory_stats() reads the counters.
struct Bin {
  FreeBlock* head = nullptr;
  std::atomic<uint32_t> count{0};
  uint32_t limit =
      0;  // 0 in the bins that stand in for threads without lists, so that releases leave the fast path
  std::atomic<uint64_t> taken{0};
};

constexpr size_t kBins = kSmallLimit / 64 + 1;  // bin i holds blocks of max(i, 1) * 64 bytes
constexpr size_t bin_of(size_t bytes) { return (bytes + 63) >> 6; }

struct ThreadBins {
  Bin bins[kBins];
};

// A bare pointer, so that reaching it takes one instruction also in a shared library.
extern thread_local constinit ThreadBins* thread_bins __attribute__((tls_model("initial-exec")));

void* small_allocate_slow(size_t bin);
void small_release_slow(void* block, size_t bin) noexcept;
void* large_allocate(size_t bytes);
void large_release(void* block, size_t bytes) noexcept;

}  // namespace detail

// A block of at least `bytes` (0 to kSmallLimit) bytes, aligned to 64. Throws OutOfMemory.
inline void* small_allocate(size_t bytes) {
  const size_t index = detail::bin_of(bytes);
  detail::Bin& bin = detail::thread_bins->bins[index];
  detail::FreeBlock* block = bin.head;
  if (__builtin_expect(block == nullptr, 0)) return detail::small_allocate_slow(index);
  bin.head = block->next;
  bin.count.store(bin.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  bin.taken.store(bin.taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return block;
}

// `bytes` as given to small_allocate.
inline void small_release(void* block, size_t bytes) noexcept {
  const size_t index = detail::bin_of(bytes);
  detail::Bin& bin = detail::thread_bins->bins[index];
  const uint32_t count = bin.count.load(std::memory_order_relaxed);
  if (__builtin_expect(count >= bin.limit, 0)) return detail::small_release_slow(block, index);
  auto* free = static_cast<detail::FreeBlock*>(block);
  free->next = bin.head;
  bin.head = free;
  bin.count.store(count + 1, std::memory_order_relaxed);
}

// A block of at least `bytes` bytes, aligned to 64; its content is undefined. For 0 bytes a block like any
// other (one of 64 bytes), to be released like any other. Throws OutOfMemory, after which the allocator works
// as before.
inline void* allocate(size_t bytes) {
  return bytes <= kSmallLimit ? small_allocate(bytes) : detail::large_allocate(bytes);
}

// `bytes` as given to allocate. A null pointer is ignored.
inline void release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  bytes <= kSmallLimit ? small_release(block, bytes) : detail::large_release(block, bytes);
}

}  // namespace facula::cpu
