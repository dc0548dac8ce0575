// Small blocks: lists of each thread, and the pool behind them.
//
// - Thread lists: one per size, bounded; filled and emptied in batches, to take the lock rarely.
// - Spans: 64 KiB of one size with a list of its free blocks; a block finds its span by masking its address.
// - Arenas: 2 MiB of 32 spans, taken from the system and given back whole; one empty arena is cached.
//
// A block released on another thread than it came from just changes lists. A thread that ends hands its lists
// to the pool.
#include "core/small_block.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "core/error.h"
#include "core/memory_meters.h"
#include "core/mode.h"
#include "core/os_memory.h"

namespace facula {
namespace detail {

constinit Meters meters;

namespace {

constexpr size_t kSpan = size_t{64} << 10;
constexpr size_t kArena = os::kHugePage;
constexpr size_t kSpansPerArena = kArena / kSpan;
static_assert(kSpansPerArena == 32, "Arena::free_spans is a 32-bit mask");

constexpr size_t block_size(size_t bin) { return std::max<size_t>(bin, 1) * 64; }
// Blocks that a thread keeps per size: 32 KiB worth, within reason.
constexpr uint32_t list_limit(size_t bin) {
  return static_cast<uint32_t>(std::clamp<size_t>((size_t{32} << 10) / block_size(bin), 8, 256));
}
constexpr uint32_t batch(size_t bin) { return list_limit(bin) / 2; }

struct Arena {
  char* begin;
  uint32_t free_spans = ~0u;  // bit i: span i is unused
  Arena* previous = nullptr;  // in the list of arenas that have unused spans
  Arena* next = nullptr;
};

struct alignas(64) Span {
  Arena* arena;
  FreeBlock* free;  // released blocks; when there are none, blocks are cut at `fresh`
  char* fresh;
  char* end;
  Span* previous;  // in the list of spans of this size that have a free block
  Span* next;
  uint32_t bin;
  uint32_t used;
};
static_assert(sizeof(Span) == 64);

Span* span_of(void* block) { return reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(block) & ~(kSpan - 1)); }
bool has_free(const Span* span) { return span->free != nullptr || span->fresh + block_size(span->bin) <= span->end; }

template <class Node>
void link(Node*& head, Node* node) {
  node->previous = nullptr;
  node->next = head;
  if (head != nullptr) head->previous = node;
  head = node;
}

template <class Node>
void unlink(Node*& head, Node* node) {
  (node->previous != nullptr ? node->previous->next : head) = node->next;
  if (node->next != nullptr) node->next->previous = node->previous;
}

// The pool behind the thread lists. Callers hold `lock`.
class Pool {
 public:
  // Up to `count` blocks, linked; `count` becomes how many there are: 0 when the system gives no memory, or a memory
  // budget has none and is not to be passed.
  FreeBlock* take(size_t bin, uint32_t& count, bool beyond_budget) {
    const size_t bytes = count * block_size(bin);
    const bool counted = small_block_counts_spans.load(std::memory_order_relaxed);
    if (__builtin_expect(counted, 0) && !is_admitted(bytes, beyond_budget)) count = 0;
    FreeBlock* list = nullptr;
    const Span* last = nullptr;
    uint32_t got = 0;
    for (; got < count; ++got) {
      Span* span = spans_[bin];
      if (span == nullptr && (span = open_span(bin)) == nullptr) break;
      last = span;
      FreeBlock* block = cut(span);
      block->next = list;
      list = block;
      if (!has_free(span)) unlink(spans_[bin], span);
    }
    if (last != nullptr) touch_after(last);
    count = got;
    meters.held.add(got * block_size(bin));
    meters.blocks.add(got);
    return list;
  }

  void give(size_t bin, FreeBlock* list) {
    uint32_t given = 0;
    for (; list != nullptr; ++given) {
      FreeBlock* block = list;
      list = block->next;
      Span* span = span_of(block);
      if (!has_free(span)) link(spans_[bin], span);
      block->next = span->free;
      span->free = block;
      if (--span->used == 0) close_span(span);
    }
    meters.held.subtract(given * block_size(bin));
    meters.blocks.subtract(given);
  }

  void release_empty_arenas() {
    for (Arena* arena = arenas_; arena != nullptr;) {
      Arena* next = arena->next;
      if (arena->free_spans == ~0u) release_arena(arena);
      arena = next;
    }
  }

  size_t arena_count() const { return arena_count_; }

  std::mutex lock;
  std::vector<ThreadBins*> threads;
  uint64_t taken_by_ended_threads = 0;

 private:
  static FreeBlock* cut(Span* span) {
    ++span->used;
    if (FreeBlock* block = span->free) {
      span->free = block->next;
      return block;
    }
    auto* block = reinterpret_cast<FreeBlock*>(span->fresh);
    span->fresh += block_size(span->bin);
    return block;
  }

