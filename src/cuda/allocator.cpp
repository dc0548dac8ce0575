// Blocks of one device: pools, segments, streams that use a block, graphs, reports. The policy is in its header.
//
// Long because all of it is one class under one lock: a block is in one of its lists at any moment, and every
// function here moves blocks between them.
#include "cuda/allocator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "core/budget_bound.h"
#include "core/budget_hooks.h"
#include "core/checked.h"
#include "core/places.h"
#include "cuda/address_map.h"
#include "cuda/allocator_settings.h"
#include "cuda/device.h"
#include "cuda/expandable.h"
#include "cuda/graph.h"
#include "cuda/memory_report.h"
#include "cuda/memory_trace.h"
#include "cuda/pluggable_allocator.h"
#include "cuda/stream.h"

namespace facula::cuda {

namespace {

constexpr size_t kUnit = 512, kSmall = 1 << 20, kSmallSegment = 2 << 20, kMiddle = 10 << 20, kMiddleSegment = 20 << 20,
                 kLargeUnit = 2 << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t rounded(size_t bytes, const AllocatorSettings& settings) {
  if (bytes < kUnit) return kUnit;
  const size_t divisions = divisions_for(settings, bytes);
  if (divisions > 1 && bytes > kUnit * divisions) return round_up(bytes, std::bit_floor(bytes) / divisions);
  return round_up(bytes, kUnit);
}
size_t segment_size(size_t bytes) {
  return bytes <= kSmall ? kSmallSegment : bytes < kMiddle ? kMiddleSegment : round_up(bytes, kLargeUnit);
}

// What the environment asks for to find mistakes (allocator.h).
bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text && *text && *text != '0';
}
bool is_uncached() {
  static const bool set = is_set("PYTORCH_NO_CUDA_MEMORY_CACHING");
  return set;
}
bool is_poisoned() {
  static const bool set = is_set("FACULA_CUDA_POISON");
  return set;
}
constexpr unsigned char kUnsetPoison = 0xff, kReleasedPoison = 0xdd;  // of real numbers the first is NaN

struct Pool;
struct Range;

struct Block {
  CUdeviceptr address;
  size_t size;
  uint64_t stream;
  Pool* pool;
  Range* range = nullptr;  // of an expandable segment, parts of which are not mapped
  bool mapped = true;
  bool in_use = false;
  bool held = false;  // somebody has it; else it is released, but waits for events or is kept as it is
  size_t requested = 0;
  int events = 0;                             // of other streams that it waits for
  uint64_t age = 0;                           // when it became free
  Block *before = nullptr, *after = nullptr;  // in its segment
  Block* recent = nullptr;                    // the one that was released before it, of its size
  std::vector<Stream> users;
  BlockTensor tensor;
  uint32_t place = 0;

  bool is_split() const { return before || after; }
  bool is_free() const { return mapped && !in_use; }
};

/// By stream, then by size, so that the first one not less is the best.
struct Less {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
  }
};
/// An expandable segment.
struct Range {
  ExpandableRange memory;
  bool is_fine;  // of small granules
  Block* first = nullptr;
};
struct GraphPool;
/// Released blocks of one size and stream that are kept as they are.
struct RecentBlocks {
  uint64_t stream = 0;
  Block* last = nullptr;
};
constexpr size_t kRecentSizes = 64 << 10;
/// Free blocks, small or large ones.
struct Pool {
  bool is_small;
  GraphPool* graph = nullptr;
  std::array<RecentBlocks, kRecentSizes / kUnit + 1> recent = {};  // by size
  bool has_recent = false;
  std::set<Block*, Less> free = {};
  std::map<uint64_t, std::vector<std::unique_ptr<Range>>> ranges = {};  // by stream
};
struct GraphPool {
  explicit GraphPool(PoolId n) : id(n) {}
  PoolId id;
  int users = 0;
  Pool small{true, this}, large{false, this};
};

