// Policy of the CPU allocator
//
// Small blocks (up to 4 KiB): core/small_block.cpp. Everything larger is served here, under one lock. Of blocks up to
// 64 KiB each thread keeps a few that it released, 256 KiB at most (cpu/thread_blocks.h): requests that repeat take no
// lock. To the rules these are held blocks.
//
// 1. There are two regions, one for requests below 1 MiB and one for the rest, so that small blocks do not splinter
//    large ones. A region is one reserved address range that becomes usable from its start as it is needed; in it every
//    free block merges with its free neighbors.
// 2. Sizes are rounded up to 512 bytes (middle region) or 64 KiB (large region): at most an eighth is lost.
// 3. A request takes the best fit: the smallest free block that is large enough, lowest list first, searching a bounded
//    number of blocks per list. What is left over stays free. Without a fit the region grows.
// 4. The large region uses 2 MiB pages; the middle region does once it has grown past 16 MiB.
// 5. A released block keeps its pages ("hot"), so that a repeated request costs no page fault. What malloc would use at
//    its highest is the measure: held + hot bytes never exceed the recent peak of held bytes by more than a sixteenth
//    and 16 MiB, room for the gaps between blocks. When a request would exceed it, the blocks released longest ago give
//    their pages back first. "Recent" means the last 16,384 to 32,768 requests, so that a peak while loading does not
//    count for ever.
// 6. Before 64 MiB of fresh memory are taken, in one request or in several, the system reports what it has left. If
//    that would leave less than a sixteenth of the memory, all hot pages are given back. What cannot be had without
//    swapping, and what together with the held bytes exceeds physical memory, is refused with an error; the system's
//    willingness to promise more is not relied on.
// 7. A limit set by the user bounds held + hot bytes in the same way: trim first, then refuse. A memory budget does,
//    too, and the smaller of both counts, but before it refuses it asks src/budget for room (core/budget_hooks.h).
//    Trimmed is only what is missing, and nothing where all hot bytes would not do: the blocks that get free then are
//    hot, and serve the request without a page fault. A block of 64 KiB and more that lies where no pages are gets
//    those of the oldest hot blocks: moving them takes a hundredth of the time of page faults. Packed weights go before
//    anything else does, and caches last. Small blocks are counted by the batches that threads fetch, and go beyond a
//    budget rather than be refused.
// 8. fork() takes the locks, so that a child can go on allocating. It leaves out the hot pages of large free blocks:
//    what nobody holds need not be copied when the parent writes there again, page by page. The child gets empty ones
//    in their place. For the same reason a large block held at a fork gives its pages back when it is released.
#include "cpu/allocator.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/budget_bound.h"
#include "core/budget_hooks.h"
#include "core/budget_refusal.h"
#include "core/error.h"
#include "cpu/allocator_region.h"
#include "cpu/allocator_rules.h"
#include "cpu/allocator_threads.h"

