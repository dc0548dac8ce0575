// Caches pinned memory of the host.
//
// The driver takes long to make such memory, and frees it only when nothing is queued any more. So sizes of blocks are
// powers of two, and blocks are cached. If a copy between host and device uses a block, its stream is noted. When the
// block is released, an event is recorded on each of these streams, and the block is reused when all of them have
// passed. Every device may use every block.
#pragma once

#include "cuda/allocator.h"

namespace facula::cuda {

/// Microseconds of calls of the driver.
struct Durations {
  int64_t total = 0, most = 0, least = 0, count = 0;
  void add(int64_t microseconds);
};
struct HostStats {
  Stat blocks, bytes;            // that the driver made, used or cached
  Stat used_blocks, used_bytes;  // given out, or waiting for streams
  int64_t driver_allocations = 0, driver_frees = 0;
  Durations allocation_time, free_time;
};

void* allocate_pinned(size_t bytes);
void release_pinned(void* memory);
/// Whether the address lies in a block that is given out.
bool is_pinned(const void* memory);
/// The block of that address is not given out again before the stream has reached what is queued on it when the block
/// is released.
void use_pinned(const void* memory, Stream stream);

/// Queues a copy to the device of bytes that are not pinned; the caller may change them at once.
void copy_pageable(void* to, const void* from, size_t bytes, Stream stream);

/// Gives blocks that nobody uses back to the driver.
void empty_pinned_cache();
HostStats host_stats();
void reset_peak_host_stats();
void reset_accumulated_host_stats();

}  // namespace facula::cuda
