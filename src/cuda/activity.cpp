#include "cuda/activity.h"

#include <time.h>

#include <mutex>
#include <utility>

#include "core/host.h"
#include "cuda/device.h"
#include "cuda/library.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

std::mutex one;  // for who starts and stops
std::shared_ptr<ActivityRecording> running;
const char* source = "";

struct Open {
  std::shared_ptr<ActivityRecording> recording;
  int64_t number;
};
thread_local Open open_here;

/// Once, where CUPTI is there and yet cannot be used; that it is not there is no news.
void warn_of_events(const std::string& why) {
  static std::atomic<bool> warned{false};
  if (!opened(Library::Profiler).handle || warned.exchange(true) || !host.warn) return;
  host.warn(
      ("profile: CUPTI cannot be used, so that CUDA devices are timed by events, without names of kernels: " + why)
          .c_str());
}

}  // namespace

int64_t activity_clock() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void activity_begins(int device, const char* kernel) {
  Open open{};
  {
    std::lock_guard guard(one);
    open.recording = running;
  }
  if (!open.recording) return;
  open.number = open.recording->begin(device, kernel);
  if (open.number < 0) return;
  open_here = std::move(open);
  activity_is_open = true;
}

void end_activity() noexcept {
  activity_is_open = false;
  const Open open = std::exchange(open_here, {});
  open.recording->end(open.number);
}

void start_activity() {
  FACULA_CHECK(!activity_is_recorded, ErrorKind::Runtime,
               "profile: expected no recording of devices to run, got another one that does");
  for (int device = 0; device < device_count(); ++device) synchronize_device(device);
  std::string why;
  std::shared_ptr<ActivityRecording> fresh = record_by_cupti(why);
  const bool has_cupti = fresh != nullptr;
  if (!has_cupti) fresh = record_by_events();
  {
    std::lock_guard guard(one);
    running = std::move(fresh);
    source = has_cupti ? "cupti" : "events";
    activity_is_recorded = true;
  }
  if (!has_cupti) warn_of_events(why);  // with no lock: it runs Python
}

Activities stop_activity() {
  std::shared_ptr<ActivityRecording> ended;
  {
    std::lock_guard guard(one);
    activity_is_recorded = false;
    ended = std::exchange(running, nullptr);
  }
  if (!ended) return {};
  for (int device = 0; device < device_count(); ++device) synchronize_device(device);
  return ended->finish();
}

const char* activity_source() {
  std::lock_guard guard(one);
  return source;
}

}  // namespace facula::cuda
