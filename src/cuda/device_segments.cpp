#include "cuda/device_segments.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "cuda/device.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

constexpr size_t kSmallSegment = 2 << 20, kMostMiddle = 10 << 20, kMiddleSegment = 20 << 20, kLargeUnit = 2 << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t segment_size(size_t bytes) {
  return bytes <= kMostSmallBlock ? kSmallSegment : bytes < kMostMiddle ? kMiddleSegment : round_up(bytes, kLargeUnit);
}

size_t free_bytes(const Block* block) { return block && block->is_free() ? block->size : 0; }

/// The first place of a range where, with the free blocks beside it, there is room: an unmapped block.
Block* find_room(const Range& range, size_t size) {
  for (Block* b = range.first; b; b = b->after)
    if (!b->is_mapped() && free_bytes(b->before) + b->size + free_bytes(b->after) >= size) return b;
  return nullptr;
}

/// The whole granules inside of a block, as offsets from the beginning of its range.
struct InnerGranules {
  explicit InnerGranules(const Block* block) {
    const ExpandableRange& range = block->range->memory;
    block_begin = block->address - range.base();
    begin = round_up(block_begin, range.granule());
    end = (block_begin + block->size) / range.granule() * range.granule();
  }
  size_t bytes() const { return end > begin ? end - begin : 0; }
  size_t block_begin, begin, end;
};

/// The bytes of a free block that release() would give back.
size_t releasable_bytes(const Block* block) {
  if (block->range) return InnerGranules(block).bytes();
  return block->is_split() ? 0 : block->size;
}

bool is_older(const Block* a, const Block* b) { return a->age < b->age; }
bool is_of(const Block& block, const GraphPool& pool) { return block.pool->graph == &pool; }

}  // namespace

DeviceSegments::DeviceSegments(int device, BlockStore& blocks, DevicePools& pools, AllocatorRecords& records)
    : limit(properties(device).total_memory), device_(device), blocks_(blocks), pools_(pools), records_(records) {}

Block* DeviceSegments::make(Pool& pool, size_t size, uint64_t stream) {
  if (is_caching_off() && !pool.graph) return make_fixed(pool, size, stream);
  return are_expandable() ? expand(pool, size, stream) : make_fixed(pool, segment_size(size), stream);
}

