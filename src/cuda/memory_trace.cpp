#include "cuda/memory_trace.h"

#include <atomic>
#include <chrono>

#include "cuda/allocator.h"
#include "cuda/device.h"

namespace facula::cuda {
namespace {

std::atomic<size_t> most_entries{0};

}  // namespace

bool MemoryTrace::is_on() { return most_entries.load(std::memory_order_relaxed) != 0; }

void MemoryTrace::note(TraceEntry entry) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  entry.microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  entries_.push_back(entry);
  while (entries_.size() > most_entries) entries_.pop_front();
}

void record_trace(size_t most, bool forget) {
  most_entries = most;
  for (int d = 0; forget && d < device_count(); ++d) forget_trace(d);
}

}  // namespace facula::cuda