std::atomic<bool> places_wanted{false};

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device), limit_(properties(device).total_memory) {}

  void* allocate(size_t bytes, Stream stream) {
    const BlockTensor tensor(made_tensor);
    const uint32_t place = places_wanted ? place_here() : 0;
    std::unique_lock<std::mutex> lock(mutex_);
    if (const uint64_t version = allocator_settings_version(); version != settings_version_) {
      settings_ = allocator_settings();
      settings_version_ = version;
    }
    if (__builtin_expect(!pending_.empty(), 0)) free_reached();
    FACULA_CHECK(bytes <= static_cast<size_t>(INT64_MAX) / 2, ErrorKind::OutOfMemory, current_op(),
                 ": a size that memory can have, got ", bytes, " bytes");
    Pool& pool = pool_for(rounded(bytes, settings_), stream);
    const size_t size = is_uncached() && !pool.graph ? std::max<size_t>(bytes, 1) : rounded(bytes, settings_);
    Block* block = find_recent(pool, size, stream.id);
    if (block) {
      use(block, bytes);
    } else if ((block = find_or_make(pool, size, stream.id)) || (block = find_with_room(lock, size, stream)) ||
               (block = find_without_cache(pool_for(size, stream), size, stream.id))) {
      take(block, size, bytes);
    } else {
      MemoryReport report = describe(bytes, size);
      report.wanted_for = tensor;
      lock.unlock();
      report_out_of_memory(std::move(report));
    }
    block->tensor = tensor;
    block->place = place;
    note("alloc", block, bytes);
    return reinterpret_cast<void*>(block->address);
  }

  void release(void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find_used(memory);
    block->held = false;
    note("free_requested", block, block->requested);
    const auto size = static_cast<int64_t>(block->size);
    count(stats_.allocation, block, -1);
    count(stats_.allocated_bytes, block, -size);
    count(stats_.requested_bytes, block, -static_cast<int64_t>(block->requested));
    if (block->users.empty()) return keep_recent(block) ? void() : give_back(block);
    ++block->events;
    if (captures_.empty()) wait_for_users(block);
    else deferred_.push_back(block);  // events cannot be asked before the capture ends
  }

  void record_stream(void* memory, Stream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find_used(memory);
    if (block->stream == stream.id || std::count(block->users.begin(), block->users.end(), stream)) return;
    block->users.push_back(stream);
  }

  bool is_used_elsewhere(const void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Block* block = blocks_.find(reinterpret_cast<CUdeviceptr>(memory));
    return block && !block->users.empty();
  }

  std::vector<Stream> streams_of(void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Block* block = find_used(memory);
    std::vector<Stream> streams = block->users;
    streams.insert(streams.begin(), {{DeviceType::CUDA, static_cast<int8_t>(device_)}, block->stream});
    return streams;
  }

  void empty_cache() {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceGuard guard(device_);
    wait_and_release_cached();
  }

  Segment segment_of(void* memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Block* block = find_used(memory);
    if (block->range) return granules_of(block);
    const Block* first = block;
    while (first->before) first = first->before;
    size_t bytes = 0;
    for (const Block* b = first; b; b = b->after) bytes += b->size;
    return {reinterpret_cast<void*>(first->address), bytes};
  }
  Segment granules_of(const Block* block) {
    const ExpandableRange& range = block->range->memory;
    const size_t granule = range.granule(), begin = (block->address - range.base()) / granule * granule;
    const CUdeviceptr first = range.base() + begin;
    Segment made{reinterpret_cast<void*>(first), round_up(block->address + block->size - first, granule), granule, {}};
    DeviceGuard guard(device_);
    try {
      for (size_t done = 0; done < made.bytes; done += granule)
        made.files.push_back(range.export_granule(first + done));
    } catch (...) {
      for (const int file : made.files) close(file);
      throw;
    }
    return made;
  }

  // ---- pools of graphs

  void begin_pool(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    captures_.push_back({used_pool(id), 0});
  }
  void name_capture(PoolId id, uint64_t capture) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto unnamed = find_capture(id, 0);
    if (unnamed != captures_.end()) unnamed->number = capture;
  }
  void end_pool(PoolId id, uint64_t capture) {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceGuard guard(device_);
    const auto ended = find_capture(id, capture);
    if (ended != captures_.end()) captures_.erase(ended);
    if (!captures_.empty()) return;
    for (Block* block : std::exchange(deferred_, {})) wait_for_users(block);
  }
  void release_pool(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = graph_pools_.find(id);
    if (found != graph_pools_.end()) --found->second->users;
  }
  bool is_capturing() {
    std::lock_guard<std::mutex> lock(mutex_);
    return !captures_.empty();
  }

  void keep_pool(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    used_pool(id);
  }
  int pool_users(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = graph_pools_.find(id);
    return found == graph_pools_.end() ? 0 : found->second->users;
  }
  void route_to_pool(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    routes_.push_back({used_pool(id), std::this_thread::get_id()});
  }
  void end_route(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto last = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& r) {
      return r.pool->id == id && r.thread == std::this_thread::get_id();
    });
    if (last == routes_.rend()) return;
    --last->pool->users;
    routes_.erase(std::next(last).base());
  }

  std::vector<TraceEntry> trace() {
    std::lock_guard<std::mutex> lock(mutex_);
    return trace_.entries();
  }
  void forget_trace() {
    std::lock_guard<std::mutex> lock(mutex_);
    trace_.forget();
  }

  void set_fraction(double fraction) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = static_cast<size_t>(fraction * static_cast<double>(properties(device_).total_memory));
  }
  double fraction() {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<double>(limit_) / static_cast<double>(properties(device_).total_memory);
  }

  void set_budget(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    budget_ = bytes;
    if (reserved() <= bound()) return;
    DeviceGuard guard(device_);
    wait_and_release_cached();
  }
  size_t budget() {
    std::lock_guard<std::mutex> lock(mutex_);
    return budget_;
  }
  size_t held() {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(stats_.allocated_bytes.all.current);
  }

  AllocatorStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    join_all_recent();
    return stats_;
  }
  template <class F>
  void each_stat(F f) {
    std::lock_guard<std::mutex> lock(mutex_);
    join_all_recent();
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

  // Of an expandable segment every piece that is mapped shows as one.
  void snapshot(std::vector<SegmentSnapshot>& to) {
    std::lock_guard<std::mutex> lock(mutex_);
    join_all_recent();
    blocks_.each([&](const Block& block) {
      if (!block.mapped || (block.before && block.before->mapped)) return;
      const Pool& pool = *block.pool;
      SegmentSnapshot s{device_,
                        block.address,
                        block.stream,
                        0,
                        0,
                        0,
                        pool.is_small,
                        block.range != nullptr,
                        pool.graph ? pool.graph->id : 0,
                        {}};
      for (const Block* b = &block; b && b->mapped; b = b->after) {
        s.total += b->size;
        s.allocated += b->in_use && !b->events ? b->size : 0;
        s.active += b->in_use ? b->size : 0;
        s.blocks.push_back({b->address, b->size, b->requested,
                            !b->in_use  ? "inactive"
                            : b->events ? "active_awaiting_free"
                                        : "active_allocated",
                            b->place, b->in_use ? b->tensor.text() : std::string()});
      }
      to.push_back(std::move(s));
    });
  }

 private:
  struct Pending {
    Event event;
    Block* block;
  };
  struct Capture {
    GraphPool* pool;
    uint64_t number;
  };
  struct Route {
    GraphPool* pool;
    std::thread::id thread;
  };
  std::vector<Capture>::iterator find_capture(PoolId id, uint64_t number) {
    return std::find_if(captures_.begin(), captures_.end(),
                        [&](const Capture& c) { return c.pool->id == id && c.number == number; });
  }

  void note(const char* action, const Block* block, size_t size) {
    if (!MemoryTrace::is_on()) return;
    const GraphPool* graph = block->pool->graph;
    trace_.note({action, block->address, size, block->stream, graph ? graph->id : 0, block->place, 0});
  }

  // ---- counters

  void count(Stats3& stats, const Block* block, int64_t amount) {
    if (!amount) return;
    stats.all.add(amount);
    stats.of(block->pool->is_small).add(amount);
  }
  void count_free(const Block* block, int sign) {
    if (!block->is_split() || block->range) return;
    count(stats_.inactive_split, block, sign);
    count(stats_.inactive_split_bytes, block, sign * static_cast<int64_t>(block->size));
  }
  void count_segment(const Block* block, int sign) {
    if (block->range) note(sign > 0 ? "segment_map" : "segment_unmap", block, block->size);
    else note(sign > 0 ? "segment_alloc" : "segment_free", block, block->size);
    count(stats_.segment, block, sign);
    count(stats_.reserved_bytes, block, sign * static_cast<int64_t>(block->size));
    ++(sign > 0 ? stats_.driver_allocations : stats_.driver_frees);
  }
  size_t reserved() const { return static_cast<size_t>(stats_.reserved_bytes.all.current); }
  size_t active() const { return static_cast<size_t>(stats_.active_bytes.all.current); }
  /// Of what is reserved.
  size_t bound() const { return budget_ ? std::min(limit_, budget_) : limit_; }

  // ---- pools

  /// With one user more.
  GraphPool* used_pool(PoolId id) {
    auto& pool = graph_pools_[id];
    if (!pool) pool = std::make_unique<GraphPool>(id);
    ++pool->users;
    return pool.get();
  }

  /// That of the graph which is captured from the stream, or the one for all.
  Pool& pool_for(size_t size, Stream stream) {
    const bool small = size <= kSmall;
    if (captures_.empty()) return unless_routed(small);
    const uint64_t number = capture_id(stream);
    if (number == 0) return unless_routed(small);
    const auto found =
        std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) { return c.number == number; });
    if (found == captures_.end()) return unless_routed(small);  // somebody else's
    return small ? found->pool->small : found->pool->large;
  }

  /// The pool for all, or the one that the program has chosen for this thread.
  Pool& unless_routed(bool small) {
    for (auto r = routes_.rbegin(); r != routes_.rend(); ++r)
      if (r->thread == std::this_thread::get_id()) return small ? r->pool->small : r->pool->large;
    return small ? small_ : large_;
  }

  Block* find_used(void* memory) {
    Block* block = blocks_.find(reinterpret_cast<CUdeviceptr>(memory));
    FACULA_CHECK(block && block->held, ErrorKind::Runtime, "cuda: memory of this allocator that is in use, got ",
                 memory);
    return block;
  }

  // ---- blocks that were released and are kept as they are

  static RecentBlocks& recent_of(Pool& pool, size_t size) { return pool.recent[size / kUnit]; }

  static Block* find_recent(Pool& pool, size_t size, uint64_t stream) {
    if (size > kRecentSizes) return nullptr;
    RecentBlocks& recent = recent_of(pool, size);
    if (!recent.last || recent.stream != stream) return nullptr;
    return std::exchange(recent.last, recent.last->recent);
  }

  /// False where the block has to be given back.
  bool keep_recent(Block* block) {
    if (block->size > kRecentSizes || !block->pool->is_small || is_uncached()) return false;
    RecentBlocks& recent = recent_of(*block->pool, block->size);
    if (recent.last && recent.stream != block->stream) return false;
    note("free_completed", block, block->requested);
    count_active(block, -1);
    poison(block, kReleasedPoison);
    recent.stream = block->stream;
    block->recent = std::exchange(recent.last, block);
    block->pool->has_recent = true;
    return true;
  }

  /// They become free ones. Whether there were any.
  bool join_recent(Pool& pool) {
    if (!std::exchange(pool.has_recent, false)) return false;
    for (RecentBlocks& recent : pool.recent) {
      Block* block = std::exchange(recent.last, nullptr);
      while (block) make_free(std::exchange(block, block->recent));
    }
    return true;
  }
  void join_all_recent() {
    join_recent(small_);
    for (const auto& [id, pool] : graph_pools_) join_recent(pool->small);
  }

  // ---- finding blocks

  Block* find_or_make(Pool& pool, size_t size, uint64_t stream) {
    Block* block = find(pool, size, stream);
    if (!block && join_recent(pool)) block = find(pool, size, stream);
    if (block) return block;
    DeviceGuard guard(device_);
    return new_block(pool, size, stream);
  }

  /// The same after all that is cached has gone.
  Block* find_without_cache(Pool& pool, size_t size, uint64_t stream) {
    DeviceGuard guard(device_);
    if (!wait_and_release_cached()) return nullptr;
    ++stats_.retries;
    Block* block = find(pool, size, stream);
    return block ? block : new_block(pool, size, stream);
  }

  /// The same as long as a budget lets go of something. The lock is open meanwhile.
  Block* find_with_room(std::unique_lock<std::mutex>& lock, size_t size, Stream stream) {
    static thread_local bool makes_room = false;  // what is needed for that is not made room for
    while (budget_ && size <= bound() && captures_.empty() && budget_hooks.make_room && !makes_room) {
      const size_t wanted = active() + size;
      lock.unlock();
      makes_room = true;
      size_t went = 0;
      try {
        went = budget_hooks.make_room({DeviceType::CUDA, static_cast<int8_t>(device_)},
                                      wanted > bound() ? wanted - bound() : size);
      } catch (...) {
        makes_room = false;
        throw;
      }
      makes_room = false;
      lock.lock();
      if (Block* block = find_or_make(pool_for(size, stream), size, stream.id)) return block;
      if (wait_for_pending()) {
        if (Block* block = find_or_make(pool_for(size, stream), size, stream.id)) return block;
      }
      if (went == 0) break;
    }
    return nullptr;
  }

  Block* make_block(CUdeviceptr address, size_t size, uint64_t stream, Pool& pool) {
    Block* block = spare_.empty() ? new Block : spare_.back();
    if (!spare_.empty()) spare_.pop_back();
    *block = Block{address, size, stream, &pool};
    blocks_.insert(address, block);
    return block;
  }
  void forget(Block* block) {
    blocks_.erase(block->address);
    spare_.push_back(block);
  }

  void put(Block* block) {
    block->age = ++clock_;
    block->pool->free.insert(block);
    count_free(block, 1);
  }
  void take_out(Block* block) {
    if (block->pool->free.erase(block)) count_free(block, -1);
  }

  /// The best fit; large blocks are kept for large requests where a program says so.
  Block* find(Pool& pool, size_t size, uint64_t stream) {
    Block wanted{0, size, stream, &pool};
    const auto found = pool.free.lower_bound(&wanted);
    if (found == pool.free.end() || (*found)->stream != stream) return nullptr;
    Block* block = *found;
    const size_t most = settings_.max_split;
    if (size < most ? block->size >= most && most != SIZE_MAX : block->size >= size + kMiddleSegment) return nullptr;
    take_out(block);
    return block;
  }

  Block* new_block(Pool& pool, size_t size, uint64_t stream) {
    const bool uncached = is_uncached() && !pool.graph;
    if ((settings_.expandable_segments || budget_) && !uncached) return expand(pool, size, stream);
    const size_t bytes = uncached ? size : segment_size(size);
    collect_garbage(bytes);
    if (reserved() + bytes > bound()) return nullptr;
    CUdeviceptr address = 0;
    RelaxedCapture relaxed;
    const CUresult result = driver().cuMemAlloc_v2(&address, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check(result, "cuMemAlloc_v2");
    Block* block = make_block(address, bytes, stream, pool);
    count_segment(block, 1);
    return block;
  }

  /// Cuts a block after `size` bytes: what is behind, which is in no pool.
  Block* cut(Block* block, size_t size) {
    Block* rest = make_block(block->address + size, block->size - size, block->stream, *block->pool);
    rest->range = block->range;
    rest->mapped = block->mapped;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
  }

  bool is_worth_keeping(const Block* block, size_t size) const {
    const size_t left = block->size - size;
    if (block->pool->is_small || block->range) return left >= kUnit;
    return size < settings_.max_split && left > kSmall;
  }

  /// Marks it used, and puts what is left of it back.
  void take(Block* block, size_t size, size_t requested) {
    if (is_worth_keeping(block, size)) put(cut(block, size));
    block->in_use = true;
    use(block, requested);
  }

  void use(Block* block, size_t requested) {
    block->held = true;
    block->requested = requested;
    count(stats_.allocation, block, 1);
    count(stats_.allocated_bytes, block, static_cast<int64_t>(block->size));
    count_active(block, 1);
    count(stats_.requested_bytes, block, static_cast<int64_t>(requested));
    poison(block, kUnsetPoison);
  }

  /// Fills a block, in the order of its stream's work.
  void poison(const Block* block, unsigned char value) {
    if (!is_poisoned() || !captures_.empty()) return;
    DeviceGuard guard(device_);
    FACULA_CUDA_CALL(cuMemsetD8Async, block->address, value, block->size,
                     handle(Stream{{DeviceType::CUDA, static_cast<int8_t>(device_)}, block->stream}));
  }

  void count_active(const Block* block, int sign) {
    count(stats_.active, block, sign);
    count(stats_.active_bytes, block, sign * static_cast<int64_t>(block->size));
  }

  void give_back(Block* block) {
    note("free_completed", block, block->requested);
    count_active(block, -1);
    poison(block, kReleasedPoison);
    make_free(block);
  }

  void make_free(Block* block) {
    block->in_use = false;
    block->requested = 0;
    put(block = join_free(block));
    if (!is_uncached() || block->pool->graph) return;
    DeviceGuard guard(device_);
    release_segment(block);
  }

  /// A free block with its free neighbours, in no pool.
  Block* join_free(Block* block) {
    if (block->before && block->before->is_free()) block = join(block->before, block);
    if (block->after && block->after->is_free()) block = join(block, block->after);
    return block;
  }
  /// Two neighbours become the first.
  Block* join(Block* first, Block* second) {
    take_out(first);
    take_out(second);
    first->size += second->size;
    first->after = second->after;
    if (first->after) first->after->before = first;
    forget(second);
    return first;
  }

  // ---- expandable segments

  Range& new_range(Pool& pool, uint64_t stream) {
    const size_t total = properties(device_).total_memory;  // addresses cost nothing
    const bool is_fine = pool.is_small || budget_;
    pool.ranges[stream].emplace_back(
        new Range{{device_, total + total / 8, is_fine ? kSmallSegment : kMiddleSegment}, is_fine});
    Range& range = *pool.ranges[stream].back();
    Block* block = make_block(range.memory.base(), range.memory.bytes(), stream, pool);
    block->range = &range;
    block->mapped = false;
    range.first = block;
    return range;
  }

  static size_t free_bytes(const Block* block) { return block && block->is_free() ? block->size : 0; }

  /// The first place where, with the free blocks beside it, there is room: an unmapped block.
  static Block* find_room(const Range& range, size_t size) {
    for (Block* b = range.first; b; b = b->after)
      if (!b->mapped && free_bytes(b->before) + b->size + free_bytes(b->after) >= size) return b;
    return nullptr;
  }

  /// Maps as much as is missing there. A second range only serves holes that lie badly in the first.
  Block* expand(Pool& pool, size_t size, uint64_t stream) {
    if (size > bound()) return nullptr;
    Block* block = nullptr;
    for (const auto& range : pool.ranges[stream])
      if (!block && (range->is_fine || !budget_)) block = find_room(*range, size);
    if (!block) block = new_range(pool, stream).first;
    const size_t need =
        std::min(round_up(size - free_bytes(block->before), block->range->memory.granule()), block->size);
    collect_garbage(need);
    if (!map_within_bound(block, need)) return nullptr;
    if (need < block->size) cut(block, need);
    block->mapped = true;
    count_segment(block, 1);
    return join_free(block);
  }

  /// The beginning of a block, with granules of others where a budget has no more.
  bool map_within_bound(Block* block, size_t bytes) {
    const size_t wanted = reserved() + bytes;
    if (wanted > bound() && !(budget_ && release_longest_free(wanted - bound(), block))) return false;
    RelaxedCapture relaxed;
    const auto map = [&] { return block->range->memory.map(block->address, bytes); };
    return map() || (budget_ && release_longest_free(bytes, block) && map());  // it may be others who have the memory
  }

  /// The whole granules of a block, from the beginning of its range.
  struct Granules {
    size_t begin, first, last;
    size_t bytes() const { return last > first ? last - first : 0; }
  };
  static Granules granules_inside(const Block* block) {
    const ExpandableRange& range = block->range->memory;
    const size_t begin = block->address - range.base();
    return {begin, round_up(begin, range.granule()), (begin + block->size) / range.granule() * range.granule()};
  }

  /// So many bytes of whole granules of a free block go back to the driver, or all there are.
  bool unmap(Block* block, size_t most = SIZE_MAX) {
    const auto [begin, first, inside] = granules_inside(block);
    if (first >= inside) return false;
    const size_t last =
        first + std::min(inside - first, round_up(std::min(most, inside), block->range->memory.granule()));
    take_out(block);
    if (first > begin) {
      Block* inner = cut(block, first - begin);
      put(block);
      block = inner;
    }
    if (block->size > last - first) put(cut(block, last - first));
    block->range->memory.unmap(block->address, block->size);
    count_segment(block, -1);
    block->mapped = false;
    if (block->before && !block->before->mapped) block = join(block->before, block);
    if (block->after && !block->after->mapped) join(block, block->after);
    return true;
  }

  // ---- giving back

  void wait_for_users(Block* block) {
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
    if (--block->events == 0) give_back(block);  // the one that release() counted
  }

  void free_reached() {
    if (!captures_.empty()) return;
    DeviceGuard guard(device_);
    for (auto p = pending_.begin(); p != pending_.end();) {
      if (!p->event.is_done()) {
        ++p;
        continue;
      }
      if (--p->block->events == 0) give_back(p->block);
      p = pending_.erase(p);
    }
  }

  /// What release_segment() would give back of a free block.
  static size_t releasable(const Block* block) {
    if (block->range) return granules_inside(block).bytes();
    return block->is_split() ? 0 : block->size;
  }
  /// So many bytes go back to the driver, of the free blocks that were not used for longest, but of none beside `kept`;
  /// nothing where all of them are not enough, or cannot be waited for.
  bool release_longest_free(size_t bytes, const Block* kept) {
    if (!captures_.empty()) return false;
    std::vector<Block*> blocks;
    size_t together = 0;
    for (Pool* pool : {&small_, &large_}) {
      join_recent(*pool);
      for (Block* block : pool->free) {
        if (block == kept->before || block == kept->after || releasable(block) == 0) continue;
        blocks.push_back(block);
        together += releasable(block);
      }
    }
    if (together < bytes) return false;
    std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) { return a->age < b->age; });
    std::set<uint64_t> waited;
    for (Block* block : blocks) {
      if (bytes == 0) break;
      if (waited.insert(block->stream).second) wait_for(block->stream);
      const size_t part = std::min(bytes, releasable(block));
      if (block->range) unmap(block, part);
      else release_segment(block);
      bytes -= part;
    }
    return true;
  }
  void wait_for(uint64_t stream) {
    const Stream it{{DeviceType::CUDA, static_cast<int8_t>(device_)}, stream};
    if (driver().cuStreamSynchronize(handle(it)) == CUDA_SUCCESS) return;
    check(driver().cuCtxSynchronize(), "cuCtxSynchronize");  // the stream may be gone
  }

  /// Released blocks that other streams used become free. Whether there were any.
  bool wait_for_pending() {
    if (pending_.empty() || !captures_.empty()) return false;
    for (const Pending& p : pending_) p.event.synchronize();
    free_reached();
    return true;
  }

  bool release_segment(Block* block) {
    if (block->range) return unmap(block);
    if (block->is_split()) return false;
    take_out(block);
    FACULA_CUDA_CALL(cuMemFree_v2, block->address);
    count_segment(block, -1);
    forget(block);
    return true;
  }
  bool release_segments(Pool& pool) {
    bool any = false;
    join_recent(pool);
    const std::vector<Block*> all(pool.free.begin(), pool.free.end());
    for (Block* block : all) any |= release_segment(block);
    return any;
  }

  /// Whether the driver got something back. What graphs keep stays.
  bool wait_and_release_cached() {
    if (captures_.empty()) {
      wait_for_pending();
      if (!small_.ranges.empty() || !large_.ranges.empty()) check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
    } else if (!small_.ranges.empty() || !large_.ranges.empty()) {
      return false;  // what is unmapped must be waited for
    }
    RelaxedCapture relaxed;
    bool any = release_segments(small_);
    any |= release_segments(large_);
    for (auto p = graph_pools_.begin(); p != graph_pools_.end();) {
      GraphPool& pool = *p->second;
      if (pool.users == 0 && captures_.empty()) {
        any |= release_segments(pool.small);
        any |= release_segments(pool.large);
      }
      const bool gone = pool.users == 0 && is_empty(pool);
      if (gone) forget(pool);
      p = gone ? graph_pools_.erase(p) : std::next(p);
    }
    return any;
  }
  static bool is_of(const Block& block, const GraphPool& pool) { return block.pool->graph == &pool; }
  bool is_empty(const GraphPool& pool) const {
    bool empty = true;
    blocks_.each([&](const Block& b) { empty &= !is_of(b, pool) || !b.mapped; });
    return empty;
  }
  /// Addresses that were reserved, and nothing mapped there.
  void forget(const GraphPool& pool) {
    std::vector<Block*> gone;
    blocks_.each([&](Block& b) {
      if (is_of(b, pool)) gone.push_back(&b);
    });
    for (Block* block : gone) forget(block);
  }

  /// Free segments that were not used for longest, where the program wants a part of the memory kept free.
  void collect_garbage(size_t wanted) {
    const auto most = static_cast<size_t>(settings_.garbage_threshold * static_cast<double>(limit_));
    if (most == 0 || reserved() + wanted <= most || !captures_.empty()) return;
    std::vector<Block*> candidates;
    for (Block* block : large_.free)
      if (!block->is_split()) candidates.push_back(block);
    std::sort(candidates.begin(), candidates.end(), [](const Block* a, const Block* b) { return a->age < b->age; });
    for (Block* block : candidates) {
      if (reserved() + wanted <= most) return;
      release_segment(block);
    }
  }

  MemoryReport describe(size_t wanted, size_t size) {
    ++stats_.out_of_memory;
    const char* op = current_op();
    MemoryReport r{};
    r.op = std::string_view(op) == "cuda" ? "empty" : op;
    r.device = device_;
    r.wanted = wanted;
    DeviceGuard guard(device_);
    driver().cuMemGetInfo_v2(&r.free, &r.total);
    if (MemoryTrace::is_on()) trace_.note({"oom", r.free, wanted, 0, 0, 0, 0});
    r.limit = limit_;
    r.budget = budget_ && budget_ <= limit_ && reserved() + size > budget_ ? budget_ : 0;
    r.reserved = reserved();
    r.expandable = settings_.expandable_segments || budget_;
    r.places = places_wanted;
    join_all_recent();
    blocks_.each([&](const Block& b) {
      if (b.in_use) {
        r.allocated += b.size;
        r.held.push_back({b.tensor, b.place, b.size});
      } else if (b.mapped) {
        r.cached += b.size;
        r.largest = std::max(r.largest, b.size);
        r.of_graphs += b.pool->graph && b.pool->graph->users ? b.size : 0;
        ++r.pieces;
      }
    });
    return r;
  }

  const int device_;
  std::mutex mutex_;
  size_t limit_, budget_ = 0;
  AllocatorSettings settings_;
  uint64_t settings_version_ = 0;
  AddressMap<Block> blocks_;  // all that there are; the allocator lives as long as the process
  std::vector<Block*> spare_;
  Pool small_{true}, large_{false};
  std::list<Pending> pending_;
  std::map<PoolId, std::unique_ptr<GraphPool>> graph_pools_;
  std::vector<Capture> captures_;
  std::vector<Route> routes_;
  std::vector<Block*> deferred_;
  uint64_t clock_ = 0;
  AllocatorStats stats_;
  MemoryTrace trace_;
};

