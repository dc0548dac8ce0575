#include "cuda/allocator.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include "core/checked.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace facula::cuda {

void Stat::add(int64_t amount) {
  current += amount;
  peak = std::max(peak, current);
  (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
}

namespace {

constexpr size_t kUnit = 512, kSmall = 1 << 20, kSmallSegment = 2 << 20, kMiddle = 10 << 20, kMiddleSegment = 20 << 20,
                 kLargeUnit = 2 << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t rounded(size_t bytes) { return bytes < kUnit ? kUnit : round_up(bytes, kUnit); }
size_t segment_size(size_t bytes) {
  return bytes <= kSmall ? kSmallSegment : bytes < kMiddle ? kMiddleSegment : round_up(bytes, kLargeUnit);
}

struct Block {
  CUdeviceptr address;
  size_t size;
  uint64_t stream;
  bool is_small;
  bool in_use = false;
  size_t requested = 0;
  int events = 0;                             // of other streams that it waits for
  Block *before = nullptr, *after = nullptr;  // in its segment
  std::vector<Stream> users;

  bool is_split() const { return before || after; }
};

/// Free blocks: by stream, then by size, so that the first one not less is the best.
struct Less {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
  }
};
using Pool = std::set<Block*, Less>;

std::string megabytes(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device), limit_(properties(device).total_memory) {}

  void* allocate(size_t bytes, Stream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceGuard guard(device_);
    free_reached();
    FACULA_CHECK(bytes <= static_cast<size_t>(INT64_MAX) / 2, ErrorKind::OutOfMemory, current_op(),
                 ": a size that memory can have, got ", bytes, " bytes");
    const size_t size = rounded(bytes);
    Block* block = find(size, stream.id);
    if (!block) block = new_segment(size, stream.id);
    if (!block && wait_and_release_cached()) {
      ++stats_.retries;
      block = find(size, stream.id);
      if (!block) block = new_segment(size, stream.id);
    }
    if (!block) out_of_memory(bytes);
    take(block, size, bytes);
    return reinterpret_cast<void*>(block->address);
  }

  void release(void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find_used(memory);
    used_.erase(block->address);
    const auto size = static_cast<int64_t>(block->size);
    count(stats_.allocation, block, -1);
    count(stats_.allocated_bytes, block, -size);
    count(stats_.requested_bytes, block, -static_cast<int64_t>(block->requested));
    if (block->users.empty()) return give_back(block);
    DeviceGuard guard(device_);
    for (const Stream& stream : std::exchange(block->users, {})) {
      Event event;
      event.record(stream);
      ++block->events;
      pending_.push_back({std::move(event), block});
    }
  }

  void record_stream(void* memory, Stream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find_used(memory);
    if (block->stream == stream.id || std::count(block->users.begin(), block->users.end(), stream)) return;
    block->users.push_back(stream);
  }

  void empty_cache() {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceGuard guard(device_);
    wait_and_release_cached();
  }

  void set_fraction(double fraction) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = static_cast<size_t>(fraction * static_cast<double>(properties(device_).total_memory));
  }
  double fraction() {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<double>(limit_) / static_cast<double>(properties(device_).total_memory);
  }

  AllocatorStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  template <class F>
  void each_stat(F f) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Stats3* s :
         {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes,
          &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes})
      for (Stat* stat : {&s->all, &s->small, &s->large}) f(*stat);
  }
  void reset_accumulated() {
    each_stat([](Stat& s) { s.reset_accumulated(); });
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.retries = stats_.out_of_memory = 0;
  }

  void snapshot(std::vector<SegmentSnapshot>& to) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [address, block] : blocks_) {
      if (block->before) continue;
      SegmentSnapshot s{device_, address, block->stream, 0, 0, 0, block->is_small, {}};
      for (const Block* b = block.get(); b; b = b->after) {
        s.total += b->size;
        s.allocated += b->in_use && !b->events ? b->size : 0;
        s.active += b->in_use ? b->size : 0;
        s.blocks.push_back({b->address, b->size, b->requested,
                            !b->in_use  ? "inactive"
                            : b->events ? "active_awaiting_free"
                                        : "active_allocated"});
      }
      to.push_back(std::move(s));
    }
  }

 private:
  struct Pending {
    Event event;
    Block* block;
  };

  Pool& pool_of(bool is_small) { return is_small ? small_ : large_; }

  void count(Stats3& stats, const Block* block, int64_t amount) {
    if (!amount) return;
    stats.all.add(amount);
    stats.of(block->is_small).add(amount);
  }
  void count_free(const Block* block, int sign) {
    if (!block->is_split()) return;
    count(stats_.inactive_split, block, sign);
    count(stats_.inactive_split_bytes, block, sign * static_cast<int64_t>(block->size));
  }

  Block* find_used(void* memory) {
    const auto found = used_.find(reinterpret_cast<CUdeviceptr>(memory));
    FACULA_CHECK(found != used_.end(), ErrorKind::Runtime, "cuda: memory of this allocator that is in use, got ",
                 memory);
    return found->second;
  }

  Block* find(size_t size, uint64_t stream) {
    Block wanted{0, size, stream, size <= kSmall};
    Pool& pool = pool_of(wanted.is_small);
    const auto found = pool.lower_bound(&wanted);
    if (found == pool.end() || (*found)->stream != stream) return nullptr;
    Block* block = *found;
    pool.erase(found);
    count_free(block, -1);
    return block;
  }

  Block* new_segment(size_t size, uint64_t stream) {
    const size_t bytes = segment_size(size);
    if (static_cast<size_t>(stats_.reserved_bytes.all.current) + bytes > limit_) return nullptr;
    CUdeviceptr address = 0;
    const CUresult result = driver().cuMemAlloc_v2(&address, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check(result, "cuMemAlloc_v2");
    ++stats_.driver_allocations;
    auto block = std::make_unique<Block>(Block{address, bytes, stream, size <= kSmall});
    count(stats_.segment, block.get(), 1);
    count(stats_.reserved_bytes, block.get(), static_cast<int64_t>(bytes));
    return (blocks_[address] = std::move(block)).get();
  }

  /// Marks it used, and puts what is left of it back.
  void take(Block* block, size_t size, size_t requested) {
    const size_t left = block->size - size;
    if (block->is_small ? left >= kUnit : left > kSmall) {
      auto rest = std::make_unique<Block>(Block{block->address + size, left, block->stream, block->is_small});
      rest->before = block;
      rest->after = block->after;
      if (rest->after) rest->after->before = rest.get();
      block->after = rest.get();
      block->size = size;
      pool_of(block->is_small).insert(rest.get());
      count_free(rest.get(), 1);
      blocks_[rest->address] = std::move(rest);
    }
    block->in_use = true;
    block->requested = requested;
    used_[block->address] = block;
    const auto bytes = static_cast<int64_t>(block->size);
    count(stats_.allocation, block, 1);
    count(stats_.allocated_bytes, block, bytes);
    count(stats_.active, block, 1);
    count(stats_.active_bytes, block, bytes);
    count(stats_.requested_bytes, block, static_cast<int64_t>(requested));
  }

  void give_back(Block* block) {
    count(stats_.active, block, -1);
    count(stats_.active_bytes, block, -static_cast<int64_t>(block->size));
    block->in_use = false;
    block->requested = 0;
    if (block->before && !block->before->in_use) block = join(block->before, block);
    if (block->after && !block->after->in_use) block = join(block, block->after);
    pool_of(block->is_small).insert(block);
    count_free(block, 1);
  }

  /// Two neighbours become the first; one of them is in no pool.
  Block* join(Block* first, Block* second) {
    for (Block* b : {first, second})
      if (pool_of(b->is_small).erase(b)) count_free(b, -1);
    first->size += second->size;
    first->after = second->after;
    if (first->after) first->after->before = first;
    blocks_.erase(second->address);
    return first;
  }

  void free_reached() {
    for (auto p = pending_.begin(); p != pending_.end();) {
      if (!p->event.is_done()) {
        ++p;
        continue;
      }
      if (--p->block->events == 0) give_back(p->block);
      p = pending_.erase(p);
    }
  }

  /// Whether the driver got something back.
  bool wait_and_release_cached() {
    for (const Pending& p : pending_) p.event.synchronize();
    free_reached();
    bool any = false;
    for (Pool* pool : {&small_, &large_}) {
      for (auto b = pool->begin(); b != pool->end();) {
        Block* block = *b;
        if (block->is_split()) {
          ++b;
          continue;
        }
        b = pool->erase(b);
        FACULA_CUDA_CALL(cuMemFree_v2, block->address);
        ++stats_.driver_frees;
        count(stats_.segment, block, -1);
        count(stats_.reserved_bytes, block, -static_cast<int64_t>(block->size));
        blocks_.erase(block->address);
        any = true;
      }
    }
    return any;
  }

  [[noreturn]] void out_of_memory(size_t bytes) {
    ++stats_.out_of_memory;
    size_t free = 0, total = 0, largest = 0, cached = 0;
    driver().cuMemGetInfo_v2(&free, &total);
    for (Pool* pool : {&small_, &large_}) {
      for (const Block* b : *pool) {
        largest = std::max(largest, b->size);
        cached += b->size;
      }
    }
    const auto reserved = static_cast<size_t>(stats_.reserved_bytes.all.current);
    throw_error(ErrorKind::OutOfMemory, current_op(), ": CUDA out of memory. Device ", device_, " has ",
                megabytes(total), ", of which ", megabytes(free), " are free; this process reserved ",
                megabytes(reserved), " (limit ", megabytes(limit_), "), ",
                megabytes(static_cast<size_t>(stats_.allocated_bytes.all.current)), " of it in use by tensors and ",
                megabytes(cached), " cached, the largest free block of it ", megabytes(largest), "; tried to allocate ",
                megabytes(bytes));
  }

  const int device_;
  std::mutex mutex_;
  size_t limit_;
  Pool small_, large_;
  std::unordered_map<CUdeviceptr, std::unique_ptr<Block>> blocks_;
  std::unordered_map<CUdeviceptr, Block*> used_;
  std::list<Pending> pending_;
  AllocatorStats stats_;
};

