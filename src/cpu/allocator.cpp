// Policy of the CPU allocator
//
// Small blocks (up to 4 KiB): core/small_block.cpp. Everything larger is served here, under one lock. Of blocks up to
// 64 KiB each thread keeps a few that it released, 256 KiB at most (cpu/thread_blocks.h): requests that repeat take no
// lock. To the rules these are held blocks.
//
// 1. There are two regions, one for requests below 1 MiB and one for the rest, so that small blocks do not splinter
//    large ones. A region is one reserved address range that becomes usable from its start as it is needed; in it every
//    free block merges with its free neighbours.
// 2. Sizes are rounded up to 512 bytes (middle region) or 64 KiB (large region): at most an eighth is lost.
// 3. A request takes the best fit: the smallest free block that is large enough, lowest list first, searching a bounded
//    number of blocks per list. What is left over stays free. Without a fit the region grows.
// 4. The large region uses 2 MiB pages; the middle region does once it has grown past 16 MiB.
// 5. A released block keeps its pages ("hot"), so that a repeated request costs no page fault. What malloc would use at
//    its highest is the measure: held + hot bytes never exceed the recent peak of held bytes by more than a sixteenth
//    and 16 MiB, room for the gaps between blocks. When a request would exceed it, the blocks released longest ago give
//    their pages back first. "Recent" means the last 16,384 to 32,768 requests, so that a peak while loading does not
//    count for ever.
// 6. Before 64 MiB of fresh memory are taken, in one request or in several, the system is asked what it has left. If
//    that would leave less than a sixteenth of the memory, all hot pages are given back. What cannot be had without
//    swapping, and what together with the held bytes exceeds physical memory, is refused with an error; the system's
//    willingness to promise more is not relied on.
// 7. A limit set by the user bounds held + hot bytes in the same way: trim first, then refuse. A memory budget does,
//    too, and the smaller of both counts, but before it refuses it asks src/budget for room (core/budget_hooks.h).
//    Trimmed is only what is missing, and nothing where all hot bytes would not do: the blocks that get free then are
//    hot, and serve the request without a page fault. A large block that lies where no pages are gets those of the
//    oldest hot blocks: moving them takes a hundredth of the time of page faults. Packed weights go before anything
//    else does, and caches last. Small blocks are counted by the batches that threads fetch, and go beyond a budget
//    rather than be refused.
// 8. fork() takes the locks, so that a child can go on allocating. It leaves out the hot pages of large free blocks:
//    what nobody holds need not be copied when the parent writes there again, page by page. The child gets empty ones
//    in their place. For the same reason a large block held at a fork gives its pages back when it is released.
//
// Long because the lists, pages and counters of a block change together, under one lock.
#include "cpu/allocator.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "core/budget_bound.h"
#include "core/budget_hooks.h"
#include "core/budget_refusal.h"
#include "core/error.h"
#include "core/memory_meters.h"
#include "core/os_memory.h"
#include "cpu/thread_blocks.h"

namespace facula::cpu {
namespace detail {

using facula::detail::meters;

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLargeRequest = kMiB;
constexpr size_t kLargestRequest = size_t{1} << 46;  // beyond any machine; keeps the arithmetic from overflowing
constexpr size_t kSlack = 16 * kMiB;
constexpr size_t kSmallestTrim = 4 * kMiB;  // a trim gives at least this much, so that it does not happen too often
constexpr size_t kTrimUnit = 64 * 1024;
constexpr size_t kFreshBytesPerCheck = 64 * kMiB;
constexpr int kRequestsPerWindow = 16384;
constexpr int kBlocksSearched = 32;

struct Block {
  char* begin;
  size_t size;
  char* hot_begin;  // the part of a free block whose pages may be there; empty when equal
  char* hot_end;
  Block* before;  // neighbours by address
  Block* after;
  Block* bin_previous;  // free blocks of similar size
  Block* bin_next;
  Block* older;  // free blocks with hot bytes, by time of release
  Block* newer;
  unsigned forks;  // how many there had been when it was taken
  bool held;