Block* DeviceSegments::make_fixed(Pool& pool, size_t bytes, uint64_t stream) {
  release_oldest_unsplit(bytes);
  if (records_.reserved() + bytes > bound()) return nullptr;
  CUdeviceptr address = 0;
  RelaxedCapture relaxed;
  const CUresult result = driver().cuMemAlloc_v2(&address, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check(result, "cuMemAlloc_v2");
  Block* block = blocks_.make(address, bytes, stream, pool);
  records_.count_segment(block, 1);
  return block;
}

// ---- expandable segments

Range& DeviceSegments::new_range(Pool& pool, uint64_t stream) {
  const size_t total = properties(device_).total_memory;  // addresses cost nothing
  const bool is_fine = pool.is_small || budget;
  pool.ranges[stream].emplace_back(
      new Range{{device_, total + total / 8, is_fine ? kSmallSegment : kMiddleSegment}, is_fine});
  Range& range = *pool.ranges[stream].back();
  Block* block = blocks_.make(range.memory.base(), range.memory.bytes(), stream, pool);
  block->range = &range;
  block->state = BlockState::Unmapped;
  range.first = block;
  return range;
}

/// Maps as much as is missing in one place. A second range only serves holes that lie badly in the first.
Block* DeviceSegments::expand(Pool& pool, size_t size, uint64_t stream) {
  if (size > bound()) return nullptr;
  Block* block = nullptr;
  for (const auto& range : pool.ranges[stream])
    if (!block && (range->is_fine || !budget)) block = find_room(*range, size);
  if (!block) block = new_range(pool, stream).first;
  const size_t need = std::min(round_up(size - free_bytes(block->before), block->range->memory.granule()), block->size);
  release_oldest_unsplit(need);
  if (!map_within_bound(block, need)) return nullptr;
  if (need < block->size) blocks_.cut(block, need);
  block->state = BlockState::Free;
  records_.count_segment(block, 1);
  return blocks_.join_free(block);
}

/// Maps the beginning of a block, with granules of others where a budget has no more.
bool DeviceSegments::map_within_bound(Block* block, size_t bytes) {
  const size_t wanted = records_.reserved() + bytes;
  if (wanted > bound() && !(budget && release_oldest(wanted - bound(), block))) return false;
  RelaxedCapture relaxed;
  const auto map = [&] { return block->range->memory.map(block->address, bytes); };
  return map() || (budget && release_oldest(bytes, block) && map());  // others may have taken the memory
}

/// Whole granules of a free block go back to the driver: so many bytes, or all there are.
bool DeviceSegments::unmap(Block* block, size_t most) {
  const InnerGranules inner(block);
  if (inner.bytes() == 0) return false;
  const size_t bytes = std::min(inner.bytes(), round_up(std::min(most, inner.end), block->range->memory.granule()));
  blocks_.remove(block);
  if (inner.begin > inner.block_begin) {
    Block* rest = blocks_.cut(block, inner.begin - inner.block_begin);
    blocks_.put(block);
    block = rest;
  }
  if (block->size > bytes) blocks_.put(blocks_.cut(block, bytes));
  block->range->memory.unmap(block->address, block->size);
  records_.count_segment(block, -1);
  block->state = BlockState::Unmapped;
  if (block->before && !block->before->is_mapped()) block = blocks_.join(block->before, block);
  if (block->after && !block->after->is_mapped()) blocks_.join(block, block->after);
  return true;
}

Segment DeviceSegments::export_granules(const Block* block) const {
  const ExpandableRange& range = block->range->memory;
  const size_t granule = range.granule(), begin = (block->address - range.base()) / granule * granule;
  const CUdeviceptr first = range.base() + begin;
  Segment made{reinterpret_cast<void*>(first), round_up(block->address + block->size - first, granule), granule, {}};
  try {
    for (size_t done = 0; done < made.bytes; done += granule) made.files.push_back(range.export_granule(first + done));
  } catch (...) {
    for (const int file : made.files) close(file);
    throw;
  }
  return made;
}

// ---- giving back

bool DeviceSegments::release(Block* block) {
  if (block->range) return unmap(block);
  if (block->is_split()) return false;
  blocks_.remove(block);
  FACULA_CUDA_CALL(cuMemFree_v2, block->address);
  records_.count_segment(block, -1);
  blocks_.forget(block);
  return true;
}

bool DeviceSegments::release_all(Pool& pool) {
  bool any = false;
  blocks_.join_recent(pool);
  const std::vector<Block*> all(pool.free.begin(), pool.free.end());
  for (Block* block : all) any |= release(block);
  return any;
}

bool DeviceSegments::release_cached() {
  RelaxedCapture relaxed;
  bool any = release_all(pools_.small);
  any |= release_all(pools_.large);
  auto& graph_pools = pools_.of_graphs();
  for (auto p = graph_pools.begin(); p != graph_pools.end();) {
    GraphPool& pool = *p->second;
    if (pool.users == 0 && !pools_.is_capturing()) {
      any |= release_all(pool.small);
      any |= release_all(pool.large);
    }
    const bool is_done = pool.users == 0 && is_empty(pool);
    if (is_done) forget(pool);
    p = is_done ? graph_pools.erase(p) : std::next(p);
  }
  return any;
}

bool DeviceSegments::is_empty(const GraphPool& pool) const {
  bool empty = true;
  blocks_.each([&](const Block& b) { empty &= !is_of(b, pool) || !b.is_mapped(); });
  return empty;
}

/// Drops the addresses of an empty pool that are still reserved.
void DeviceSegments::forget(const GraphPool& pool) {
  std::vector<Block*> gone;
  blocks_.each([&](Block& b) {
    if (is_of(b, pool)) gone.push_back(&b);
  });
  for (Block* block : gone) blocks_.forget(block);
}

/// Gives back segments that have been free for longest, where garbage_collection_threshold is set.
void DeviceSegments::release_oldest_unsplit(size_t wanted) {
  const auto most = static_cast<size_t>(settings.garbage_threshold * static_cast<double>(limit));
  if (most == 0 || records_.reserved() + wanted <= most || pools_.is_capturing()) return;
  std::vector<Block*> candidates;
  for (Block* block : pools_.large.free)
    if (!block->is_split()) candidates.push_back(block);
  std::sort(candidates.begin(), candidates.end(), is_older);
  for (Block* block : candidates) {
    if (records_.reserved() + wanted <= most) return;
    release(block);
  }
}

/// Gives back so many bytes of those that have been free for longest, but of no block beside `beside`; nothing where
/// all of them are not enough, or where they cannot be waited for.
bool DeviceSegments::release_oldest(size_t bytes, const Block* beside) {
  if (pools_.is_capturing()) return false;
  std::vector<Block*> candidates;
  size_t together = 0;
  for (Pool* pool : {&pools_.small, &pools_.large}) {
    blocks_.join_recent(*pool);
    for (Block* block : pool->free) {
      if (block == beside->before || block == beside->after || releasable_bytes(block) == 0) continue;
      candidates.push_back(block);
      together += releasable_bytes(block);
    }
  }
  if (together < bytes) return false;
  std::sort(candidates.begin(), candidates.end(), is_older);
  std::set<uint64_t> waited;
  for (Block* block : candidates) {
    if (bytes == 0) break;
    if (waited.insert(block->stream).second) wait_for(block->stream);
    const size_t part = std::min(bytes, releasable_bytes(block));
    if (block->range) unmap(block, part);
    else release(block);
    bytes -= part;
  }
  return true;
}

void DeviceSegments::wait_for(uint64_t stream) const {
  const Stream it{{DeviceType::CUDA, static_cast<int8_t>(device_)}, stream};
  if (driver().cuStreamSynchronize(handle(it)) == CUDA_SUCCESS) return;
  check(driver().cuCtxSynchronize(), "cuCtxSynchronize");  // the stream may be gone
}

}  // namespace facula::cuda
