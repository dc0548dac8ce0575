// Records what happens while a profile runs: ops, composites, backward nodes, named ranges, kernels, work of the pool's
// threads, and the bytes of storages.
//   - Every thread writes to a list of its own; nothing is shared while recording.
//   - An event knows the event around it on its thread. Shapes and stacks are stored beside the events, when requested.
//   - Times are those of the monotonic clock, in nanoseconds.
#pragma once

#include <string>
#include <vector>

#include "observe/observer.h"

namespace facula::profiler {

enum class EventKind : uint8_t { Op, Composite, Node, Range, Kernel, Work, Memory };

struct Event {
  EventKind kind;
  OpForm form = OpForm::Function;
  uint16_t op = 0;      // of Op and Composite
  uint32_t name = 0;    // of Node, Range, Kernel: index into Lane::names
  int32_t parent = -1;  // index into Lane::events
  uint32_t stack = 0;   // where Python was, as `host.capture_stack` numbers it; 0: not known
  int64_t begin = 0, end = 0;
  int64_t sequence = -1;     // of the node that records an op, and of a node itself
  int64_t bytes = 0;         // taken minus given back, without what the events inside did; of Memory: this change
  int64_t device_bytes = 0;  // the same of other devices than the CPU
  int64_t address = 0;       // of Memory: which storage
  int64_t details = -1;      // index into Lane::details: the shapes of arguments and results
  bool failed = false;
};

/// What one thread did.
struct Lane {
  int64_t thread;  // the system's number
  std::string title;
  std::vector<Event> events;
  std::vector<std::string> names;
  /// For arguments, then for results: their number, and of each: dimensions (-1: not a tensor), dtype, sizes.
  std::vector<int64_t> details;
};

struct Options {
  bool shapes = false;
  bool stacks = false;
  bool memory = false;
};

/// One recording. Throws a RuntimeError when one runs already (start) or none does (stop).
void start(const Options& options);
std::vector<Lane> stop();
bool recording();

}  // namespace facula::profiler