std::array<std::atomic<DeviceAllocator*>, detail::kMostDevices> allocators;  // for ever: tensors may outlive main

DeviceAllocator& make_allocator(int device) {
  static std::mutex mutex;
  properties(device);  // it is there
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
  if (!is_allocator_changed()) allocator_of(stream.device.index).record_stream(memory, stream);  // else it sees to that
}
std::vector<Stream> streams_of(void* memory, int device) {
  return is_allocator_changed() ? std::vector<Stream>() : allocator_of(device).streams_of(memory);
}

void record_places(bool on) { places_wanted = on; }
Segment segment_of(void* memory, int device) { return allocator_of(device).segment_of(memory); }

PoolId new_pool() {
  static std::atomic<PoolId> last{0};
  return ++last;
}
void begin_pool(PoolId pool, int device) { allocator_of(device).begin_pool(pool); }
void name_capture(PoolId pool, int device, uint64_t capture) { allocator_of(device).name_capture(pool, capture); }
void end_pool(PoolId pool, int device, uint64_t capture) { allocator_of(device).end_pool(pool, capture); }
void release_pool(PoolId pool, int device) { allocator_of(device).release_pool(pool); }
void keep_pool(PoolId pool, int device) { allocator_of(device).keep_pool(pool); }
int pool_users(PoolId pool, int device) { return allocator_of(device).pool_users(pool); }
void route_to_pool(PoolId pool, int device) { allocator_of(device).route_to_pool(pool); }
void end_route(PoolId pool, int device) { allocator_of(device).end_route(pool); }
std::vector<TraceEntry> memory_trace(int device) { return allocator_of(device).trace(); }
void forget_trace(int device) { allocator_of(device).forget_trace(); }
bool is_capturing(int device) { return allocator_of(device).is_capturing(); }

void empty_cache() {
  for (int d = 0; d < device_count(); ++d) allocator_of(d).empty_cache();
}
void set_memory_fraction(double fraction, int device) { allocator_of(device).set_fraction(fraction); }
double memory_fraction(int device) { return allocator_of(device).fraction(); }
void set_memory_budget(int device, size_t bytes) { allocator_of(device).set_budget(bytes); }
size_t memory_budget(int device) { return allocator_of(device).budget(); }
size_t held_bytes(int device) { return allocator_of(device).held(); }
bool is_used_elsewhere(const void* memory, int device) { return allocator_of(device).is_used_elsewhere(memory); }
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
