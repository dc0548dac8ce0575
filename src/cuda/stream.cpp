#include "cuda/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/host.h"
#include "cuda/device.h"
#include "cuda/index_errors.h"

namespace facula::cuda {
namespace {

constexpr size_t kPool = 32;

/// What thread_device.streams points to.
struct OwnStreams {
  std::vector<uint64_t> ids;
  ~OwnStreams() { thread_device.streams = nullptr; }
};

struct Pool {
  std::array<CUstream, kPool> streams{};
  size_t next = 0;
};

bool finished(CUresult result, const char* call) {
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, call);
  return true;
}

}  // namespace

void set_current_stream(Stream stream) {
  static thread_local OwnStreams own;
  if (own.ids.empty()) own.ids.resize(static_cast<size_t>(device_count()));
  thread_device.streams = own.ids.data();
  own.ids[static_cast<size_t>(stream.device.index)] = stream.id;
}

Stream stream_from_pool(int device, int priority) {
  static std::mutex mutex;
  static auto& pools = *new std::map<std::pair<int, int>, Pool>;
  DeviceGuard guard(device);
  int least = 0, greatest = 0;
  FACULA_CUDA_CALL(cuCtxGetStreamPriorityRange, &least, &greatest);
  priority = std::clamp(priority, greatest, least);
  std::lock_guard<std::mutex> lock(mutex);
  Pool& pool = pools[{device, priority}];
  CUstream& stream = pool.streams[pool.next++ % kPool];
  if (!stream) FACULA_CUDA_CALL(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, priority);
  return {{DeviceType::CUDA, static_cast<int8_t>(device)}, reinterpret_cast<uint64_t>(stream)};
}

void detail::wait_after_launch(int device) {
  if (blocking == -1) {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    blocking = text && *text == '1';
  }
  if (!blocking) return;
  const Stream stream = current_stream(device);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream.id) FACULA_CUDA_CALL(cuStreamIsCapturing, handle(stream), &status);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) synchronize(stream);
}

namespace {
std::atomic<WaitMode> mode_of_waits{WaitMode::Allowed};
}
void set_wait_mode(WaitMode mode) { mode_of_waits = mode; }
WaitMode wait_mode() { return mode_of_waits; }
void judge_wait() {
  const WaitMode mode = mode_of_waits.load(std::memory_order_relaxed);
  if (__builtin_expect(mode == WaitMode::Allowed, 1)) return;
  const std::string text = std::string(current_op()) +
                           ": called a synchronizing CUDA operation: the host has waited for the device "
                           "(set_sync_debug_mode)";
  FACULA_CHECK(mode == WaitMode::Warned, ErrorKind::Runtime, text);
  if (host.warn) host.warn(text.c_str());
}

void synchronize(Stream stream) {
  DeviceGuard guard(stream.device.index);
  FACULA_CUDA_CALL(cuStreamSynchronize, handle(stream));
  throw_index_error(stream.device.index);
}

void synchronize_device(int device) {
  DeviceGuard guard(device);
  check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
  throw_index_error(device);
}

bool is_done(Stream stream) {
  DeviceGuard guard(stream.device.index);
  return finished(driver().cuStreamQuery(handle(stream)), "cuStreamQuery");
}

Event::Event(Event&& other) noexcept
    : flags_(other.flags_), device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}

Event::~Event() {
  if (event_) driver().cuEventDestroy_v2(event_);  // nothing can be done about an error here
}

void Event::record(Stream stream) {
  DeviceGuard guard(stream.device.index);
  if (!event_) {
    FACULA_CUDA_CALL(cuEventCreate, &event_, flags_);
    device_ = stream.device.index;
  }
  FACULA_CHECK(device_ == stream.device.index, ErrorKind::Runtime,
               "Event.record: expected a stream of the event's device, cuda:", device_, ", got one of ", stream.device);
  FACULA_CUDA_CALL(cuEventRecord, event_, handle(stream));
}

void Event::block(Stream stream) const {
  if (!event_) return;
  DeviceGuard guard(stream.device.index);
  FACULA_CUDA_CALL(cuStreamWaitEvent, handle(stream), event_, 0u);
}

bool Event::is_done() const { return !event_ || finished(driver().cuEventQuery(event_), "cuEventQuery"); }

void Event::synchronize() const {
  if (!event_) return;
  DeviceGuard guard(device_);
  FACULA_CUDA_CALL(cuEventSynchronize, event_);
  throw_index_error(device_);
}

float Event::elapsed(const Event& later) const {
  FACULA_CHECK(event_ && later.event_, ErrorKind::Value, "Event.elapsed_time: two events that were recorded, got ",
               event_ ? "an end" : "a start", " that was not");
  float milliseconds = 0;
  FACULA_CUDA_CALL(cuEventElapsedTime, &milliseconds, event_, later.event_);
  return milliseconds;
}

}  // namespace facula::cuda
