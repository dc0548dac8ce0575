// Records what devices do while a profile runs.
//   - With CUPTI, every kernel, copy and fill is reported, and the call of the driver that queued it. A number is
//     pushed around the work that a kernel of a table queues (external correlation), by which the records find the op.
//   - Without it, or if another profiler holds it, a pair of events stands around that work. One entry then stands for
//     everything that a kernel of a table queued, including products of libraries, and the names of their kernels are
//     not known.
//
// A recording begins and ends with a wait for the devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace facula::cuda {

enum class ActivityKind : uint8_t { Work, Kernel, Copy, Fill };  // Work: between two events

/// Times are those of the monotonic clock, in nanoseconds.
struct Activity {
  ActivityKind kind = ActivityKind::Work;
  const char* kernel = nullptr;    // of the table; null: something else queued it
  int64_t thread = 0, queued = 0;  // who queued it, and when; thread 0: not known
  int device = 0;
  uint64_t stream = 0;  // a number, 0 for the default one
  int64_t begin = 0, end = 0;
  // ---- what CUPTI says
  std::string name{};
  uint32_t call = 0;        // number of the call that queued it
  uint64_t graph_node = 0;  // 0: it belongs to no graph
  int grid[3] = {}, block[3] = {}, registers = 0, shared_bytes = 0;
  uint64_t bytes = 0;  // copied or filled
};
/// A call of the driver or of CUDA's runtime that queued something.
struct QueueingCall {
  uint32_t number;
  int64_t thread, begin, end;
  const char* name;
};
struct Activities {
  std::vector<Activity> done;
  std::vector<QueueingCall> calls;
  uint64_t lost = 0;  // records that there was no room for, or that were not complete
};

/// One of the ways to find out.
class ActivityRecording {
 public:
  virtual ~ActivityRecording() = default;
  /// A number for end(); negative where there is nothing to end.
  virtual int64_t begin(int device, const char* kernel) = 0;
  virtual void end(int64_t number) noexcept = 0;
  /// The devices have done their work.
  virtual Activities finish() = 0;
};
std::shared_ptr<ActivityRecording> record_by_events();
/// Null, and `why` says it, where CUPTI cannot be used.
std::shared_ptr<ActivityRecording> record_by_cupti(std::string& why);

int64_t activity_clock();

inline std::atomic<bool> activity_is_recorded{false};
/// Of what this thread queues now.
inline thread_local constinit bool activity_is_open __attribute__((tls_model("initial-exec"))) = false;
/// Around what a thread queues on its current stream.
void activity_begins(int device, const char* kernel);
void end_activity() noexcept;
inline void activity_ends() {
  if (__builtin_expect(activity_is_open, 0)) end_activity();
}
/// Around work that no kernel of a table queues.
class ActivityNote {
 public:
  ActivityNote(int device, const char* what) {
    if (__builtin_expect(activity_is_recorded.load(std::memory_order_relaxed), 0)) activity_begins(device, what);
  }
  ~ActivityNote() { activity_ends(); }
  ActivityNote(const ActivityNote&) = delete;
};

void start_activity();
Activities stop_activity();
/// How the current recording, or else the last one, finds out: "cupti", "events", or empty before the first.
const char* activity_source();

}  // namespace facula::cuda