  char* end() const { return begin + size; }
  size_t hot() const { return static_cast<size_t>(hot_end - hot_begin); }
};

// Block records are recycled and never returned to the system.
class BlockRecords {
 public:
  Block* make(char* begin, size_t size) {
    if (spare_ == nullptr) {
      auto* batch = new Block[64];
      for (int i = 0; i < 64; ++i) recycle(batch + i);
    }
    Block* block = spare_;
    spare_ = block->after;
    *block = Block{begin, size, begin, begin, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, false};
    return block;
  }
  void recycle(Block* block) {
    block->after = spare_;
    spare_ = block;
  }

 private:
  Block* spare_ = nullptr;
};

constinit BlockRecords records;

// Free blocks with hot bytes, from the one released longest ago to the newest.
class HotList {
 public:
  void append(Block* block) {
    block->older = newest_;
    block->newer = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = block;
    newest_ = block;
    bytes_ += block->hot();
  }
  void remove(Block* block) {
    (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
    (block->newer != nullptr ? block->newer->older : newest_) = block->older;
    bytes_ -= block->hot();
  }
  Block* newest() const { return newest_; }
  Block* oldest() const { return oldest_; }

  // The pages of a block from `from` on are no longer there.
  void cut(Block* block, char* from) {
    remove(block);
    block->hot_end = from;
    if (block->hot() > 0) prepend(block);
    else block->hot_begin = block->hot_end = block->begin;
  }
  size_t bytes() const { return bytes_; }

  // Is trimmed after all others.
  void make_newest(Block* block) {
    if (block->hot() == 0) return;
    remove(block);
    append(block);
  }

  // Gives `bytes` of pages back to the system, or all there are.
  void trim(size_t bytes, size_t least = kSmallestTrim) {
    size_t given = 0;
    while (given < bytes && oldest_ != nullptr) {
      Block* block = oldest_;
      remove(block);
      const size_t wanted = std::min(block->hot(), std::max(bytes - given, least));
      const size_t part = std::min(block->hot(), (wanted + kTrimUnit - 1) & ~(kTrimUnit - 1));
      block->hot_end -= part;
      os::discard(block->hot_end, part);
      given += part;
      if (block->hot() > 0) prepend(block);
    }
    if (given > 0) {
      meters.reserved.subtract(given);
      meters.trims.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  void prepend(Block* block) {
    block->older = nullptr;
    block->newer = oldest_;
    (oldest_ != nullptr ? oldest_->older : newest_) = block;
    oldest_ = block;
    bytes_ += block->hot();
  }

  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  size_t bytes_ = 0;
};

constinit HotList hot_list;
constinit unsigned forks = 0;  // of this process and of those before it

// Free blocks by size: 16 lists per power of two, and a bitmap of those that are not empty.
class Bins {
 public:
  static size_t index(size_t granules) {
    if (granules < 16) return granules;
    const size_t power = static_cast<size_t>(std::bit_width(granules)) - 1;
    return (power - 3) * 16 + ((granules >> (power - 4)) & 15);
  }
  void insert(Block* block, size_t granules) {
    const size_t i = index(granules);
    block->bin_previous = nullptr;
    block->bin_next = heads_[i];
    if (heads_[i] != nullptr) heads_[i]->bin_previous = block;
    heads_[i] = block;
    used_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void remove(Block* block, size_t granules) {
    const size_t i = index(granules);
    (block->bin_previous != nullptr ? block->bin_previous->bin_next : heads_[i]) = block->bin_next;
    if (block->bin_next != nullptr) block->bin_next->bin_previous = block->bin_previous;
    if (heads_[i] == nullptr) used_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
  Block* best_fit(size_t size, size_t granules) const {
    const size_t own = index(granules);
    if (Block* block = smallest_in(own, size)) return block;
    const size_t next = next_used(own + 1);
    return next < kLists ? smallest_in(next, size) : nullptr;
  }
  size_t largest() const {
    for (size_t i = kLists; i-- > 0;) {
      size_t size = 0;
      for (const Block* block = heads_[i]; block != nullptr; block = block->bin_next)
        size = std::max(size, block->size);
      if (size > 0) return size;
    }
    return 0;
  }

 private:
  static constexpr size_t kLists = 16 * 48;

  Block* smallest_in(size_t list, size_t size) const {
    Block* best = nullptr;
    int searched = 0;
    for (Block* block = heads_[list]; block != nullptr && searched < kBlocksSearched;
         block = block->bin_next, ++searched) {
      if (block->size == size) return block;
      if (block->size > size && (best == nullptr || block->size < best->size)) best = block;
    }
    return best;
  }
  size_t next_used(size_t from) const {
    if (from >= kLists) return kLists;
    size_t word = from / 64;
    uint64_t bits = used_[word] & (~uint64_t{0} << (from % 64));
    while (bits == 0) {
      if (++word == kLists / 64) return kLists;
      bits = used_[word];
    }
    return word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }

  Block* heads_[kLists] = {};
  uint64_t used_[kLists / 64] = {};
};

// What the policy remembers. All under `lock`.
struct Policy {
  size_t bound = 0;  // the smaller of the two below that are set; 0: none is
  size_t limit = 0, budget = 0;
  bool tight = false;     // something was trimmed for the sake of the budget
  bool can_move = false;  // pages
  size_t held = 0;        // bytes of held blocks of the two regions
  size_t peak = 0;        // of held, in this window of requests
  size_t previous_peak = 0;
  int requests = 0;
  size_t unchecked = 0;  // fresh bytes since the system was last asked
};
constinit Policy policy;

// What a limit or a budget bounds. A budget does not count what spans of small blocks have left over: how much of that
// there is depends on what the process has done before.
size_t bounded_bytes() {
  return policy.budget > 0 ? meters.held.current() + hot_list.bytes() : meters.reserved.current();
}

// Rule 7: whether so many hot bytes more would pass what a limit or a budget allows.
bool passes_bound(size_t bytes) { return policy.bound > 0 && bounded_bytes() + bytes > policy.bound; }

// An address range that is cut into blocks without gaps.
class Region {
 public:
  constexpr Region(size_t granule, size_t growth, size_t small_pages)
      : granule_(granule), growth_(growth), small_pages_(small_pages) {}

  size_t round(size_t bytes) const { return (bytes + granule_ - 1) & ~(granule_ - 1); }
  size_t usable() const { return usable_; }
  size_t largest_free() const { return bins_.largest(); }

  // The best free block; grows the region if there is none. Null when the address range or the system is
  // exhausted.
  Block* find(size_t size) {
    Block* block = bins_.best_fit(size, size / granule_);
    if (block == nullptr && policy.budget > 0) {
      merge_all();
      block = bins_.best_fit(size, size / granule_);
    }
    return block != nullptr ? block : grow(size);
  }

  // Where `size` bytes are to be cut from a free block: at the end that has more pages; under a budget also between the
  // ends, where that is what has them.
  char* place(const Block* block, size_t size) const {
    char* const back = block->end() - size;
    const size_t at_front = overlap(block, block->begin, block->begin + size);
    const size_t at_back = overlap(block, back, block->end());
    char* const end = at_front >= at_back ? block->begin : back;
    if (policy.budget == 0 || std::max(at_front, at_back) == size) return end;
    const size_t cold = static_cast<size_t>(block->hot_begin - block->begin) & ~(granule_ - 1);
    char* const inside = std::min(block->begin + cold, back);
    return overlap(block, inside, inside + size) > std::max(at_front, at_back) ? inside : end;
  }

  // Cuts `size` bytes at `place` from a free block. Returns them as a held block.
  Block* hold(Block* block, size_t size, char* place) {
    take_out(block);
    if (block->begin < place) {
      Block* upper = split(block, static_cast<size_t>(place - block->begin));
      put_in(block);
      block = upper;
    }
    if (block->size > size) put_in(split(block, size));
    block->held = true;
    block->forks = forks;
    slot(block->begin) = block;
    return block;
  }

  // The held block that begins at `address`, or null.
  Block* held_at(const void* address) {
    const char* begin = static_cast<const char*>(address);
    if (begin < begin_ || begin >= begin_ + usable_ || static_cast<size_t>(begin - begin_) % granule_ != 0)
      return nullptr;
    return slot(begin);
  }

  // Frees a held block, with all its pages hot, and merges it with its free neighbours. Pages that another process may
  // have as well would be copied one by one when written: those of a large block go.
  void free(Block* block) {
    slot(block->begin) = nullptr;
    block->held = false;
    block->hot_begin = block->begin;
    block->hot_end = block->end();
    if (block->forks != forks && block->size >= os::kHugePage) cool(block);
    put_in(merge_neighbours(block));
  }

  // Forgets the pages of a free block that fork() left out, in the child, which gets empty ones.
  void replace_left_out(Block* block, char* begin, size_t bytes) {
    take_out(block);
    meters.reserved.subtract(block->hot());
    block->hot_begin = block->hot_end = block->begin;
    put_in(block);
    if (!os::map_anew(begin, bytes)) hold(block, block->size, block->begin);  // nobody gets it any more
    else if (begin >= begin_ + small_pages_) os::prefer_huge_pages(begin, bytes, !policy.tight);
  }

  // Moves at least `wanted` bytes of pages of the oldest hot blocks to `size` bytes at `place` of a free block, if
  // there are so many that can be moved; returns how many were. Pages are moved in pieces that keep mappings few: a
  // process can have some ten thousand.
  size_t bring_pages(const Block* block, char* place, size_t size, size_t wanted) {
    size_t piece = granule_;
    while (usable_ / piece > os::most_mappings() / 2) piece *= 2;
    const auto up = [piece](char* at) { return at + (-reinterpret_cast<uintptr_t>(at) & (piece - 1)); };
    const auto down = [piece](char* at) { return at - (reinterpret_cast<uintptr_t>(at) & (piece - 1)); };
    char* const hot_begin = std::clamp(block->hot_begin, place, place + size);
    char* const hot_end = std::clamp(block->hot_end, place, place + size);
    size_t moved = 0;
    Block* from = hot_list.oldest();
    for (const auto& [begin, end] : {std::pair(place, hot_begin), std::pair(hot_end, place + size)}) {
      char* to = up(begin);
      while (from != nullptr && moved < wanted && to + piece <= end) {
        Block* const next = from->newer;
        char* const last = down(from->hot_end);
        char* const first = std::min(up(from->hot_begin), last);
        const size_t room = static_cast<size_t>(down(end) - to);
        const size_t most =
            std::min({room, static_cast<size_t>(last - first), (wanted - moved + piece - 1) & ~(piece - 1)});
        const size_t went = from == block || !contains(from) ? 0 : move_run(last - most, to, most, piece);
        moved += went;
        to += went;
        if (went > 0) {
          const auto rest = static_cast<size_t>(from->hot_end - last);
          os::discard(last, rest);
          meters.reserved.subtract(rest);
          hot_list.cut(from, last - went);
        }
        if (!policy.can_move) return moved;
        if (went == 0 || from->hot() == 0) from = next;
      }
    }
    return moved;
  }

  // Gives up what bring_pages() has brought.
  static void forget_pages(const Block* block, char* place, size_t size, size_t moved) {
    char* const hot_begin = std::clamp(block->hot_begin, place, place + size);
    char* const hot_end = std::clamp(block->hot_end, place, place + size);
    os::discard(place, static_cast<size_t>(hot_begin - place));
    os::discard(hot_end, static_cast<size_t>(place + size - hot_end));
    meters.reserved.subtract(moved);
  }

  // Forgets from where the pages of free blocks were moved, so that mappings become one again.
  void renew() {
    if (!moved_) return;
    moved_ = false;
    for (const Block* block = last_; block != nullptr; block = block->before) {
      const bool is_cold = !block->held && block->hot() == 0;
      if (is_cold && os::map_anew(block->begin, block->size))
        advise_pages(static_cast<size_t>(block->begin - begin_), static_cast<size_t>(block->end() - begin_));
      else moved_ = true;
    }
  }

  // Tells the system again which pages are wanted.
  void advise_pages() { advise_pages(0, usable_); }

  // Joins all free neighbours that a budget kept apart.
  void merge_all() {
    for (Block* block = last_; block != nullptr; block = block->before) {
      while (!block->held && block->before != nullptr && !block->before->held && may_join(block->before, block)) {
        Block* before = block->before;
        take_out(before);
        take_out(block);
        put_in(block = join(before, block));
      }
    }
  }

  bool contains(const Block* block) const { return block->begin >= begin_ && block->begin < begin_ + usable_; }

  // Bytes of fresh memory that hold(block, size, place) would need.
  static size_t fresh_bytes(const Block* block, size_t size, char* place) {
    return size - overlap(block, place, place + size);
  }

  // `block`, or one of those released last that needs fewer fresh bytes.
  Block* hottest(Block* block, size_t size) const {
    size_t least = fresh_bytes(block, size, place(block, size));
    int searched = 0;
    for (Block* other = hot_list.newest(); other != nullptr && searched < kBlocksSearched; other = other->older) {
      if (other->size < size || !contains(other)) continue;
      ++searched;
      const size_t fresh = fresh_bytes(other, size, place(other, size));
      if (fresh < least) {
        least = fresh;
        block = other;
      }
      if (least == 0) break;
    }
    return block;
  }

 private:
  // From the end of the range on, in as many parts as it takes; returns how many bytes.
  size_t move_run(char* from, char* to, size_t bytes, size_t piece) {
    if (bytes == 0) return 0;
    const os::Moved done = os::move_pages(from, to, bytes);
    policy.can_move = policy.can_move && done != os::Moved::No;
    moved_ = moved_ || done == os::Moved::Yes;
    if (done == os::Moved::Yes) return bytes;
    if (!policy.can_move || bytes <= piece) return 0;
    const size_t half = (bytes / 2 + piece - 1) & ~(piece - 1);
    const size_t upper = move_run(from + (bytes - half), to, half, piece);
    return upper < half ? upper : upper + move_run(from, to + half, bytes - half, piece);
  }

  static size_t overlap(const Block* block, const char* begin, const char* end) {
    const char* first = std::max<const char*>(block->hot_begin, begin);
    const char* last = std::min<const char*>(block->hot_end, end);
    return last > first ? static_cast<size_t>(last - first) : 0;
  }

  Block*& slot(const char* begin) { return slots_[static_cast<size_t>(begin - begin_) / granule_]; }

  void put_in(Block* block) {
    bins_.insert(block, block->size / granule_);
    if (block->hot() > 0) hot_list.append(block);
  }
  void take_out(Block* block) {
    bins_.remove(block, block->size / granule_);
    if (block->hot() > 0) hot_list.remove(block);
  }

  // Cuts a block that is in no list; returns the upper part.
  Block* split(Block* block, size_t size) {
    Block* upper = records.make(block->begin + size, block->size - size);
    upper->before = block;
    upper->after = block->after;
    (block->after != nullptr ? block->after->before : last_) = upper;
    block->after = upper;
    block->size = size;
    upper->hot_begin = std::clamp(block->hot_begin, upper->begin, upper->end());
    upper->hot_end = std::clamp(block->hot_end, upper->begin, upper->end());
    block->hot_begin = std::min(block->hot_begin, block->end());
    block->hot_end = std::min(block->hot_end, block->end());
    return upper;
  }

  Block* merge_neighbours(Block* block) {
    if (Block* before = block->before; before != nullptr && !before->held && may_join(before, block)) {
      take_out(before);
      block = join(before, block);
    }
    if (Block* after = block->after; after != nullptr && !after->held && may_join(block, after)) {
      take_out(after);
      block = join(block, after);
    }
    return block;
  }

  // Under a budget free neighbours stay apart where pages would go because there are none between.
  static bool may_join(const Block* lower, const Block* upper) {
    return policy.budget == 0 || lower->hot() == 0 || upper->hot() == 0 || lower->hot_end == upper->hot_begin;
  }

  // Makes one block of two neighbours that are in no list.
  Block* join(Block* lower, Block* upper) {
    join_hot(lower, upper);
    lower->size += upper->size;
    lower->after = upper->after;
    (upper->after != nullptr ? upper->after->before : last_) = lower;
    records.recycle(upper);
    return lower;
  }

  static void cool(Block* block) {
    os::discard(block->hot_begin, block->hot());
    meters.reserved.subtract(block->hot());
    block->hot_begin = block->hot_end = block->begin;
  }

  // A block knows one hot interval. If two leave a gap that is larger than the smaller of them, that one goes
  // cold.
  static void join_hot(Block* lower, Block* upper) {
    if (lower->hot() > 0 && upper->hot() > 0) {
      const size_t gap = static_cast<size_t>(upper->hot_begin - lower->hot_end);
      Block* smaller = lower->hot() < upper->hot() ? lower : upper;
      if (gap <= smaller->hot() && !passes_bound(gap)) {
        meters.reserved.add(gap);
        lower->hot_end = upper->hot_end;
        return;
      }
      cool(smaller);
    }
    if (upper->hot() > 0) {
      lower->hot_begin = upper->hot_begin;
      lower->hot_end = upper->hot_end;
    }
  }

  // Makes more of the range usable, so that its last block is free and has `size` bytes.
  Block* grow(size_t size) {
    if (begin_ == nullptr && !reserve()) return nullptr;
    const bool extend = last_ != nullptr && !last_->held;
    const size_t missing = size - (extend ? last_->size : 0);
    const size_t more = (missing + growth_ - 1) / growth_ * growth_;
    if (more > reserved_ - usable_ || !commit(usable_ + more)) return nullptr;
    Block* block = records.make(begin_ + usable_, more);
    usable_ += more;
    block->before = last_;
    if (last_ != nullptr) last_->after = block;
    last_ = block;
    block = merge_neighbours(block);
    put_in(block);
    return block;
  }

  // Four times physical memory, so that gaps between blocks never exhaust it; less under a limit on address
  // space.
  bool reserve() {
    size_t bytes = 4 * os::total_memory();
    rlimit address_space{};
    if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
      bytes = std::min<size_t>(bytes, address_space.rlim_cur / 4);
    bytes = (bytes + os::kHugePage - 1) & ~(os::kHugePage - 1);
    for (; bytes >= 64 * kMiB; bytes = bytes / 2 & ~(os::kHugePage - 1)) {
      begin_ = os::reserve(bytes);
      char* slots = begin_ != nullptr ? os::reserve(slot_bytes(bytes)) : nullptr;
      slots_ = reinterpret_cast<Block**>(slots);
      if (slots != nullptr) break;
      if (begin_ != nullptr) os::unreserve(begin_, bytes);
      begin_ = nullptr;
    }
    reserved_ = begin_ != nullptr ? bytes : 0;
    return begin_ != nullptr;
  }

  size_t slot_bytes(size_t bytes) const {
    return (bytes / granule_ * sizeof(Block*) + os::kPage - 1) & ~(os::kPage - 1);
  }

  bool commit(size_t usable) {
    char* slots = reinterpret_cast<char*>(slots_);
    const size_t had = slot_bytes(usable_), want = slot_bytes(usable);
    if (want > had && !os::commit(slots + had, want - had)) return false;
    if (!os::commit(begin_ + usable_, usable - usable_)) return false;
    advise_pages(usable_, usable);
    return true;
  }

  void advise_pages(size_t from, size_t to) {
    from = std::max(from, small_pages_);
    if (to > from) os::prefer_huge_pages(begin_ + from, to - from, !policy.tight);
  }

  const size_t granule_;
  const size_t growth_;
  const size_t small_pages_;  // bytes at the start that do without 2 MiB pages
  char* begin_ = nullptr;
  size_t reserved_ = 0;
  size_t usable_ = 0;
  Block** slots_ = nullptr;  // per granule: the held block that begins there
  Block* last_ = nullptr;
  bool moved_ = false;  // pages, between blocks
  Bins bins_;
};

constinit std::mutex lock;
constinit Region middle_region{512, 4 * kMiB, 16 * kMiB};
constinit Region large_region{64 * 1024, os::kHugePage, 0};

Region& region_for(size_t bytes) { return bytes < kLargeRequest ? middle_region : large_region; }

// Rule 5.
void keep_bound() {
  if (policy.held > policy.peak) policy.peak = policy.held;
  if (++policy.requests == kRequestsPerWindow) {
    policy.previous_peak = policy.peak;
    policy.peak = policy.held;
    policy.requests = 0;
  }
  const size_t recent_peak = std::max(policy.peak, policy.previous_peak);
  const size_t bound = recent_peak + recent_peak / 16 + kSlack;
  const size_t now = policy.held + hot_list.bytes();
  if (now > bound) hot_list.trim(now - bound);
}

// Fresh pages are small ones from now on, or may be large again: of a large one what is free beside the block would be
// there, too, and not be counted.
void set_tight(bool tight) {
  if (policy.tight == tight) return;
  policy.tight = tight;
  middle_region.advise_pages();
  large_region.advise_pages();
}

void set_bounds(size_t limit, size_t budget) {
  policy.limit = limit;
  policy.budget = budget;
  policy.bound = limit > 0 && budget > 0 ? std::min(limit, budget) : std::max(limit, budget);
  const size_t used = bounded_bytes();
  if (policy.bound > 0 && used > policy.bound) hot_list.trim(used - policy.bound);
  policy.can_move = budget > 0;
  if (budget == 0) {
    set_tight(false);
    middle_region.merge_all();
    large_region.merge_all();
    large_region.renew();
  }
  small_block_counts_spans.store(budget > 0, std::memory_order_relaxed);
}

// Held bytes of both halves of the allocator, those in lists of threads among them.
size_t bytes_in_blocks() { return bounded_bytes() - std::min(hot_list.bytes(), bounded_bytes()); }

// Rule 7. `reused`: hot bytes that the request itself is about to take.
bool fits_bound(size_t fresh, size_t reused, size_t bound) {
  const size_t used = bounded_bytes();
  if (used + fresh <= bound) return true;
  const size_t over = used + fresh - bound;
  if (over > hot_list.bytes() - reused) return false;
  set_tight(policy.budget > 0);
  hot_list.trim(over, policy.budget > 0 ? kTrimUnit : kSmallestTrim);
  return bounded_bytes() + fresh <= bound;
}

// Rules 6 and 7.
bool admit_locked(size_t fresh, size_t reused, size_t bound) {
  if (bound > 0 && !fits_bound(fresh, reused, bound)) return false;
  policy.unchecked += fresh;
  if (policy.unchecked < kFreshBytesPerCheck) return true;
  const size_t total = os::total_memory();
  if (meters.held.current() + fresh > total) return false;
  size_t available = os::available_memory();
  if (available < fresh + total / 16 && hot_list.bytes() > 0) {
    hot_list.trim(SIZE_MAX);
    meters.retries.fetch_add(1, std::memory_order_relaxed);
    available = os::available_memory();
  }
  if (available < fresh) return false;
  policy.unchecked = 0;
  return true;
}

void count_request(size_t fresh) { (fresh == 0 ? meters.hits : meters.misses).fetch_add(1, std::memory_order_relaxed); }

// Rule 7: how many of the fresh bytes were moved there from other blocks, because there must be no more.
size_t move_to(Region& region, const Block* block, char* place, size_t size, size_t fresh) {
  if (&region != &large_region || !policy.can_move || fresh == 0 || !passes_bound(fresh)) return 0;
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

/// Counts the blocks that threads keep and callers do not hold, and how often threads took one again.
struct KeptBlocks {
  size_t bytes = 0, count = 0;
  uint64_t taken = 0;
};

// Lists the threads that have blocks of their own, and counts what ended threads took and what fork() lost. Guarded by
// `lock`.
struct Threads {
  std::vector<ThreadBlocks*> all;
  uint64_t taken_by_ended = 0;
  KeptBlocks lost;
};
Threads& threads() {
  static Threads* instance = new Threads;  // blocks are released until the very end of the process
  return *instance;
}

void give_back(void* address) {
  Region& region = middle_region;
  Block* block = region.held_at(address);
  policy.held -= block->size;
  meters.held.subtract(block->size);
  meters.blocks.subtract(1);
  region.free(block);
}

constinit ThreadBlocks no_blocks{0};  // of threads that have not begun or have ended: always empty, keeps nothing
thread_local constinit ThreadBlocks* thread_blocks __attribute__((tls_model("initial-exec"))) = &no_blocks;
thread_local constinit bool blocks_ended = false;

/// Lives in every thread that has blocks; its end hands them over.
class OwnBlocks {
 public:
  static constexpr size_t kMost = size_t{256} << 10;

  OwnBlocks() : blocks_(new ThreadBlocks(kMost)) {
    std::lock_guard guard(lock);
    threads().all.push_back(blocks_);
    thread_blocks = blocks_;
  }
  ~OwnBlocks() {
    blocks_ended = true;
    thread_blocks = &no_blocks;
    std::lock_guard guard(lock);
    blocks_->drain(give_back);
    threads().taken_by_ended += blocks_->taken();
    std::erase(threads().all, blocks_);
    delete blocks_;
  }
  OwnBlocks(const OwnBlocks&) = delete;

 private:
  ThreadBlocks* blocks_;
};

/// Gives the block to the calling thread; returns false where it has no room for it.
[[maybe_unused]] bool keep_block(void* block, size_t bytes) noexcept {
  if (thread_blocks == &no_blocks && !blocks_ended) static thread_local OwnBlocks own;
  return thread_blocks->keep(block, bytes);
}

KeptBlocks kept_blocks() {
  KeptBlocks kept = threads().lost;
  kept.taken += threads().taken_by_ended;
  for (const ThreadBlocks* blocks : threads().all) {
    kept.bytes += blocks->bytes();
    kept.count += blocks->count();
    kept.taken += blocks->taken();
  }
  return kept;
}

// Rule 8. The newest hot blocks: those are used next.
struct LeftOut {
  Block* block;
  char* begin;
  size_t bytes;
};
constexpr size_t kMostLeftOut = 64;  // each may cut a mapping into three
constinit LeftOut left_out[kMostLeftOut];
constinit size_t left_out_count = 0;

void leave_out_free_blocks() {
  left_out_count = 0;
  for (Block* block = hot_list.newest(); block && left_out_count < kMostLeftOut; block = block->older) {
    if (block->hot() < kLargeRequest) continue;
    LeftOut& part = left_out[left_out_count];
    part = {block, block->hot_begin, block->hot()};
    if (os::keep_from_children(part.begin, part.bytes, true)) ++left_out_count;
  }
}

void before_fork() {
  small_block_lock();
  lock.lock();
  leave_out_free_blocks();
}
void after_fork() {
  for (size_t i = 0; i < left_out_count; ++i) os::keep_from_children(left_out[i].begin, left_out[i].bytes, false);
  ++forks;
  lock.unlock();
  small_block_unlock();
}
// Blocks of other threads, which are no more, may have been caught in the middle of a change: they are given up.
void after_fork_in_child() {
  for (const ThreadBlocks* blocks : threads().all) {
    if (blocks == thread_blocks) continue;
    threads().lost.bytes += blocks->bytes();
    threads().lost.count += blocks->count();
    threads().lost.taken += blocks->taken();
  }
  std::erase_if(threads().all, [](const ThreadBlocks* blocks) { return blocks != thread_blocks; });
  for (size_t i = 0; i < left_out_count; ++i) {
    const LeftOut& part = left_out[i];
    (large_region.contains(part.block) ? large_region : middle_region)
        .replace_left_out(part.block, part.begin, part.bytes);
  }
  ++forks;
  lock.unlock();
  small_block_forget_other_threads();
  small_block_unlock();
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
  if (drop_kept_memory && drop_kept_memory()) return true;
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
  return pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
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
    if (keep_block(address, bytes)) return;
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
  const KeptBlocks kept = kept_blocks();
  MemoryStats stats;
  stats.allocated_bytes = {meters.held.current() - small.listed_bytes - kept.bytes, meters.held.peak()};
  stats.allocations = {meters.blocks.current() - small.listed_blocks - kept.count, meters.blocks.peak()};
  stats.reserved_bytes = {meters.reserved.current(), meters.reserved.peak()};
  stats.cached_bytes = stats.reserved_bytes.current - stats.allocated_bytes.current;
  stats.largest_free_block = std::max(middle_region.largest_free(), large_region.largest_free());
  stats.segments = small.segments + (middle_region.usable() > 0) + (large_region.usable() > 0);
  stats.segment_bytes = small.segments * os::kHugePage + middle_region.usable() + large_region.usable();
  stats.hits = meters.hits.load(std::memory_order_relaxed) + small.taken + kept.taken;
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
  if (drop_kept_memory) drop_kept_memory();
  small_block_empty_cache();
  std::lock_guard guard(lock);
  thread_blocks->drain(give_back);
  hot_list.trim(SIZE_MAX);
  middle_region.merge_all();
  large_region.merge_all();
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
