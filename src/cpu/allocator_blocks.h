// Defines blocks of the CPU allocator (policy: allocator.cpp), and the lists in which free ones are found: by size, and
// by the time of their release.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/memory_meters.h"
#include "core/os_memory.h"

namespace facula::cpu::detail {

using facula::detail::meters;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallestTrim = 4 * kMiB;  // a trim gives at least this much, so that it does not happen too often
constexpr size_t kTrimUnit = 64 * 1024;
constexpr int kBlocksSearched = 32;

struct Block {
  char* begin;
  size_t size;
  char* hot_begin;  // the part of a free block whose pages may be there; empty when equal
  char* hot_end;
  Block* before;  // neighbors by address
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

}  // namespace facula::cpu::detail
