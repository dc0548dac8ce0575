#include "cuda/index_errors.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "cuda/collectives.h"
#include "cuda/device.h"

namespace facula::cuda {
namespace {

std::atomic<bool> is_given_up{false};
std::exception_ptr& given_up() {
  static auto& one = *new std::exception_ptr;
  return one;
}
std::mutex& mutex() {
  static auto& one = *new std::mutex;
  return one;
}

}  // namespace

ErrorRecord* make_error_record(int device) {
  std::lock_guard<std::mutex> lock(mutex());
  auto& record = error_records[static_cast<size_t>(device)];
  if (!record) {
    DeviceGuard guard(device);
    void* memory = nullptr;  // of the host, which the device can write
    FACULA_CUDA_CALL(cuMemHostAlloc, &memory, sizeof(ErrorRecord), CU_MEMHOSTALLOC_PORTABLE);
    std::memset(memory, 0, sizeof(ErrorRecord));
    record = static_cast<ErrorRecord*>(memory);
  }
  return record;
}

void fail_next_wait(std::exception_ptr error) {
  std::lock_guard<std::mutex> lock(mutex());
  is_given_up = error != nullptr;
  given_up() = std::move(error);
}

void throw_index_error(int device) {
  if (__builtin_expect(is_given_up.load(std::memory_order_acquire), 0)) {
    std::unique_lock<std::mutex> lock(mutex());
    is_given_up = false;
    if (const std::exception_ptr error = std::exchange(given_up(), nullptr)) std::rethrow_exception(error);
  }
  ErrorRecord found;
  {
    std::lock_guard<std::mutex> lock(mutex());
    ErrorRecord* record = error_records[static_cast<size_t>(device)];
    if (!record) return;
    if (std::atomic_ref(record->found).load(std::memory_order_acquire) == kNothingWrong) return;
    found = *record;
    // Kernels of other streams may be looking: they write every field anew once `taken`, which comes last, lets them.
    std::atomic_ref(record->found).store(kNothingWrong, std::memory_order_release);
    std::atomic_ref(record->taken).store(0, std::memory_order_release);
  }
  const auto kind = static_cast<ErrorKind>(found.kind);
  const std::string place = text_of_place(found.place), queued = place.empty() ? "" : ", queued at " + place;
  if (found.found == kIndexOutside)
    throw_error(kind, found.op, ": index ", found.index, " is out of range for a dimension of size ", found.size,
                " (found by a CUDA kernel, which left the element out", queued, ")");
  throw_error(kind, found.op, ": ", found.expected, ", got ", found.value, " (found by a CUDA kernel", queued, ")");
}

}  // namespace facula::cuda
