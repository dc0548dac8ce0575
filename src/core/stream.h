// Defines a queue of work on a device as a plain value. The CPU has none, its stream is always 0.
#pragma once

#include "core/device.h"

namespace facula {

struct Stream {
  Device device;
  uint64_t id = 0;  // what the backend makes of it; 0 is the device's default stream

  bool operator==(const Stream&) const = default;
};

}  // namespace facula
