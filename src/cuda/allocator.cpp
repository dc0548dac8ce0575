// The allocators of all devices, each made when it is first needed.
#include "cuda/allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <tuple>

#include "core/checked.h"
#include "cuda/device.h"
#include "cuda/device_allocator.h"
#include "cuda/pluggable_allocator.h"

namespace facula::cuda {

namespace {

std::array<std::atomic<DeviceAllocator*>, detail::kMostDevices> allocators;  // never deleted: tensors may outlive main

DeviceAllocator& make_allocator(int device) {
  static std::mutex mutex;
  properties(device);  // throws where there is no such device
  std::lock_guard<std::mutex> lock(mutex);
  auto& slot = allocators[static_cast<size_t>(device)];
  if (!slot.load()) slot = new DeviceAllocator(device);
  return *slot.load();
}

DeviceAllocator& allocator_of(int device) {
  const auto at = static_cast<size_t>(device);
  DeviceAllocator* made = at < allocators.size() ? allocators[at].load(std::memory_order_acquire) : nullptr;
  return __builtin_expect(made != nullptr, 1) ? *made : make_allocator(device);
}

}  // namespace

void* allocate(size_t bytes, int device, Stream stream) {
  try {
    return allocator_of(device).allocate(bytes, stream);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::OutOfMemory || !reclaim || !reclaim()) throw;
  }
  return allocator_of(device).allocate(bytes, stream);
}
void release(void* memory, int device) { allocator_of(device).release(memory); }
void record_stream(void* memory, Stream stream) {
  if (!is_allocator_changed())
    allocator_of(stream.device.index).record_stream(memory, stream);  // a changed one has its own
}
std::vector<Stream> streams_of(void* memory, int device) {
  return is_allocator_changed() ? std::vector<Stream>() : allocator_of(device).streams_of(memory);
}

void record_places(bool on) { are_places_recorded = on; }
Segment segment_of(void* memory, int device) { return allocator_of(device).segment_of(memory); }

PoolId new_pool() {
  static std::atomic<PoolId> last{0};
  return ++last;
}
void begin_pool(PoolId pool, int device) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.begin_capture(pool); });
}
void name_capture(PoolId pool, int device, uint64_t capture) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.name_capture(pool, capture); });
}
void end_pool(PoolId pool, int device, uint64_t capture) { allocator_of(device).end_capture(pool, capture); }
void release_pool(PoolId pool, int device) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.remove_user(pool); });
}
void keep_pool(PoolId pool, int device) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.add_user(pool); });
}
int pool_users(PoolId pool, int device) {
  return allocator_of(device).with_pools([&](DevicePools& pools) { return pools.users(pool); });
}
void route_to_pool(PoolId pool, int device) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.begin_route(pool); });
}
void end_route(PoolId pool, int device) {
  allocator_of(device).with_pools([&](DevicePools& pools) { pools.end_route(pool); });
}
bool is_capturing(int device) {
  return allocator_of(device).with_pools([](DevicePools& pools) { return pools.is_capturing(); });
}

std::vector<TraceEntry> memory_trace(int device) { return allocator_of(device).trace(); }
void forget_trace(int device) { allocator_of(device).forget_trace(); }

void empty_cache() {
  for (int d = 0; d < device_count(); ++d) allocator_of(d).empty_cache();
}
void set_memory_fraction(double fraction, int device) { allocator_of(device).set_fraction(fraction); }
double memory_fraction(int device) { return allocator_of(device).fraction(); }
void set_memory_budget(int device, size_t bytes) { allocator_of(device).set_budget(bytes); }
size_t memory_budget(int device) { return allocator_of(device).budget(); }
size_t held_bytes(int device) { return allocator_of(device).allocated(); }
bool is_used_elsewhere(const void* memory, int device) { return allocator_of(device).is_used_elsewhere(memory); }
AllocatorStats allocator_stats(int device) { return allocator_of(device).stats(); }
void reset_peak_stats(int device) { allocator_of(device).reset_peaks(); }
void reset_accumulated_stats(int device) { allocator_of(device).reset_accumulated(); }

std::vector<SegmentSnapshot> memory_snapshot() {
  std::vector<SegmentSnapshot> all;
  for (int d = 0; d < device_count(); ++d) allocator_of(d).snapshot(all);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::tie(a.device, a.address) < std::tie(b.device, b.address); });
  return all;
}

}  // namespace facula::cuda
