// Records what holds memory: the storages that were made since recording began and still live, each with the op that
// made it, the stack of that moment, and the last changes in order.
#pragma once

#include <cstdint>
#include <vector>

#include "observe/memory_cause.h"

namespace facula::profiler {

struct MemoryRecord {
  int64_t storage;  // address of the header: distinguishes storages that live at the same time
  int64_t bytes;    // of a change: negative when it was let go
  uint16_t op;      // the op that ran, 0: none
  uint32_t stack;   // as in observer.h
  int64_t time;     // monotonic clock, nanoseconds
  int64_t thread;
  MemoryCause cause;
};

struct MemoryHistory {
  std::vector<MemoryRecord> live;     // in the order in which they were made
  std::vector<MemoryRecord> changes;  // the last ones, oldest first
  int64_t forgotten = 0;              // changes before those
};

/// Begins, or begins anew; keeps the last `changes` changes. A short stack doubles what a record costs.
void start_memory_history(int64_t changes, bool stacks);
void stop_memory_history();
bool memory_history_runs();
/// What is known now; what was known last when it does not run.
MemoryHistory memory_history();

}  // namespace facula::profiler
