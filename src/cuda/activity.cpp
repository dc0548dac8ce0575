#include "cuda/activity.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

namespace facula::cuda {

struct Recording;
struct Pair {
  Activity activity;
  Event begin{CU_EVENT_DEFAULT}, end{CU_EVENT_DEFAULT};
  bool ended = false;
  std::shared_ptr<Recording> recording;  // while it is open
};
/// Where the clocks of a device and of the host meet.
struct Meeting {
  Event event{CU_EVENT_DEFAULT};
  int64_t time = 0;
};
struct Recording {
  std::mutex mutex;
  std::deque<Pair> pairs;
  std::vector<Meeting> meetings;
};

namespace {

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::mutex one;  // for who starts and stops
std::shared_ptr<Recording> running;

std::shared_ptr<Recording> current_recording() {
  std::lock_guard guard(one);
  return running;
}

int64_t nanoseconds(float milliseconds) { return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6); }

}  // namespace

void activity_begins(int device, const char* kernel) {
  const auto recording = current_recording();
  if (!recording) return;
  const Stream stream = current_stream(device);
  if (is_captured(stream)) return;  // nothing runs, and events of a graph have no time
  Pair* pair;
  {
    std::lock_guard guard(recording->mutex);
    pair = &recording->pairs.emplace_back();
  }
  pair->activity = {kernel, device, stream.id, syscall(SYS_gettid), now()};
  pair->begin.record(stream);
  pair->recording = recording;
  open_activity = pair;
}

void end_activity() noexcept {
  Pair& pair = *std::exchange(open_activity, nullptr);
  const auto recording = std::exchange(pair.recording, nullptr);
  const Activity& a = pair.activity;
  bool ended = true;
  try {
    pair.end.record({{DeviceType::CUDA, static_cast<int8_t>(a.device)}, a.stream});
  } catch (const Error&) {  // the next call of the driver gives it again
    ended = false;
  }
  std::lock_guard guard(recording->mutex);
  pair.ended = ended;
}

void start_activity() {
  auto fresh = std::make_shared<Recording>();
  for (int device = 0; device < device_count(); ++device) {
    Meeting& meeting = fresh->meetings.emplace_back();
    synchronize_device(device);
    meeting.event.record({{DeviceType::CUDA, static_cast<int8_t>(device)}});
    meeting.event.synchronize();
    meeting.time = now();
  }
  std::lock_guard guard(one);
  running = fresh;
  activity_is_recorded = true;
}

std::vector<Activity> stop_activity() {
  std::shared_ptr<Recording> ended;
  {
    std::lock_guard guard(one);
    activity_is_recorded = false;
    ended = std::exchange(running, nullptr);
  }
  std::vector<Activity> found;
  if (!ended) return found;
  for (int device = 0; device < device_count(); ++device) synchronize_device(device);
  std::lock_guard guard(ended->mutex);
  for (Pair& pair : ended->pairs) {
    if (!pair.ended) continue;  // another thread is at it
    Activity a = pair.activity;
    const Meeting& meeting = ended->meetings[static_cast<size_t>(a.device)];
    a.begin = meeting.time + nanoseconds(meeting.event.elapsed(pair.begin));
    a.end = a.begin + nanoseconds(pair.begin.elapsed(pair.end));
    found.push_back(a);
  }
  return found;
}

}  // namespace facula::cuda