namespace facula::cpu {
namespace detail {

constinit std::mutex lock;
constinit BlockRecords records;

namespace {

constexpr size_t kLargestRequest = size_t{1} << 46;  // beyond any machine; keeps the arithmetic from overflowing

void count_request(size_t fresh) { (fresh == 0 ? meters.hits : meters.misses).fetch_add(1, std::memory_order_relaxed); }

constexpr size_t kSmallestMove = 64 * 1024;  // page faults of less take no longer

// Rule 7: how many of the fresh bytes were moved there from other blocks, because there must be no more.
size_t move_to(Region& region, const Block* block, char* place, size_t size, size_t fresh) {
  if (fresh < kSmallestMove || !policy.can_move || !passes_bound(fresh)) return 0;
  const size_t over = bounded_bytes() + fresh - policy.bound;
  if (over > hot_list.bytes() - (size - fresh)) return 0;
  set_tight(true);
  return region.bring_pages(block, place, size, over);
}

// Null when the request has to be refused.
[[maybe_unused]] void* try_allocate(size_t bytes) {
  Region& region = region_for(bytes);
  const size_t size = region.round(bytes);
  std::lock_guard guard(lock);
  Block* block = region.find(size);
  if (block == nullptr) return nullptr;
  char* place = region.place(block, size);
  size_t fresh = Region::fresh_bytes(block, size, place);
  if (fresh > 0 && policy.bound > 0) {
    if (policy.budget > 0 && passes_bound(fresh)) block = region.hottest(block, size);
    hot_list.make_newest(block);
    fresh = Region::fresh_bytes(block, size, place = region.place(block, size));
  }
  const size_t moved = move_to(region, block, place, size, fresh);
  for (size_t admitted = 0; fresh - moved > admitted;) {
    if (!admit_locked(fresh, size - fresh, policy.bound)) {  // what was moved is neither held nor hot now
      if (moved > 0) region.forget_pages(block, place, size, moved);
      return nullptr;
    }
    admitted = fresh - moved;  // may have trimmed this very block, so look again
    if (moved == 0) place = region.place(block, size);
    fresh = Region::fresh_bytes(block, size, place);
  }
  meters.reserved.add(fresh - moved);
  block = region.hold(block, size, place);
  policy.held += size;
  meters.held.add(size);
  meters.blocks.add(1);
  count_request(fresh - moved);
  keep_bound();
  return block->begin;
}

[[noreturn, maybe_unused]] void die(const char* problem, const void* block, size_t bytes) {
  std::fprintf(stderr, "release: %s (block %p, %zu bytes)\n", problem, block, bytes);
  std::abort();
}

[[maybe_unused]] bool admit_fresh(size_t bytes) {
  std::lock_guard guard(lock);
  return admit_locked(bytes, 0, policy.bound);
}

// For the arenas of small blocks and, under a budget, the batches that threads fetch.
bool admit_small(size_t bytes, bool beyond_budget) {
  std::lock_guard guard(lock);
  return admit_locked(bytes, 0, beyond_budget ? policy.limit : policy.bound);
}

thread_local constinit bool makes_room = false;  // on this thread, which may ask for memory meanwhile

// Rule 7, without any lock. Whether anything went: packed weights before all else, which are soon packed again.
bool make_room_for(size_t size) {
  if (makes_room || !budget_hooks.make_room) return false;
  size_t missing = size;  // where the system has no more
  {
    std::lock_guard guard(lock);
    if (policy.budget == 0 || size > policy.bound) return false;
    const size_t wanted = bytes_in_blocks() + size;
    if (wanted > policy.bound) missing = wanted - policy.bound;
  }
  if (drop_cached_memory && drop_cached_memory()) return true;
  struct Marked {
    Marked() { makes_room = true; }
    ~Marked() { makes_room = false; }
  } marked;
  const size_t went = budget_hooks.make_room(kCPU, missing);
  std::lock_guard guard(lock);
  thread_blocks->drain(give_back);  // some of it may be there
  return went > 0;
}

// What `attempt` gives in the end, for `size` bytes that were refused at first.
template <class Attempt>
auto attempt_with_room(size_t size, Attempt attempt) {
  while (make_room_for(size))
    if (auto got = attempt()) return got;
  meters.retries.fetch_add(1, std::memory_order_relaxed);
  empty_cache();
  return attempt();
}

// Not to be called with a lock held.
[[noreturn]] void throw_out_of_memory_in(const char* op, size_t bytes) {
  meters.failures.fetch_add(1, std::memory_order_relaxed);
  const MemoryStats stats = memory_stats();
  const bool budget_counts = stats.budget > 0 && (stats.limit == 0 || stats.budget <= stats.limit);
  if (budget_counts && bytes <= os::available_memory()) {  // the system would have it
    throw Error(ErrorKind::OutOfMemory, budget_refusal(kCPU, op, bytes, stats.budget, stats.allocated_bytes.current));
  }
  const std::string limit = stats.limit > 0 ? "; set_memory_limit allows " + size_text(stats.limit) : std::string();
  throw_error(ErrorKind::OutOfMemory, op, ": cannot get ", size_text(bytes), "; ", size_text(os::available_memory()),
              " are available, ", size_text(stats.allocated_bytes.current), " are held by tensors, ",
              size_text(stats.cached_bytes), " are cached", limit);
}

[[noreturn]] void throw_out_of_memory(size_t bytes) { throw_out_of_memory_in("allocate", bytes); }

// Before main: joins the two halves.
[[maybe_unused]] const bool joined = [] {
  small_block_admission = admit_small;
  small_block_room = make_room_for;
  small_block_failure = throw_out_of_memory;
  budget_bounds[static_cast<size_t>(DeviceType::CPU)] = {[](Device, size_t bytes) { set_memory_budget(bytes); },
                                                         [](Device) { return meters.held.current(); }, nullptr};
  return true;
}();

}  // namespace

#if FACULA_PLAIN_MALLOC

void* large_allocate(size_t bytes) {
  if (bytes > kLargestRequest) throw_out_of_memory(bytes);
  const size_t size = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  const auto admit = [&] { return admit_fresh(size); };
  if (!admit() && !attempt_with_room(size, admit)) throw_out_of_memory(bytes);
  void* block = std::aligned_alloc(kAlignment, size);
  if (block == nullptr) throw_out_of_memory(bytes);
  meters.held.add(size);
  meters.reserved.add(size);
  meters.blocks.add(1);
  count_request(size);
  return block;
}

void large_release(void* block, size_t bytes) noexcept {
  const size_t size = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  std::free(block);
  meters.held.subtract(size);
  meters.reserved.subtract(size);
  meters.blocks.subtract(1);
}

#else

void* large_allocate(size_t bytes) {
  if (bytes <= ThreadBlocks::kLargest)
    if (void* block = thread_blocks->take(bytes)) return block;
  if (bytes > kLargestRequest) throw_out_of_memory(bytes);
  if (void* block = try_allocate(bytes)) return block;
  if (void* block = attempt_with_room(region_for(bytes).round(bytes), [&] { return try_allocate(bytes); }))
    return block;
  throw_out_of_memory(bytes);
}

void large_release(void* address, size_t bytes) noexcept {
  if (bytes <= ThreadBlocks::kLargest) {
    if (thread_blocks->has(address, bytes)) die("the block was released before", address, bytes);
    if (cache_block(address, bytes)) return;
  }
  Region& region = region_for(bytes);
  std::lock_guard guard(lock);
  Block* block = region.held_at(address);
  if (block == nullptr) die("no block in use begins here", address, bytes);
  if (block->size != region.round(bytes)) die("the block was allocated with another size", address, bytes);
  policy.held -= block->size;
  meters.held.subtract(block->size);
  meters.blocks.subtract(1);
  region.free(block);
}

#endif

}  // namespace detail

using namespace detail;

bool keeps_released_blocks() { return !FACULA_PLAIN_MALLOC; }

bool is_watched() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return false;
#endif
}

