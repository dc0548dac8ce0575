// Manages the memory that the driver gives a device's allocator: segments of fixed size or expandable ones, within the
// limit and the memory budget; and how it goes back. The policy is in allocator.h. The caller holds the allocator's
// lock, and has made the device current.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/allocator_settings.h"
#include "cuda/block_store.h"
#include "cuda/device_pools.h"

namespace facula::cuda {

class DeviceSegments {
 public:
  DeviceSegments(int device, BlockStore& blocks, DevicePools& pools, AllocatorRecords& records);

  AllocatorSettings settings;
  size_t limit, budget = 0;  // 0: none
  /// The most that may be reserved.
  size_t bound() const { return budget ? std::min(limit, budget) : limit; }
  bool are_expandable() const { return settings.expandable_segments || budget; }
  /// Whether expandable segments exist, whose memory is not unmapped before the work of the device is done.
  bool have_ranges() const { return !pools_.small.ranges.empty() || !pools_.large.ranges.empty(); }

  /// A free block of at least `size` bytes, in no pool, of memory that the driver gave just now. Null where the bound
  /// or the device does not allow it.
  Block* make(Pool& pool, size_t size, uint64_t stream);
  /// Gives a free block back, or the whole granules in it. Returns whether the driver got anything.
  bool release(Block* block);
  /// Gives back all free blocks but those of graphs that are in use. The caller has waited for the work that uses them.
  bool release_cached();
  /// The granules that a block of an expandable segment lies in, as files.
  Segment export_granules(const Block* block) const;
  /// Returns when the stream has done what is queued on it.
  void wait_for(uint64_t stream) const;

 private:
  Block* make_fixed(Pool& pool, size_t bytes, uint64_t stream);
  bool release_all(Pool& pool);
  void release_oldest_unsplit(size_t wanted);
  bool release_oldest(size_t bytes, const Block* beside);
  bool is_empty(const GraphPool& pool) const;
  void forget(const GraphPool& pool);

  Range& new_range(Pool& pool, uint64_t stream);
  Block* expand(Pool& pool, size_t size, uint64_t stream);
  bool map_within_bound(Block* block, size_t bytes);
  bool unmap(Block* block, size_t most = SIZE_MAX);

  const int device_;
  BlockStore& blocks_;
  DevicePools& pools_;
  AllocatorRecords& records_;
};

}  // namespace facula::cuda
