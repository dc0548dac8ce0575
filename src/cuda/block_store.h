// Holds all blocks of a device: how they are found, cut, merged, and put into the lists of their pools (block.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/address_map.h"
#include "cuda/allocator_records.h"
#include "cuda/block.h"

namespace facula::cuda {

/// Blocks are linked to their neighbors. The store lives as long as the process.
class BlockStore {
 public:
  explicit BlockStore(AllocatorRecords& records) : records_(records) {}

  /// Null where no block begins.
  Block* find(const void* memory) const { return blocks_.find(reinterpret_cast<CUdeviceptr>(memory)); }
  template <class F>
  void each(F f) const {
    blocks_.each(f);
  }

  /// A free block that is in no pool yet.
  Block* make(CUdeviceptr address, size_t size, uint64_t stream, Pool& pool);
  void forget(Block* block);

  // ---- free blocks

  /// Into its pool, and out of it.
  void put(Block* block);
  void remove(Block* block);
  /// The best fit of a pool, removed from it. `max_split` separates requests from blocks, as the setting of this name
  /// says.
  Block* find_free(Pool& pool, size_t size, uint64_t stream, size_t max_split);
  /// Merges a free block with its free neighbors; the result is in no pool.
  Block* join_free(Block* block);
  /// Two neighbors become the first.
  Block* join(Block* first, Block* second);
  /// Cuts a block after `size` bytes, and returns the rest, which is in no pool.
  Block* cut(Block* block, size_t size);
  /// An active block becomes free, and is put into its pool.
  Block* make_free(Block* block);

  // ---- recent blocks

  static Block* find_recent(Pool& pool, size_t size, uint64_t stream) {
    if (size > kMostRecentSize) return nullptr;
    Pool::Recent& recent = recent_of(pool, size);
    if (!recent.last || recent.stream != stream) return nullptr;
    return std::exchange(recent.last, recent.last->next_recent);
  }
  /// Whether the list of its size may hold the block.
  static bool can_be_recent(const Block* block) {
    if (block->size > kMostRecentSize || !block->pool->is_small) return false;
    const Pool::Recent& recent = recent_of(*block->pool, block->size);
    return !recent.last || recent.stream == block->stream;
  }
  static void put_recent(Block* block) {
    Pool::Recent& recent = recent_of(*block->pool, block->size);
    recent.stream = block->stream;
    block->state = BlockState::Recent;
    block->next_recent = std::exchange(recent.last, block);
    block->pool->has_recent = true;
  }
  /// All of them become free. Returns whether there were any.
  bool join_recent(Pool& pool);

 private:
  static Pool::Recent& recent_of(Pool& pool, size_t size) { return pool.recent[size / kBlockUnit]; }

  AllocatorRecords& records_;
  AddressMap<Block> blocks_;
  std::vector<Block*> spare_;
  uint64_t clock_ = 0;
};

}  // namespace facula::cuda
