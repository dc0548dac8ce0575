// The device's own clock (core/device_clock.h): a pair of events around what is queued. Pairs are used again.
#include "core/device_clock.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "cuda/graph.h"
#include "cuda/stream.h"

namespace facula {

struct DeviceTime {
  Stream stream;
  cuda::Event begin{CU_EVENT_DEFAULT}, end{CU_EVENT_DEFAULT};
};

namespace cuda {
namespace {

struct Pool {
  std::mutex mutex;
  std::vector<DeviceTime*> unused;
};
Pool& pool() {
  static Pool& one = *new Pool;
  return one;
}

/// A pair of events of that device.
DeviceTime* unused_or_new(int device) {
  {
    std::lock_guard lock(pool().mutex);
    auto& unused = pool().unused;
    const auto found = std::find_if(unused.begin(), unused.end(),
                                    [&](const DeviceTime* time) { return time->stream.device.index == device; });
    if (found != unused.end()) {
      DeviceTime* time = *found;
      unused.erase(found);
      return time;
    }
  }
  return new DeviceTime;
}

void drop(DeviceTime* time) {
  if (is_forked_child || !time) return;
  std::lock_guard lock(pool().mutex);
  pool().unused.push_back(time);
}

DeviceTime* begin(Device device) {
  if (is_forked_child) return nullptr;
  DeviceTime* time = nullptr;
  try {
    const Stream stream = current_stream(device.index);
    if (is_captured(stream)) return nullptr;
    time = unused_or_new(device.index);
    time->stream = stream;
    time->begin.record(stream);
    return time;
  } catch (const std::exception&) {  // the driver's, which the op's own calls will meet, or no memory: nothing is known
    drop(time);
    return nullptr;
  }
}

bool end(DeviceTime* time) {
  if (is_forked_child) return false;
  try {
    if (is_captured(time->stream)) return false;
    time->end.record(time->stream);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

uint64_t ns(DeviceTime* time) {
  if (is_forked_child) return 0;
  try {
    const RelaxedCapture relaxed;  // a graph may be captured from another stream
    if (!time->end.is_done()) return 0;
    return std::max<uint64_t>(static_cast<uint64_t>(static_cast<double>(time->begin.elapsed(time->end)) * 1e6), 1);
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

void register_device_clock() { clock_hooks[static_cast<int>(DeviceType::CUDA)] = {begin, end, ns, drop}; }

}  // namespace cuda
}  // namespace facula
