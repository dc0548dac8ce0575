// What an allocator says about its blocks: counters, snapshots, and the report of exhausted memory.
#include "core/budget_bound.h"
#include "core/checked.h"
#include "cuda/device.h"
#include "cuda/device_allocator.h"

namespace facula::cuda {
namespace {

const char* snapshot_state(const Block& block) {
  switch (block.state) {
    case BlockState::Allocated: return "active_allocated";
    case BlockState::AwaitingFree: return "active_awaiting_free";
    default: return "inactive";  // recent blocks were joined before
  }
}

}  // namespace

/// Recent blocks become free, so that reports show free memory as it could be used.
void DeviceAllocator::join_all_recent() {
  blocks_.join_recent(pools_.small);
  for (const auto& [id, pool] : pools_.of_graphs()) blocks_.join_recent(pool->small);
}

AllocatorStats DeviceAllocator::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  join_all_recent();
  return records_.stats;
}

template <class F>
void DeviceAllocator::each_stat(F f) {
  AllocatorStats& stats = records_.stats;
  join_all_recent();
  for (Stats3* s : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                    &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes})
    for (Stat* stat : {&s->all, &s->small, &s->large}) f(*stat);
}

void DeviceAllocator::reset_peaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  each_stat([](Stat& s) { s.reset_peak(); });
}

void DeviceAllocator::reset_accumulated() {
  std::lock_guard<std::mutex> lock(mutex_);
  each_stat([](Stat& s) { s.reset_accumulated(); });
  records_.stats.retries = records_.stats.out_of_memory = 0;
}

std::vector<TraceEntry> DeviceAllocator::trace() {
  std::lock_guard<std::mutex> lock(mutex_);
  return records_.trace.entries();
}

void DeviceAllocator::forget_trace() {
  std::lock_guard<std::mutex> lock(mutex_);
  records_.trace.forget();
}

// Each mapped piece of an expandable segment is shown as a segment.
void DeviceAllocator::snapshot(std::vector<SegmentSnapshot>& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  join_all_recent();
  blocks_.each([&](const Block& first) {
    if (!first.is_mapped() || (first.before && first.before->is_mapped())) return;
    SegmentSnapshot segment{};
    segment.device = device_;
    segment.address = first.address;
    segment.stream = first.stream;
    segment.is_small = first.pool->is_small;
    segment.is_expandable = first.range != nullptr;
    segment.pool = first.pool->graph_id();
    for (const Block* b = &first; b && b->is_mapped(); b = b->after) {
      segment.total += b->size;
      segment.allocated += b->state == BlockState::Allocated ? b->size : 0;
      segment.active += b->is_active() ? b->size : 0;
      segment.blocks.push_back({b->address, b->size, b->requested, snapshot_state(*b), b->place,
                                b->is_active() ? b->tensor.text() : std::string()});
    }
    to.push_back(std::move(segment));
  });
}

MemoryReport DeviceAllocator::describe_exhaustion(size_t wanted, size_t size) {
  ++records_.stats.out_of_memory;
  const char* op = current_op();
  MemoryReport r{};
  r.op = std::string_view(op) == "cuda" ? "empty" : op;
  r.device = device_;
  r.wanted = wanted;
  DeviceGuard guard(device_);
  driver().cuMemGetInfo_v2(&r.free, &r.total);
  if (MemoryTrace::is_on()) records_.trace.note({"oom", r.free, wanted, 0, 0, 0, 0});
  const size_t budget = segments_.budget;
  r.limit = segments_.limit;
  r.budget = budget && budget <= r.limit && records_.reserved() + size > budget ? budget : 0;
  r.reserved = records_.reserved();
  r.expandable = segments_.are_expandable();
  r.places = are_places_recorded;
  join_all_recent();
  blocks_.each([&](const Block& b) {
    if (b.is_active()) {
      r.allocated += b.size;
      r.held.push_back({b.tensor, b.place, b.size});
    } else if (b.is_mapped()) {
      r.cached += b.size;
      r.largest = std::max(r.largest, b.size);
      r.of_graphs += b.pool->graph && b.pool->graph->users ? b.size : 0;
      ++r.pieces;
    }
  });
  return r;
}

}  // namespace facula::cuda
