#include "cuda/host_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "cuda/device.h"
#include "cuda/stream.h"
#include "ops/pinned.h"

namespace facula::cuda {

void Durations::add(int64_t microseconds) {
  total += microseconds;
  most = std::max(most, microseconds);
  least = count ? std::min(least, microseconds) : microseconds;
  ++count;
}

namespace {

class Stopwatch {
 public:
  int64_t microseconds() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Block {
  char* memory;
  size_t size;
  bool in_use = false;
  int events = 0;  // that it waits for
  std::vector<Stream> users;
};

class HostAllocator {
 public:
  void* allocate(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_reached();
    constexpr size_t kMost = size_t{1} << 62;
    FACULA_CHECK(bytes <= kMost, ErrorKind::OutOfMemory, "pin_memory: a size that memory can have, got ", bytes,
                 " bytes");
    const size_t size = std::bit_ceil(bytes);
    Block* block = take_free(size);
    if (!block) block = new_block(size);
    if (!block && wait_and_release_cached()) block = new_block(size);
    FACULA_CHECK(block, ErrorKind::OutOfMemory, "pin_memory: the driver has no more pinned memory, of which ",
                 stats_.bytes.current, " bytes are in use or cached; got ", bytes, " bytes to allocate");
    block->in_use = true;
    count_use(*block, 1);
    return block->memory;
  }

  void release(void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = blocks_.at(static_cast<char*>(memory)).get();
    block->in_use = false;
    if (!block->users.empty() && capturing()) after_capture_.push_back(block);
    else wait_for_users(block);
  }

  bool owns(const void* memory) {
    if (!any_) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    return find(memory);
  }

  void use(const void* memory, Stream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find(memory);
    if (block && !std::count(block->users.begin(), block->users.end(), stream)) block->users.push_back(stream);
  }

  void empty_cache() {
    std::lock_guard<std::mutex> lock(mutex_);
    free_reached();
    release_cached();
  }

  HostStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    free_reached();
    return stats_;
  }
  void reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Stat* s : all_stats()) s->reset_peak();
  }
  void reset_accumulated() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Stat* s : all_stats()) s->reset_accumulated();
    stats_.driver_allocations = stats_.driver_frees = 0;
    stats_.allocation_time = stats_.free_time = {};
  }

 private:
  struct Pending {
    Event event;
    Block* block;
  };

  std::array<Stat*, 4> all_stats() { return {&stats_.blocks, &stats_.bytes, &stats_.used_blocks, &stats_.used_bytes}; }
  static size_t bin(size_t size) { return static_cast<size_t>(std::countr_zero(size)); }

  /// The block that is given out and holds the address.
  Block* find(const void* memory) {
    const auto* at = static_cast<const char*>(memory);
    auto after = blocks_.upper_bound(const_cast<char*>(at));
    if (after == blocks_.begin()) return nullptr;
    Block* block = std::prev(after)->second.get();
    return block->in_use && at < block->memory + block->size ? block : nullptr;
  }

  void count_use(const Block& block, int64_t change) {
    stats_.used_blocks.add(change);
    stats_.used_bytes.add(change * static_cast<int64_t>(block.size));
  }
  void give_back(Block* block) {
    count_use(*block, -1);
    free_[bin(block->size)].push_back(block);
  }
  Block* take_free(size_t size) {
    auto& cached = free_[bin(size)];
    if (cached.empty()) return nullptr;
    Block* block = cached.back();
    cached.pop_back();
    return block;
  }

  Block* new_block(size_t size) {
    DeviceGuard guard(current_index());  // the driver wants a device, any one
    const Stopwatch time;
    void* memory = nullptr;
    const CUresult result = driver().cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check(result, "cuMemHostAlloc");
    stats_.allocation_time.add(time.microseconds());
    ++stats_.driver_allocations;
    stats_.blocks.add(1);
    stats_.bytes.add(static_cast<int64_t>(size));
    any_ = true;
    auto* at = static_cast<char*>(memory);
    return (blocks_[at] = std::make_unique<Block>(Block{at, size})).get();
  }

  /// While a graph is captured, events neither say what has been done nor may be queried.
  static bool capturing() {
    for (int d = 0; d < device_count(); ++d)
      if (is_capturing(d)) return true;
    return false;
  }
  void wait_for_users(Block* block) {
    for (const Stream& stream : std::exchange(block->users, {})) {
      Event event;
      event.record(stream);
      ++block->events;
      pending_.push_back({std::move(event), block});
    }
    if (block->events == 0) give_back(block);
  }

  void free_reached() {
    if ((pending_.empty() && after_capture_.empty()) || capturing()) return;
    for (Block* block : std::exchange(after_capture_, {})) wait_for_users(block);
    for (auto p = pending_.begin(); p != pending_.end();) {
      if (!p->event.is_done()) {
        ++p;
        continue;
      }
      if (--p->block->events == 0) give_back(p->block);
      p = pending_.erase(p);
    }
  }

  bool release_cached() {
    bool any = false;
    for (auto& cached : free_) {
      for (Block* block : std::exchange(cached, {})) {
        DeviceGuard guard(current_index());
        const Stopwatch time;
        FACULA_CUDA_CALL(cuMemFreeHost, block->memory);
        stats_.free_time.add(time.microseconds());
        ++stats_.driver_frees;
        stats_.blocks.add(-1);
        stats_.bytes.add(-static_cast<int64_t>(block->size));
        blocks_.erase(block->memory);
        any = true;
      }
    }
    return any;
  }
  bool wait_and_release_cached() {
    for (const Pending& p : pending_) p.event.synchronize();
    free_reached();
    return release_cached();
  }

  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::map<char*, std::unique_ptr<Block>> blocks_;  // by address
  std::array<std::vector<Block*>, 64> free_;        // by the logarithm of the size
  std::list<Pending> pending_;
  std::vector<Block*> after_capture_;
  HostStats stats_;
};

