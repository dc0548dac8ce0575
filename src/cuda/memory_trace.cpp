#include "cuda/memory_trace.h"

#include <chrono>

#include "cuda/allocator.h"
#include "cuda/device.h"

namespace facula::cuda {
void MemoryTrace::note(TraceEntry entry) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  entry.microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  entries_.push_back(entry);
  while (entries_.size() > most) entries_.pop_front();
}

void record_trace(size_t most, bool forget) {
  MemoryTrace::most = most;
  for (int d = 0; forget && d < device_count(); ++d) forget_trace(d);
}

}  // namespace facula::cuda
