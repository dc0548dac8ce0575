// Declares the caching allocator of one device. The policy is in allocator.h; blocks and their states are in block.h.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <vector>

#include "cuda/block_store.h"
#include "cuda/device_pools.h"
#include "cuda/device_segments.h"
#include "cuda/stream.h"

namespace facula::cuda {

/// Whether the program's line is noted for every block (record_places).
inline std::atomic<bool> are_places_recorded{false};

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}

  void* allocate(size_t bytes, Stream stream);
  void release(void* memory);
  void record_stream(void* memory, Stream stream);
  bool is_used_elsewhere(const void* memory);
  std::vector<Stream> streams_of(void* memory);
  Segment segment_of(void* memory);
  void empty_cache();

  void end_capture(PoolId id, uint64_t number);
  /// Calls f(pools) under the lock.
  template <class F>
  auto with_pools(F f) {
    std::lock_guard lock(mutex_);
    return f(pools_);
  }

  void set_fraction(double fraction);
  double fraction();
  void set_budget(size_t bytes);
  size_t budget();
  size_t allocated();

  // ---- reports (device_allocator_report.cpp)
  AllocatorStats stats();
  void reset_peaks();
  void reset_accumulated();
  void snapshot(std::vector<SegmentSnapshot>& to);
  std::vector<TraceEntry> trace();
  void forget_trace();

 private:
  /// A released block awaits the event.
  struct Pending {
    Event event;
    Block* block;
  };

  Pool& pool_for(size_t size, Stream stream) { return pools_.pool_for(size <= kMostSmallBlock, stream); }
  Block* find_allocated(const void* memory) const;
  Block* find_or_make(Pool& pool, size_t size, uint64_t stream);
  Block* find_with_room(std::unique_lock<std::mutex>& lock, size_t size, Stream stream);
  Block* find_without_cache(Pool& pool, size_t size, uint64_t stream);
  Block* borrow(size_t size, Stream stream);
  void cut_to(Block* block, size_t size);
  void hand_out(Block* block, size_t requested);
  void free(Block* block);
  void poison(const Block* block, unsigned char value);

  void await_users(Block* block);
  void free_reached();
  bool wait_for_pending();
  bool release_cached();

  void update_settings();
  void join_all_recent();
  template <class F>
  void each_stat(F f);
  MemoryReport describe_exhaustion(size_t wanted, size_t size);

  const int device_;
  std::mutex mutex_;
  AllocatorRecords records_;
  BlockStore blocks_{records_};
  DevicePools pools_;
  DeviceSegments segments_{device_, blocks_, pools_, records_};
  std::list<Pending> pending_;
  std::vector<Block*> deferred_;  // released during a capture, and used by other streams
  uint64_t settings_version_ = 0;
};

}  // namespace facula::cuda
