// Caches blocks above the small ones that a thread released and may need again: a few of each size, reached without a
// lock. To the regions (allocator.cpp) they are held. Only their thread changes them; memory_stats() reads the
// counters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace facula::cpu::detail {

class ThreadBlocks {
 public:
  static constexpr size_t kStep = 512;  // to which sizes are rounded: the granule of the middle region
  static constexpr size_t kLargest = size_t{64} << 10;

  /// `most`: bytes that the thread keeps; none in what stands in for threads that have not begun or have ended.
  constexpr explicit ThreadBlocks(size_t most) : most_(most) {}

  static constexpr size_t rounded(size_t bytes) { return (bytes + kStep - 1) & ~(kStep - 1); }

  /// A block of rounded(bytes), at most kLargest, or null.
  void* take(size_t bytes) {
    Slot& slot = slots_[rounded(bytes) / kStep];
    if (slot.count == 0) return nullptr;
    void* block = slot.blocks[--slot.count];
    change(bytes_, -rounded(bytes));
    change(count_, size_t{0} - 1);
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return block;
  }
  /// Keeps a block of rounded(bytes), at most kLargest; returns false where there is no room for it.
  bool keep(void* block, size_t bytes) {
    Slot& slot = slots_[rounded(bytes) / kStep];
    if (slot.count == kEach || bytes_.load(std::memory_order_relaxed) + rounded(bytes) > most_) return false;
    slot.blocks[slot.count++] = block;
    change(bytes_, rounded(bytes));
    change(count_, 1);
    return true;
  }
  bool has(const void* block, size_t bytes) const {
    const Slot& slot = slots_[rounded(bytes) / kStep];
    for (uint32_t k = 0; k < slot.count; ++k)
      if (slot.blocks[k] == block) return true;
    return false;
  }
  /// Calls give(block) for all blocks and empties the slots.
  template <class F>
  void drain(F give) {
    for (Slot& slot : slots_)
      while (slot.count > 0) give(slot.blocks[--slot.count]);
    bytes_.store(0, std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
  }

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kEach = 4;
  struct Slot {
    uint32_t count = 0;
    void* blocks[kEach] = {};
  };

  static void change(std::atomic<size_t>& counter, size_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  Slot slots_[kLargest / kStep + 1];
  size_t most_;
  std::atomic<size_t> bytes_{0}, count_{0};
  std::atomic<uint64_t> taken_{0};
};

}  // namespace facula::cpu::detail