HostAllocator& allocator() {
  static auto& one = *new HostAllocator;  // tensors may outlive main
  return one;
}

// Called where tensors die: see release_cuda in backend.cpp.
void release_storage(Storage* s) {
  try {
    if (s->data && !is_forked_child) release_pinned(s->data);
  } catch (const Error&) {
  }
}

Storage* make_storage(size_t bytes) {
  check_not_forked("pin_memory");
  FACULA_CHECK(is_available(), ErrorKind::Runtime, "pin_memory: there is no device that could use pinned memory (",
               why_unavailable(), "), got ", bytes, " bytes to pin");
  return borrow_storage(bytes ? allocate_pinned(bytes) : nullptr, bytes, kCPU, release_storage, nullptr);
}

}  // namespace

void* allocate_pinned(size_t bytes) { return allocator().allocate(bytes); }
void release_pinned(void* memory) { allocator().release(memory); }
bool is_pinned(const void* memory) { return allocator().owns(memory); }
void use_pinned(const void* memory, Stream stream) { allocator().use(memory, stream); }
void empty_pinned_cache() { allocator().empty_cache(); }
HostStats host_stats() { return allocator().stats(); }
void reset_peak_host_stats() { allocator().reset_peak(); }
void reset_accumulated_host_stats() { allocator().reset_accumulated(); }

void register_host_allocator() { pinned_memory = {make_storage, is_pinned}; }

// The driver takes a copy of such bytes before it returns, but where the device can read the host's pages by itself
// (Grace, and drivers with heterogeneous memory): there it may read them late. So few bytes go through a pinned block,
// and of many the end is waited for.
void copy_pageable(void* to, const void* from, size_t bytes, Stream stream) {
  constexpr size_t kMostStaged = size_t{1} << 20;
  const auto address = reinterpret_cast<CUdeviceptr>(to);
  const bool late = properties(stream.device.index).reads_pageable_memory;
  if (late && bytes <= kMostStaged) {
    const std::unique_ptr<void, void (*)(void*)> block(allocate_pinned(bytes), release_pinned);
    std::memcpy(block.get(), from, bytes);
    FACULA_CUDA_CALL(cuMemcpyHtoDAsync_v2, address, block.get(), bytes, handle(stream));
    return use_pinned(block.get(), stream);
  }
  FACULA_CUDA_CALL(cuMemcpyHtoDAsync_v2, address, from, bytes, handle(stream));
  if (late) FACULA_CUDA_CALL(cuStreamSynchronize, handle(stream));
}

}  // namespace facula::cuda
