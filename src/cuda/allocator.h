// Declares the caching allocator (section 5.3 of the PyTorch paper, with its rules).
//
// Sizes are rounded up to 512 bytes. Blocks of up to 1 MiB are cut from segments of 2 MiB, larger ones of less than
// 10 MiB from segments of 20 MiB; still larger ones get a segment of their own, a multiple of 2 MiB. A block
// belongs to the stream that it was allocated on and is given back to that stream's pool at once: work queued there
// later comes later. A block that another stream uses (record_stream) goes back when that stream has reached the
// place where it was released. Best fit; a block is split where what is left is worth keeping, and joined with free
// neighbors. Memory is requested from the driver when no block fits, and gets segments back only when it has no more,
// or when a program says empty_cache(): so later iterations of a training loop make no calls of the driver's memory
// functions. Segments that are in use in part cannot go back, so at last a stream is given a free block of another
// one, whose work is waited for. A small block that is released stays as it is for the next request of its size, and is
// joined with its neighbors only before more memory is taken or the blocks are looked at: so the ops of a loop find
// theirs at once.
// With expandable segments (allocator_settings.h) a stream has one segment of each kind, which grows.
//
// Under a memory budget, which bounds what is reserved, segments are expandable ones of small granules, so that holes
// between blocks cost little. A request that would pass it takes free granules from elsewhere, only as many as it
// needs, those that were not used for longest, after the work of their streams. Where they would not do, it requests
// room first (core/budget_hooks.h), again and again, then takes what is cached, and then it fails. While a graph is
// captured nothing is let go of.
//
// While a graph is captured, its streams allocate from a pool of the graph's, whose blocks nobody else is given as long
// as the graph lives: a replay uses the same addresses again.
//
// To find mistakes: with FACULA_CUDA_POISON=1 blocks are filled when they are taken (with NaN) and when they come
// back, by their stream, so that uses of unset and of released memory show. With PYTORCH_NO_CUDA_MEMORY_CACHING=1
// every block is the driver's, of exactly the requested size, so that tools see where it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stream.h"

namespace facula::cuda {

/// One counter of memory or of blocks.
struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void add(int64_t amount) {
    current += amount;
    peak = current > peak ? current : peak;
    (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
};
/// Counted for all blocks, and for those of the small and the large pool.
struct Stats3 {
  Stat all, small, large;
  Stat& of(bool is_small) { return is_small ? small : large; }
};
struct AllocatorStats {
  Stats3 allocation, segment, active, inactive_split;                          // numbers of blocks
  Stats3 allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes;  // bytes
  Stats3 requested_bytes;
  int64_t retries = 0, out_of_memory = 0, driver_allocations = 0, driver_frees = 0;
};

void* allocate(size_t bytes, int device, Stream stream);
/// Called before an allocation fails; returns whether blocks were released (those that other processes are done with).
inline bool (*reclaim)() = nullptr;
void release(void* memory, int device);
/// The block is not used again before the stream has reached what is queued on it when the block is released.
void record_stream(void* memory, Stream stream);
/// Those that use a block: the one it belongs to, then those given to record_stream().
std::vector<Stream> streams_of(void* memory, int device);

/// Of each block, the line of the program that made it (core/places.h) is noted from now on.
void record_places(bool on);

/// What the driver gave, in which a block lies: a whole allocation, or granules of an expandable segment, of which
/// files are made that the caller closes.
struct Segment {
  void* base;
  size_t bytes, granule = 0;
  std::vector<int> files = {};
};
Segment segment_of(void* memory, int device);

// ---- pools of graphs
using PoolId = uint64_t;
PoolId new_pool();
/// A capture is about to begin whose streams allocate from the pool; it has one user more.
void begin_pool(PoolId pool, int device);
/// It has begun, and has a number (capture_id() in graph.h); until end_pool().
void name_capture(PoolId pool, int device, uint64_t capture);
void end_pool(PoolId pool, int device, uint64_t capture);
/// One user fewer: that of the last one is cached memory like other.
void release_pool(PoolId pool, int device);
/// One user more.
void keep_pool(PoolId pool, int device);
int pool_users(PoolId pool, int device);
/// What this thread allocates on the device comes from the pool, which has one user more meanwhile.
void route_to_pool(PoolId pool, int device);
void end_route(PoolId pool, int device);
/// Whether a graph is captured on the device: nothing may be waited for.
bool is_capturing(int device);

/// Gives segments without a block in use back to the driver.
void empty_cache();
/// At most this share of the device's memory is taken.
void set_memory_fraction(double fraction, int device);
double memory_fraction(int device);
/// At most so many bytes, which src/budget helps to keep; 0: no budget. The smaller of both bounds counts.
void set_memory_budget(int device, size_t bytes);
size_t memory_budget(int device);
/// Bytes of the blocks that somebody has.
size_t held_bytes(int device);
/// Whether the block has been given to record_stream(): it may not be free at once when it is released.
bool is_used_elsewhere(const void* memory, int device);
AllocatorStats allocator_stats(int device);
void reset_peak_stats(int device);
void reset_accumulated_stats(int device);

struct BlockSnapshot {
  uint64_t address;
  size_t size, requested;
  const char* state;  // active_allocated, active_awaiting_free, inactive
  uint32_t place;     // as in core/places.h
  std::string tensor;
};
struct SegmentSnapshot {
  int device;
  uint64_t address, stream;
  size_t total, allocated, active;
  bool is_small, is_expandable;
  PoolId pool;  // of a graph, or 0
  std::vector<BlockSnapshot> blocks;
};
std::vector<SegmentSnapshot> memory_snapshot();
void forget_trace(int device);  // cuda/memory_trace.h

}  // namespace facula::cuda
