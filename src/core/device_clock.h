// Measures how long a device works on what a thread queues, by the device's own clock. A memory budget (src/budget)
// needs this from the device's backend. Nobody waits: a time is read when the device has passed it.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace facula {

struct DeviceTime;  // of the backend; used by one thread at a time

struct ClockHooks {
  /// What the current stream does from here on counts. Null where that cannot be known: while a graph is captured.
  /// Throws nothing.
  DeviceTime* (*begin)(Device device) = nullptr;
  /// To here, on the stream that it began on. False where it failed.
  bool (*end)(DeviceTime* time) = nullptr;
  /// Nanoseconds, at least one, once the device has come past the end; 0 before. Throws nothing.
  uint64_t (*ns)(DeviceTime* time) = nullptr;
  /// Throws nothing.
  void (*drop)(DeviceTime* time) = nullptr;
};
/// By device type; empty where the processor's time of the thread that calls is the device's.
inline ClockHooks clock_hooks[kDeviceTypes];
inline const ClockHooks& clock_of(Device device) { return clock_hooks[static_cast<int>(device.type)]; }

}  // namespace facula