  // The page behind the blocks that are cut is made to be there: a vector that reaches into it, with those lanes masked
  // out, would take hundreds of cycles every time.
  static void touch_after(const Span* span) {
    const volatile char* next = span->fresh;
    if (next < span->arena->begin + kArena) static_cast<void>(*next);
  }

  static bool is_admitted(size_t bytes, bool beyond_budget) {
    return small_block_admission == nullptr || small_block_admission(bytes, beyond_budget);
  }

  Span* open_span(size_t bin) {
    if (arenas_ == nullptr && !open_arena()) return nullptr;
    Arena* arena = arenas_;
    const int index = std::countr_zero(arena->free_spans);
    if (arena->free_spans == ~0u) --empty_arenas_;
    arena->free_spans &= ~(1u << index);
    if (arena->free_spans == 0) unlink(arenas_, arena);
    char* begin = arena->begin + static_cast<size_t>(index) * kSpan;
    auto* span = new (begin)
        Span{arena, nullptr, begin + sizeof(Span), begin + kSpan, nullptr, nullptr, static_cast<uint32_t>(bin), 0};
    link(spans_[bin], span);
    meters.reserved.add(kSpan);
    return span;
  }

  void close_span(Span* span) {
    unlink(spans_[span->bin], span);
    Arena* arena = span->arena;
    const size_t index = static_cast<size_t>(reinterpret_cast<char*>(span) - arena->begin) / kSpan;
    if (arena->free_spans == 0) link(arenas_, arena);
    arena->free_spans |= 1u << index;
    meters.reserved.subtract(kSpan);
    if (arena->free_spans == ~0u && ++empty_arenas_ > 1) release_arena(arena);
  }

  bool open_arena() {
    if (!is_admitted(kArena, true)) return false;  // a budget has admitted the blocks
    char* begin = os::reserve(kArena);
    if (begin == nullptr) return false;
    if (!os::commit(begin, kArena)) {
      os::unreserve(begin, kArena);
      return false;
    }
    // A program that fills one arena will fill more: huge pages cost it nothing from then on.
    if (arena_count_ > 0) os::prefer_huge_pages(begin, kArena);
    link(arenas_, new Arena{begin});
    ++arena_count_;
    ++empty_arenas_;
    return true;
  }

  void release_arena(Arena* arena) {
    unlink(arenas_, arena);
    os::unreserve(arena->begin, kArena);
    delete arena;
    --arena_count_;
    --empty_arenas_;
  }

  Span* spans_[kBins] = {};
  Arena* arenas_ = nullptr;
  size_t arena_count_ = 0;
  size_t empty_arenas_ = 0;
};

// Never destroyed: blocks are released until the very end of the process.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

void drain(ThreadBins* thread) {
  for (size_t i = 0; i < kBins; ++i) {
    pool().give(i, thread->bins[i].head);
    thread->bins[i].head = nullptr;
    thread->bins[i].count.store(0, std::memory_order_relaxed);
  }
}

void set_list_limits(ThreadBins* thread) {
  for (size_t i = 0; i < kBins; ++i) thread->bins[i].limit = list_limit(i);
}

[[noreturn]] void fail(size_t bytes) {
  if (small_block_failure != nullptr) small_block_failure(bytes);
  throw_error(ErrorKind::OutOfMemory, "small_allocate: the system has no memory for a block of ", bytes, " bytes");
}

constinit ThreadBins no_bins;  // of threads that have not begun or have ended: always empty, always full

}  // namespace

thread_local constinit ThreadBins* thread_bins __attribute__((tls_model("initial-exec"))) = &no_bins;

namespace {

// Lives in every thread that has lists; its end hands them over.
class ThreadLists {
 public:
  ThreadLists() : bins_(new ThreadBins) {
    set_list_limits(bins_);
    std::lock_guard guard(pool().lock);
    pool().threads.push_back(bins_);
    thread_bins = bins_;
  }
  ~ThreadLists() {
    ended = true;
    thread_bins = &no_bins;
    std::lock_guard guard(pool().lock);
    drain(bins_);
    for (const Bin& bin : bins_->bins) pool().taken_by_ended_threads += bin.taken.load(std::memory_order_relaxed);
    std::erase(pool().threads, bins_);
    delete bins_;
  }
  ThreadLists(const ThreadLists&) = delete;
  ThreadLists& operator=(const ThreadLists&) = delete;

  static thread_local constinit bool ended;

