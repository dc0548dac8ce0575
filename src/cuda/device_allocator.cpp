#include "cuda/device_allocator.h"

#include <algorithm>
#include <bit>

#include "core/budget_bound.h"
#include "core/budget_hooks.h"
#include "core/checked.h"
#include "core/places.h"
#include "cuda/device.h"

namespace facula::cuda {
namespace {

constexpr unsigned char kUnsetPoison = 0xff, kReleasedPoison = 0xdd;  // the first is NaN in real dtypes

size_t whole_units(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t block_size(size_t bytes, const AllocatorSettings& settings) {
  if (bytes < kBlockUnit) return kBlockUnit;
  const size_t divisions = divisions_for(settings, bytes);
  if (divisions > 1 && bytes > kBlockUnit * divisions) return whole_units(bytes, std::bit_floor(bytes) / divisions);
  return whole_units(bytes, kBlockUnit);
}

}  // namespace

// ---- requests

void* DeviceAllocator::allocate(size_t bytes, Stream stream) {
  const BlockTensor tensor(made_tensor);
  const uint32_t place = are_places_recorded ? place_here() : 0;
  std::unique_lock<std::mutex> lock(mutex_);
  if (allocator_settings_version() != settings_version_) update_settings();
  if (__builtin_expect(!pending_.empty(), 0)) free_reached();
  FACULA_CHECK(bytes <= static_cast<size_t>(INT64_MAX) / 2, ErrorKind::OutOfMemory, current_op(),
               ": a size that memory can have, got ", bytes, " bytes");
  const size_t cached_size = block_size(bytes, segments_.settings);
  Pool& pool = pool_for(cached_size, stream);
  const size_t size = is_caching_off() && !pool.graph ? std::max<size_t>(bytes, 1) : cached_size;
  Block* block = BlockStore::find_recent(pool, size, stream.id);
  if (!block) {
    block = find_or_make(pool, size, stream.id);
    if (!block) block = find_with_room(lock, size, stream);
    if (!block) block = find_without_cache(pool_for(size, stream), size, stream.id);
    if (!block) block = borrow(size, stream);
    if (!block) {
      MemoryReport report = describe_exhaustion(bytes, size);
      report.wanted_for = tensor;
      lock.unlock();
      report_out_of_memory(std::move(report));
    }
    cut_to(block, size);
  }
  hand_out(block, bytes);
  block->tensor = tensor;
  block->place = place;
  records_.note("alloc", block, bytes);
  return reinterpret_cast<void*>(block->address);
}

void DeviceAllocator::update_settings() {
  settings_version_ = allocator_settings_version();
  segments_.settings = allocator_settings();
}

Block* DeviceAllocator::find_or_make(Pool& pool, size_t size, uint64_t stream) {
  const size_t max_split = segments_.settings.max_split;
  Block* block = blocks_.find_free(pool, size, stream, max_split);
  if (!block && blocks_.join_recent(pool)) block = blocks_.find_free(pool, size, stream, max_split);
  if (block) return block;
  DeviceGuard guard(device_);
  return segments_.make(pool, size, stream);
}

/// The same while a budget's user releases something. The lock is open meanwhile.
Block* DeviceAllocator::find_with_room(std::unique_lock<std::mutex>& lock, size_t size, Stream stream) {
  static thread_local bool is_making_room = false;  // what that needs itself is not made room for
  const auto make_room = [&](size_t bytes) {
    lock.unlock();
    const struct Flag {
      Flag() { is_making_room = true; }
      ~Flag() { is_making_room = false; }
    } flag;
    const size_t released = budget_hooks.make_room({DeviceType::CUDA, static_cast<int8_t>(device_)}, bytes);
    lock.lock();
    return released;
  };
  while (segments_.budget && size <= segments_.bound() && !pools_.is_capturing() && budget_hooks.make_room &&
         !is_making_room) {
    const size_t wanted = records_.active() + size, bound = segments_.bound();
    const size_t released = make_room(wanted > bound ? wanted - bound : size);
    if (Block* block = find_or_make(pool_for(size, stream), size, stream.id)) return block;
    if (wait_for_pending()) {
      if (Block* block = find_or_make(pool_for(size, stream), size, stream.id)) return block;
    }
    if (released == 0) break;
  }
  return nullptr;
}

/// The same after everything that is cached was given back.
Block* DeviceAllocator::find_without_cache(Pool& pool, size_t size, uint64_t stream) {
  DeviceGuard guard(device_);
  if (!release_cached()) return nullptr;
  ++records_.stats.retries;
  Block* block = blocks_.find_free(pool, size, stream, segments_.settings.max_split);
  return block ? block : segments_.make(pool, size, stream);
}

/// A free block of another stream or of the other kind, which could not be given back to the driver because neighbors
/// of it are in use. Work that its stream has still to do there is waited for. The block stays that stream's: where it
/// serves another one, it is released as if record_stream() had been called for that one.
Block* DeviceAllocator::borrow(size_t size, Stream stream) {
  if (pools_.is_capturing() || pool_for(size, stream).graph) return nullptr;
  Block* best = nullptr;
  for (const Pool* pool : {&pools_.small, &pools_.large})
    for (Block* block : pool->free)
      if (block->size >= size && (!best || block->size < best->size)) best = block;
  if (!best) return nullptr;
  blocks_.remove(best);
  if (best->stream == stream.id) return best;
  DeviceGuard guard(device_);
  segments_.wait_for(best->stream);
  best->users.push_back(stream);
  return best;
}

/// Puts the rest of a free block back where it is worth it.
void DeviceAllocator::cut_to(Block* block, size_t size) {
  const size_t rest = block->size - size;
  const bool is_worth_keeping = block->pool->is_small || block->range
                                    ? rest >= kBlockUnit
                                    : size < segments_.settings.max_split && rest > kMostSmallBlock;
  if (is_worth_keeping) blocks_.put(blocks_.cut(block, size));
}

void DeviceAllocator::hand_out(Block* block, size_t requested) {
  block->state = BlockState::Allocated;
  block->requested = requested;
  records_.count_allocated(block, 1);
  records_.count_active(block, 1);
  poison(block, kUnsetPoison);
}

// ---- releases

void DeviceAllocator::release(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  Block* block = find_allocated(memory);
  records_.note("free_requested", block, block->requested);
  records_.count_allocated(block, -1);
  if (block->users.empty()) return free(block);
  block->state = BlockState::AwaitingFree;
  if (pools_.is_capturing()) deferred_.push_back(block);  // events cannot be recorded before the capture ends
  else await_users(block);
}

/// Nothing uses the block any more.
void DeviceAllocator::free(Block* block) {
  const bool was_used_elsewhere = block->state == BlockState::AwaitingFree;
  records_.note("free_completed", block, block->requested);
  records_.count_active(block, -1);
  poison(block, kReleasedPoison);
  if (!was_used_elsewhere && !is_caching_off() && BlockStore::can_be_recent(block)) {
    BlockStore::put_recent(block);
    return;
  }
  block = blocks_.make_free(block);
  if (!is_caching_off() || block->pool->graph) return;
  DeviceGuard guard(device_);
  segments_.release(block);
}

/// Fills a block, in the order of the work of its stream, or of the one that borrows it.
void DeviceAllocator::poison(const Block* block, unsigned char value) {
  if (!is_poisoning() || pools_.is_capturing()) return;
  DeviceGuard guard(device_);
  const Stream own{{DeviceType::CUDA, static_cast<int8_t>(device_)}, block->stream};
  FACULA_CUDA_CALL(cuMemsetD8Async, block->address, value, block->size,
                   handle(block->users.empty() ? own : block->users.front()));
}

void DeviceAllocator::await_users(Block* block) {
  DeviceGuard guard(device_);
  for (const Stream& stream : std::exchange(block->users, {})) {
    try {
      Event event;
      event.record(stream);
      pending_.push_back({std::move(event), block});
      ++block->events;
    } catch (const Error&) {  // a stream that is gone: what was queued there is waited for here
      driver().cuCtxSynchronize();
    }
  }
  if (block->events == 0) free(block);
}

/// Frees the blocks whose events have passed.
void DeviceAllocator::free_reached() {
  if (pools_.is_capturing()) return;
  DeviceGuard guard(device_);
  for (auto p = pending_.begin(); p != pending_.end();) {
    if (!p->event.is_done()) {
      ++p;
      continue;
    }
    if (--p->block->events == 0) free(p->block);
    p = pending_.erase(p);
  }
}

/// Frees all blocks that await events. Returns whether there were any.
bool DeviceAllocator::wait_for_pending() {
  if (pending_.empty() || pools_.is_capturing()) return false;
  for (const Pending& p : pending_) p.event.synchronize();
  free_reached();
  return true;
}

/// Gives everything back that is cached. Returns whether the driver got anything.
bool DeviceAllocator::release_cached() {
  if (!pools_.is_capturing()) {
    wait_for_pending();
    if (segments_.have_ranges()) check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
  } else if (segments_.have_ranges()) {
    return false;  // granules are unmapped only after the device was waited for, which a capture forbids
  }
  return segments_.release_cached();
}

void DeviceAllocator::empty_cache() {
  std::lock_guard<std::mutex> lock(mutex_);
  DeviceGuard guard(device_);
  release_cached();
}

void DeviceAllocator::end_capture(PoolId id, uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  DeviceGuard guard(device_);
  pools_.end_capture(id, number);
  if (pools_.is_capturing()) return;
  for (Block* block : std::exchange(deferred_, {})) await_users(block);
}

// ---- blocks that the program has

Block* DeviceAllocator::find_allocated(const void* memory) const {
  Block* block = blocks_.find(memory);
  FACULA_CHECK(block && block->state == BlockState::Allocated, ErrorKind::Runtime,
               "cuda: memory of this allocator that is in use, got ", memory);
  return block;
}

void DeviceAllocator::record_stream(void* memory, Stream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  Block* block = find_allocated(memory);
  if (block->stream == stream.id || std::count(block->users.begin(), block->users.end(), stream)) return;
  block->users.push_back(stream);
}

bool DeviceAllocator::is_used_elsewhere(const void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Block* block = blocks_.find(memory);
  return block && !block->users.empty();
}

std::vector<Stream> DeviceAllocator::streams_of(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Block* block = find_allocated(memory);
  std::vector<Stream> streams = block->users;
  streams.insert(streams.begin(), {{DeviceType::CUDA, static_cast<int8_t>(device_)}, block->stream});
  return streams;
}

Segment DeviceAllocator::segment_of(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Block* block = find_allocated(memory);
  if (block->range) {
    DeviceGuard guard(device_);
    return segments_.export_granules(block);
  }
  const Block* first = block;
  while (first->before) first = first->before;
  size_t bytes = 0;
  for (const Block* b = first; b; b = b->after) bytes += b->size;
  return {reinterpret_cast<void*>(first->address), bytes};
}

// ---- bounds

void DeviceAllocator::set_fraction(double fraction) {
  std::lock_guard<std::mutex> lock(mutex_);
  segments_.limit = static_cast<size_t>(fraction * static_cast<double>(properties(device_).total_memory));
}
double DeviceAllocator::fraction() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<double>(segments_.limit) / static_cast<double>(properties(device_).total_memory);
}

void DeviceAllocator::set_budget(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  segments_.budget = bytes;
  if (records_.reserved() <= segments_.bound()) return;
  DeviceGuard guard(device_);
  release_cached();
}
size_t DeviceAllocator::budget() {
  std::lock_guard<std::mutex> lock(mutex_);
  return segments_.budget;
}
size_t DeviceAllocator::allocated() {
  std::lock_guard<std::mutex> lock(mutex_);
  return records_.allocated();
}

}  // namespace facula::cuda
