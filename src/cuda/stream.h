// Declares streams and events. A Stream's id is the driver's handle; 0 is the device's default stream, with which
// others do not wait for each other unless an event says so.
#pragma once

#include <cstdint>

#include "core/stream.h"
#include "cuda/device.h"

namespace facula::cuda {

inline CUstream handle(Stream stream) { return reinterpret_cast<CUstream>(stream.id); }

inline Stream current_stream(int device) {
  const uint64_t* streams = thread_device.streams;
  return {{DeviceType::CUDA, static_cast<int8_t>(device)}, streams ? streams[device] : 0};
}
void set_current_stream(Stream stream);
/// One of 32 streams of the device with that priority (0, or lower for more urgent), in turn.
Stream stream_from_pool(int device, int priority);

namespace detail {
inline std::atomic<int> blocking{-1};  // not known yet
void wait_after_launch(int device);
}  // namespace detail
/// After a kernel or a copy was queued: waits where CUDA_LAUNCH_BLOCKING=1 says so, so that an error comes here.
inline void wait_if_blocking(int device) {
  if (__builtin_expect(detail::blocking.load(std::memory_order_relaxed) != 0, 0)) detail::wait_after_launch(device);
}
/// Waits for what is queued, and throws what its kernels have found wrong.
void synchronize(Stream stream);
void synchronize_device(int device);
bool is_done(Stream stream);

/// The current stream of this thread for a while.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream) : before_(current_stream(stream.device.index)) { set_current_stream(stream); }
  ~StreamGuard() { set_current_stream(before_); }
  StreamGuard(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// While it lives, this thread may call what capturing a graph forbids otherwise, such as the driver's memory
/// functions.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// What becomes of calls that make the host wait for a stream. A wait that the program requests by a device's or an
/// event's name (synchronize_device, Event::synchronize) is never in question.
enum class WaitMode : uint8_t { Allowed, Warned, Refused };
void set_wait_mode(WaitMode mode);
WaitMode wait_mode();
/// Of such a call, at its end: warns or throws where it is not allowed.
void judge_wait();

/// A place in a stream. Recorded again, it is at the new place.
class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DISABLE_TIMING) : flags_(flags) {}
  /// One of the driver's, which is its own from now on.
  Event(CUevent event, int device) : flags_(CU_EVENT_DISABLE_TIMING), device_(device), event_(event) {}
  Event(Event&& other) noexcept;
  ~Event();
  Event(const Event&) = delete;

  bool is_made() const { return event_; }
  int device() const { return device_; }
  CUevent get() const { return event_; }
  void record(Stream stream);
  /// The stream's later work waits for the event.
  void block(Stream stream) const;
  bool is_done() const;
  void synchronize() const;
  /// Milliseconds from this event to another; both are done and made with timing.
  float elapsed(const Event& later) const;

 private:
  unsigned flags_;
  int device_ = -1;
  CUevent event_ = nullptr;
};

}  // namespace facula::cuda