 private:
  ThreadBins* bins_;
};

thread_local constinit bool ThreadLists::ended = false;

// Adds blocks to a list, which can have got some meanwhile, and counts one more that was taken.
[[maybe_unused]] void add_to(Bin& own, FreeBlock* list, uint32_t count) {
  FreeBlock** end = &list;
  while (*end != nullptr) end = &(*end)->next;
  *end = own.head;
  own.head = list;
  own.count.store(own.count.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  own.taken.store(own.taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// The calling thread's lists; null once the thread is being torn down.
[[maybe_unused]] ThreadBins* own_bins() {
  if (ThreadLists::ended) return nullptr;
  static thread_local ThreadLists lists;
  return thread_bins;
}

#if FACULA_PLAIN_MALLOC
std::atomic<uint64_t> plain_taken{0};
#endif

}  // namespace

#if FACULA_PLAIN_MALLOC

void* small_allocate_slow(size_t bin) {
  void* block = std::aligned_alloc(64, block_size(bin));
  if (block == nullptr) fail(block_size(bin));
  meters.held.add(block_size(bin));
  meters.reserved.add(block_size(bin));
  meters.blocks.add(1);
  plain_taken.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void small_release_slow(void* block, size_t bin) noexcept {
  std::free(block);
  meters.held.subtract(block_size(bin));
  meters.reserved.subtract(block_size(bin));
  meters.blocks.subtract(1);
}

#else

void* small_allocate_slow(size_t bin) {
  ThreadBins* thread = own_bins();
  const uint32_t wanted = thread != nullptr ? batch(bin) : 1;
  uint32_t count = wanted;
  const auto take = [&](bool beyond_budget) {
    std::lock_guard guard(pool().lock);
    FreeBlock* list = pool().take(bin, count = wanted, beyond_budget);
    if (thread == nullptr) pool().taken_by_ended_threads += count;
    return list;
  };
  FreeBlock* list = take(false);
  const size_t bytes = wanted * block_size(bin);
  while (list == nullptr && small_block_room != nullptr && small_block_room(bytes)) {
    // what went lies in the list now
    if (thread != nullptr && thread->bins[bin].head != nullptr) return small_allocate(bin * 64);
    list = take(false);
  }
  if (list == nullptr) list = take(true);
  if (list == nullptr) fail(block_size(bin));
  if (thread != nullptr) add_to(thread->bins[bin], list->next, count - 1);
  return list;
}

void small_release_slow(void* block, size_t bin) noexcept {
  auto* freed = static_cast<FreeBlock*>(block);
  ThreadBins* thread = own_bins();
  if (thread == nullptr) {
    freed->next = nullptr;
    std::lock_guard guard(pool().lock);
    pool().give(bin, freed);
    return;
  }
  Bin& own = thread->bins[bin];
  if (own.count.load(std::memory_order_relaxed) >= own.limit) {
    // Full: the older part goes, the part that is still in the processor's caches stays.
    const uint32_t keep = own.limit - batch(bin);
    FreeBlock* last = own.head;
    for (uint32_t i = 1; i < keep; ++i) last = last->next;
    FreeBlock* older = last->next;
    last->next = nullptr;
    own.count.store(keep, std::memory_order_relaxed);
    std::lock_guard guard(pool().lock);
    pool().give(bin, older);
  }
  freed->next = own.head;
  own.head = freed;
  own.count.store(own.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

#endif

}  // namespace detail

using namespace detail;

SmallBlockStats small_block_stats() {
  SmallBlockStats stats;
#if FACULA_PLAIN_MALLOC
  stats.taken = plain_taken.load(std::memory_order_relaxed);
#else
  std::lock_guard guard(pool().lock);
  stats.taken = pool().taken_by_ended_threads;
  for (const ThreadBins* thread : pool().threads) {
    for (size_t i = 0; i < kBins; ++i) {
      const size_t listed = thread->bins[i].count.load(std::memory_order_relaxed);
      stats.listed_blocks += listed;
      stats.listed_bytes += listed * block_size(i);
      stats.taken += thread->bins[i].taken.load(std::memory_order_relaxed);
    }
  }
  stats.segments = pool().arena_count();
#endif
  return stats;
}

void small_block_empty_cache() {
  std::lock_guard guard(pool().lock);
  if (thread_bins != &no_bins) drain(thread_bins);
  pool().release_empty_arenas();
}

void small_block_lock() {
  threads_lock();
  pool().lock.lock();
}
void small_block_unlock() {
  pool().lock.unlock();
  threads_unlock();
}

// Only the forking thread lives on in the child. The lists of the others may have been caught in the middle
// of a change, so their blocks are given up: at most 32 KiB per size and thread.
void small_block_forget_other_threads() {
  threads_forget_others();
  for (const ThreadBins* thread : pool().threads) {
    if (thread == thread_bins) continue;
    for (size_t i = 0; i < kBins; ++i) {
      const size_t listed = thread->bins[i].count.load(std::memory_order_relaxed);
      meters.held.subtract(listed * block_size(i));
      meters.blocks.subtract(listed);
    }
  }
  std::erase_if(pool().threads, [](const ThreadBins* thread) { return thread != thread_bins; });
}

}  // namespace facula
