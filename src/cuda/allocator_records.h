// Counts what an allocator does, and holds the history that it writes for snapshots. The caller holds the allocator's
// lock.
#pragma once

#include "cuda/allocator.h"
#include "cuda/block.h"
#include "cuda/memory_trace.h"

namespace facula::cuda {

class AllocatorRecords {
 public:
  AllocatorStats stats;
  MemoryTrace trace;

  void note(const char* action, const Block* block, size_t size) {
    if (MemoryTrace::is_on()) write_note(action, block, size);
  }
  /// A block begins (`sign` 1) or ceases (-1) to be one that the program has.
  void count_allocated(const Block* block, int sign) {
    count(stats.allocation, block, sign);
    count(stats.allocated_bytes, block, sign * static_cast<int64_t>(block->size));
    count(stats.requested_bytes, block, sign * static_cast<int64_t>(block->requested));
  }
  /// ... that is in use, by the program or by streams.
  void count_active(const Block* block, int sign) {
    count(stats.active, block, sign);
    count(stats.active_bytes, block, sign * static_cast<int64_t>(block->size));
  }
  /// ... a free piece of a divided segment.
  void count_free(const Block* block, int sign) {
    if (!block->is_split() || block->range) return;
    count(stats.inactive_split, block, sign);
    count(stats.inactive_split_bytes, block, sign * static_cast<int64_t>(block->size));
  }
  /// ... memory that the driver gave.
  void count_segment(const Block* block, int sign) {
    if (block->range) note(sign > 0 ? "segment_map" : "segment_unmap", block, block->size);
    else note(sign > 0 ? "segment_alloc" : "segment_free", block, block->size);
    count(stats.segment, block, sign);
    count(stats.reserved_bytes, block, sign * static_cast<int64_t>(block->size));
    ++(sign > 0 ? stats.driver_allocations : stats.driver_frees);
  }

  size_t reserved() const { return static_cast<size_t>(stats.reserved_bytes.all.current); }
  size_t active() const { return static_cast<size_t>(stats.active_bytes.all.current); }
  size_t allocated() const { return static_cast<size_t>(stats.allocated_bytes.all.current); }

 private:
  static void count(Stats3& stats, const Block* block, int64_t amount) {
    if (!amount) return;
    stats.all.add(amount);
    stats.of(block->pool->is_small).add(amount);
  }
  void write_note(const char* action, const Block* block, size_t size);
};

}  // namespace facula::cuda
