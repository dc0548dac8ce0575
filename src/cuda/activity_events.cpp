#include <sys/syscall.h>
#include <unistd.h>

#include <deque>
#include <mutex>

#include "cuda/activity.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

struct EventPair {
  Activity activity;
  Event begin{CU_EVENT_DEFAULT}, end{CU_EVENT_DEFAULT};
  bool ended = false;
};
/// Where the clocks of a device and of the host meet.
struct Meeting {
  Event event{CU_EVENT_DEFAULT};
  int64_t time = 0;
};

int64_t nanoseconds(float milliseconds) { return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6); }

class EventRecording final : public ActivityRecording {
 public:
  EventRecording() {
    for (int device = 0; device < device_count(); ++device) {
      Meeting& meeting = meetings_.emplace_back();
      meeting.event.record({{DeviceType::CUDA, static_cast<int8_t>(device)}});
      meeting.event.synchronize();
      meeting.time = activity_clock();
    }
  }

  int64_t begin(int device, const char* kernel) override {
    const Stream stream = current_stream(device);
    if (is_captured(stream)) return -1;  // nothing runs, and events of a graph have no time
    EventPair* pair;
    int64_t number;
    {
      std::lock_guard guard(mutex_);
      number = static_cast<int64_t>(pairs_.size());
      pair = &pairs_.emplace_back();
    }
    Activity& a = pair->activity;
    a.kernel = kernel;
    a.thread = syscall(SYS_gettid);
    a.queued = activity_clock();
    a.device = device;
    a.stream = stream.id;
    pair->begin.record(stream);
    return number;
  }

  void end(int64_t number) noexcept override {
    EventPair& pair = at(number);
    const Activity& a = pair.activity;
    bool ended = true;
    try {
      pair.end.record({{DeviceType::CUDA, static_cast<int8_t>(a.device)}, a.stream});
    } catch (const Error&) {  // the next call of the driver gives it again
      ended = false;
    }
    std::lock_guard guard(mutex_);
    pair.ended = ended;
  }

  Activities finish() override {
    Activities found;
    std::lock_guard guard(mutex_);
    for (EventPair& pair : pairs_) {
      if (!pair.ended) {  // another thread is at it
        ++found.lost;
        continue;
      }
      Activity& a = found.done.emplace_back(pair.activity);
      const Meeting& meeting = meetings_[static_cast<size_t>(a.device)];
      a.begin = meeting.time + nanoseconds(meeting.event.elapsed(pair.begin));
      a.end = a.begin + nanoseconds(pair.begin.elapsed(pair.end));
    }
    return found;
  }

 private:
  EventPair& at(int64_t number) {
    std::lock_guard guard(mutex_);
    return pairs_[static_cast<size_t>(number)];
  }

  std::mutex mutex_;
  std::deque<EventPair> pairs_;
  std::vector<Meeting> meetings_;
};

}  // namespace

std::shared_ptr<ActivityRecording> record_by_events() { return std::make_shared<EventRecording>(); }

}  // namespace facula::cuda