MemoryStats memory_stats() {
  const SmallBlockStats small = small_block_stats();
  std::lock_guard guard(lock);
  const CachedBlocks cached = cached_blocks();
  MemoryStats stats;
  stats.allocated_bytes = {meters.held.current() - small.listed_bytes - cached.bytes, meters.held.peak()};
  stats.allocations = {meters.blocks.current() - small.listed_blocks - cached.count, meters.blocks.peak()};
  stats.reserved_bytes = {meters.reserved.current(), meters.reserved.peak()};
  stats.cached_bytes = stats.reserved_bytes.current - stats.allocated_bytes.current;
  stats.largest_free_block = std::max(middle_region.largest_free(), large_region.largest_free());
  stats.segments = small.segments + (middle_region.usable() > 0) + (large_region.usable() > 0);
  stats.segment_bytes = small.segments * os::kHugePage + middle_region.usable() + large_region.usable();
  stats.hits = meters.hits.load(std::memory_order_relaxed) + small.taken + cached.taken;
  stats.misses = meters.misses.load(std::memory_order_relaxed);
  stats.total_allocations = stats.hits + stats.misses;
  stats.trims = meters.trims.load(std::memory_order_relaxed);
  stats.retries = meters.retries.load(std::memory_order_relaxed);
  stats.failures = meters.failures.load(std::memory_order_relaxed);
  stats.limit = policy.limit;
  stats.budget = policy.budget;
  return stats;
}

void reset_peak_memory_stats() {
  const MemoryStats stats = memory_stats();
  meters.held.restart(stats.allocated_bytes.current);
  meters.blocks.restart(stats.allocations.current);
  meters.reserved.restart(stats.reserved_bytes.current);
}

void empty_cache() {
  if (drop_cached_memory) drop_cached_memory();
  small_block_empty_cache();
  std::lock_guard guard(lock);
  thread_blocks->drain(give_back);
  hot_list.trim(SIZE_MAX);
  middle_region.merge_all();
  large_region.merge_all();
  middle_region.renew();
  large_region.renew();
  policy.peak = policy.previous_peak = policy.held;
}

void set_memory_limit(size_t bytes) {
  std::lock_guard guard(lock);
  set_bounds(bytes, policy.budget);
}

void set_memory_budget(size_t bytes) {
  std::lock_guard guard(lock);
  set_bounds(policy.limit, bytes);
}

void check_room(const char* op, size_t bytes) {
  if (bytes < kFreshBytesPerCheck) return;
  std::unique_lock guard(lock);
  const size_t limit = policy.limit > 0 ? policy.limit : SIZE_MAX;
  bool fits = bytes <= limit && meters.held.current() <= limit - bytes && bytes <= os::total_memory();
  if (fits && bytes > os::available_memory()) {
    hot_list.trim(SIZE_MAX);
    fits = bytes <= os::available_memory();
  }
  guard.unlock();
  if (!fits) throw_out_of_memory_in(op, bytes);
}

}  // namespace facula::cpu
