// Allocates blocks of up to 4 KiB from lists of the calling thread, in about 1.5 ns: tensors, storage headers with
// small data, autograd nodes, Python objects. Whoever releases a block passes its size again; any thread may release
// any block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace facula {

constexpr size_t kSmallBlock = 4096;

namespace detail {

struct FreeBlock {
  FreeBlock* next;
};

// One size of one thread. Only its thread writes; memory_stats() reads the counters.
struct Bin {
  FreeBlock* head = nullptr;
  std::atomic<uint32_t> count{0};
  uint32_t limit = 0;  // 0 in the bins that stand in for threads without lists, so that releases leave the fast path
  std::atomic<uint64_t> taken{0};
};

constexpr size_t kBins = kSmallBlock / 64 + 1;  // bin i holds blocks of max(i, 1) * 64 bytes
constexpr size_t bin_of(size_t bytes) { return (bytes + 63) >> 6; }

struct ThreadBins {
  Bin bins[kBins];
};

// A bare pointer, so that reaching it takes one instruction also in a shared library.
extern thread_local constinit ThreadBins* thread_bins __attribute__((tls_model("initial-exec")));

void* small_allocate_slow(size_t bin);
void small_release_slow(void* block, size_t bin) noexcept;

}  // namespace detail

// A block of at least `bytes` (0 to kSmallBlock) bytes, aligned to 64. Throws OutOfMemory.
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

// What stands behind the lists, for the CPU allocator of which they are a part.
struct SmallBlockStats {
  size_t listed_bytes = 0;  // in the lists of threads: taken from the pool, but free
  size_t listed_blocks = 0;
  size_t segments = 0;  // ranges of 2 MiB taken from the system
  uint64_t taken = 0;   // blocks ever handed to callers
};
SmallBlockStats small_block_stats();

// Gives back what the pool does not use, after the calling thread's lists.
void small_block_empty_cache();

// Around fork(). The third is for the child, while the lock is held.
void small_block_lock();
void small_block_unlock();
void small_block_forget_other_threads();

// Installed by the CPU allocator: says whether `bytes` more may be taken from the system; with `beyond_budget`, also
// above a memory budget.
extern bool (*small_block_admission)(size_t bytes, bool beyond_budget);
// Installed by the CPU allocator: called without a lock where that was refused. Lets go of what a memory budget can do
// without, and says whether anything went.
extern bool (*small_block_room)(size_t bytes);
// Whether spans ask small_block_admission, too: while there is a memory budget.
extern constinit std::atomic<bool> small_block_counts_spans;
// Installed by the CPU allocator: throws the OutOfMemory error.
extern void (*small_block_failure)(size_t bytes);

}  // namespace facula