DeviceAllocator& allocator_of(int device) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<DeviceAllocator>>;  // tensors may outlive main
  std::lock_guard<std::mutex> lock(mutex);
  all.resize(static_cast<size_t>(device_count()));
  auto& allocator = all.at(static_cast<size_t>(device));
  if (!allocator) allocator = std::make_unique<DeviceAllocator>(device);
  return *allocator;
}

}  // namespace

void* allocate(size_t bytes, int device, Stream stream) { return allocator_of(device).allocate(bytes, stream); }
void release(void* memory, int device) { allocator_of(device).release(memory); }
void record_stream(void* memory, Stream stream) { allocator_of(stream.device.index).record_stream(memory, stream); }

void empty_cache() {
  for (int d = 0; d < device_count(); ++d) allocator_of(d).empty_cache();
}
void set_memory_fraction(double fraction, int device) { allocator_of(device).set_fraction(fraction); }
double memory_fraction(int device) { return allocator_of(device).fraction(); }
AllocatorStats allocator_stats(int device) { return allocator_of(device).stats(); }
void reset_peak_stats(int device) {
  allocator_of(device).each_stat([](Stat& s) { s.reset_peak(); });
}
void reset_accumulated_stats(int device) { allocator_of(device).reset_accumulated(); }

std::vector<SegmentSnapshot> memory_snapshot() {
  std::vector<SegmentSnapshot> all;
  for (int d = 0; d < device_count(); ++d) allocator_of(d).snapshot(all);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::tie(a.device, a.address) < std::tie(b.device, b.address); });
  return all;
}

}  // namespace facula::cuda
