#include "cuda/index_errors.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/device.h"

namespace facula::cuda {
namespace {

struct Records {
  std::mutex mutex;
  std::vector<ErrorRecord*> of_device;
};
Records& records() {
  static Records& all = *new Records;
  return all;
}

}  // namespace

ErrorRecord* error_record(int device) {
  Records& all = records();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.of_device.resize(static_cast<size_t>(device_count()));
  ErrorRecord*& record = all.of_device[static_cast<size_t>(device)];
  if (!record) {
    DeviceGuard guard(device);
    void* memory = nullptr;  // of the host, which the device can write
    FACULA_CUDA_CALL(cuMemHostAlloc, &memory, sizeof(ErrorRecord), CU_MEMHOSTALLOC_PORTABLE);
    std::memset(memory, 0, sizeof(ErrorRecord));
    record = static_cast<ErrorRecord*>(memory);
  }
  return record;
}

void throw_index_error(int device) {
  ErrorRecord found;
  {
    Records& all = records();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (all.of_device.size() <= static_cast<size_t>(device) || !all.of_device[static_cast<size_t>(device)]) return;
    ErrorRecord* record = all.of_device[static_cast<size_t>(device)];
    if (std::atomic_ref(record->found).load(std::memory_order_acquire) == kNothingWrong) return;
    found = *record;
    std::memset(record, 0, sizeof *record);
  }
  const auto kind = static_cast<ErrorKind>(found.kind);
  const std::string place = text_of_place(found.place), queued = place.empty() ? "" : ", queued at " + place;
  if (found.found == kIndexOutside)
    throw_error(kind, found.op, ": index ", found.index, " is out of range for a dimension of size ", found.size,
                " (found by a CUDA kernel, which left the element out", queued, ")");
  throw_error(kind, found.op, ": ", found.expected, ", got ", found.value, " (found by a CUDA kernel", queued, ")");
}

}  // namespace facula::cuda
