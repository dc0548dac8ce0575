// Records what an allocator did, for programs that look for what holds memory: its last actions, by PyTorch's names.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace facula::cuda {

struct TraceEntry {
  const char* action;  // alloc, free_requested, free_completed, segment_alloc, segment_free, oom, ...
  uint64_t address;    // of oom: the bytes that the driver has
  size_t size;
  uint64_t stream, pool;
  uint32_t place;        // as in core/places.h
  int64_t microseconds;  // since 1970
};

/// From now on so many actions of each device are stored, the last ones; 0 ends it. Earlier ones are forgotten if
/// that is wanted.
void record_trace(size_t most, bool forget);
std::vector<TraceEntry> memory_trace(int device);

/// Of one device; its user takes care of threads.
class MemoryTrace {
 public:
  static bool is_on() { return most.load(std::memory_order_relaxed) != 0; }
  void note(TraceEntry entry);
  std::vector<TraceEntry> entries() const { return {entries_.begin(), entries_.end()}; }
  void forget() { entries_.clear(); }

 private:
  friend void record_trace(size_t, bool);
  static inline std::atomic<size_t> most{0};  // entries
  std::deque<TraceEntry> entries_;
};

}  // namespace facula::cuda
