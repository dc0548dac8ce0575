// What devices do while a profile runs: a pair of events around the work that every kernel of a table queues, so that
// products and transforms of NVIDIA's libraries are seen as well. The events are read when the recording ends, which
// waits for the devices; their times are put on the host's clock by an event that the host waited for at the start.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace facula::cuda {

struct Activity {
  const char* kernel;
  int device;
  uint64_t stream;
  int64_t thread, queued;      // who queued it, and when: monotonic clock, nanoseconds
  int64_t begin = 0, end = 0;  // on the device
};

inline std::atomic<bool> activity_is_recorded{false};
struct Pair;
inline thread_local Pair* open_activity = nullptr;  // what this thread queues now
/// Around what a thread queues on its current stream.
void activity_begins(int device, const char* kernel);
void end_activity() noexcept;
inline void activity_ends() {
  if (__builtin_expect(open_activity != nullptr, 0)) end_activity();
}

void start_activity();
std::vector<Activity> stop_activity();

}  // namespace facula::cuda
