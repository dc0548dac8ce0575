#include "cuda/pluggable_allocator.h"

#include <mutex>
#include <unordered_map>

#include "core/backend.h"
#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

PluggableAllocator chosen{};
std::mutex mutex;
auto& streams = *new std::unordered_map<void*, Stream>;  // of memory in use

void* allocate_chosen(size_t bytes, Device device, Stream stream) {
  check_not_forked(current_op());
  DeviceGuard guard(checked_index(device, "empty"));
  void* memory = chosen.allocate(bytes, device.index, handle(stream));
  FACULA_CHECK(memory, ErrorKind::OutOfMemory, current_op(),
               ": the program's allocator gives no memory, got a request of ", bytes, " bytes on ", device);
  std::lock_guard<std::mutex> lock(mutex);
  streams[memory] = stream;
  return memory;
}

void release_chosen(void* memory, size_t bytes, Device device) {
  if (is_forked_child) return;
  Stream stream{device};
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = streams.find(memory);
    if (found != streams.end()) {
      stream = found->second;
      streams.erase(found);
    }
  }
  chosen.release(memory, bytes, device.index, handle(stream));
}

}  // namespace

bool is_allocator_changed() { return chosen.allocate; }

void change_allocator(PluggableAllocator allocator) {
  FACULA_CHECK(is_available(), ErrorKind::Runtime, "change_current_allocator: ", why_unavailable());
  FACULA_CHECK(!chosen.allocate, ErrorKind::Runtime,
               "change_current_allocator: the allocator can be changed once, and it was changed already");
  for (int d = 0; d < device_count(); ++d)
    FACULA_CHECK(allocator_stats(d).driver_allocations == 0, ErrorKind::Runtime,
                 "change_current_allocator: to be called before memory is taken, but the caching allocator has taken ",
                 allocator_stats(d).reserved_bytes.all.current, " bytes of cuda:", d);
  chosen = allocator;
  backend_of(DeviceType::CUDA).allocator = {allocate_chosen, release_chosen};
}

}  // namespace facula::cuda
