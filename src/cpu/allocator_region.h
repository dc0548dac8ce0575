// Defines the two address ranges of the CPU allocator, and what its policy (allocator.cpp) remembers of them.
#pragma once

#include <mutex>

#include "cpu/allocator_blocks.h"

namespace facula::cpu::detail {

constexpr size_t kLargeRequest = kMiB;

// All of these under `lock`. What has such a common name is defined in allocator.cpp, so that no other binary gets a
// copy.
extern constinit std::mutex lock;
extern constinit BlockRecords records;
inline constinit HotList hot_list;
inline constinit unsigned forks = 0;  // of this process and of those before it

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
  size_t unchecked = 0;  // fresh bytes since the system was last queried
};
inline constinit Policy policy;

// What a limit or a budget bounds. A budget does not count what spans of small blocks have left over: how much of that
// there is depends on what the process has done before.
inline size_t bounded_bytes() {
  return policy.budget > 0 ? meters.held.current() + hot_list.bytes() : meters.reserved.current();
}

// Rule 7: whether so many hot bytes more would pass what a limit or a budget allows.
inline bool passes_bound(size_t bytes) { return policy.bound > 0 && bounded_bytes() + bytes > policy.bound; }

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
  Block* find(size_t size);

  // Where `size` bytes are to be cut from a free block: at the end that has more pages; under a budget also between the
  // ends, where that is what has them.
  char* place(const Block* block, size_t size) const;

  // Cuts `size` bytes at `place` from a free block. Returns them as a held block.
  Block* hold(Block* block, size_t size, char* place);

  // The held block that begins at `address`, or null.
  Block* held_at(const void* address);

  // Frees a held block, with all its pages hot, and merges it with its free neighbors. Pages that another process may
  // have as well would be copied one by one when written: those of a large block go.
  void free(Block* block);

  // Forgets the pages of a free block that fork() left out, in the child, which gets empty ones.
  void replace_left_out(Block* block, char* begin, size_t bytes);

  // Moves at least `wanted` bytes of pages of the oldest hot blocks, of both regions, to `size` bytes at `place` of
  // a free block, if there are so many that can be moved; returns how many were. Pages are moved in
  // pieces that keep mappings few: a process can have some ten thousand.
  size_t bring_pages(const Block* block, char* place, size_t size, size_t wanted);

  // Gives up what bring_pages() has brought.
  static void forget_pages(const Block* block, char* place, size_t size, size_t moved);

  // Forgets from where the pages of free blocks were moved, so that mappings become one again.
  void renew();

  // Tells the system again which pages are wanted.
  void advise_pages() { advise_pages(0, usable_); }

  // Joins all free neighbors that a budget left apart.
  void merge_all();

  bool contains(const Block* block) const { return block->begin >= begin_ && block->begin < begin_ + usable_; }

  // Bytes of fresh memory that hold(block, size, place) would need.
  static size_t fresh_bytes(const Block* block, size_t size, char* place);

  // `block`, or one of those released last that needs fewer fresh bytes.
  Block* hottest(Block* block, size_t size) const;

 private:
  static constexpr size_t kMostPieces = 24576;

  size_t piece() const;
  Region& other() const;

  // From the end of the range on, in as many parts as it takes; returns how many bytes.
  size_t move_run(char* from, char* to, size_t bytes, size_t piece);

  static size_t overlap(const Block* block, const char* begin, const char* end);

  Block*& slot(const char* begin) { return slots_[static_cast<size_t>(begin - begin_) / granule_]; }

  void put_in(Block* block);
  void take_out(Block* block);

  // Cuts a block that is in no list; returns the upper part.
  Block* split(Block* block, size_t size);

  Block* merge_neighbors(Block* block);

  // Under a budget free neighbors stay apart where pages would go because there are none between.
  static bool may_join(const Block* lower, const Block* upper);

  // Makes one block of two neighbors that are in no list.
  Block* join(Block* lower, Block* upper);

  static void cool(Block* block);

  // A block knows one hot interval. If two leave a gap that is larger than the smaller of them, that one goes
  // cold.
  static void join_hot(Block* lower, Block* upper);

  // Makes more of the range usable, so that its last block is free and has `size` bytes.
  Block* grow(size_t size);

  // Four times physical memory, so that gaps between blocks never exhaust it; less under a limit on address
  // space.
  bool reserve();

  size_t slot_bytes(size_t bytes) const;

  bool commit(size_t usable);

  void advise_pages(size_t from, size_t to);

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

inline constinit Region middle_region{512, 4 * kMiB, 16 * kMiB};
inline constinit Region large_region{64 * 1024, os::kHugePage, 0};

inline Region& region_for(size_t bytes) { return bytes < kLargeRequest ? middle_region : large_region; }

}  // namespace facula::cpu::detail
