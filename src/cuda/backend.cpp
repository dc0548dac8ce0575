#include "cuda/backend.h"

#include <vector>

#include "core/backend.h"
#include "core/budget_bound.h"
#include "cuda/activity.h"
#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/generator.h"
#include "cuda/pluggable_allocator.h"
#include "cuda/stream.h"

namespace facula::cuda {

void register_all_kernels();

namespace {

/// What comes back when an inner kernel ends: how errors begin, and what the driver works with, of the kernel that has
/// called it.
struct Outer {
  const char* op;
  CUcontext before;
};
std::vector<Outer>& outer_kernels() {
  static thread_local std::vector<Outer> all;
  return all;
}

void enter(Device device, const char* kernel, bool) {
  check_not_forked(kernel);
  CUcontext const before = activate(device.index);
  ThreadDevice& thread = thread_device;
  if (thread.kernels == 0) {
    const bool is_recorded = activity_is_recorded.load(std::memory_order_relaxed);
    if (__builtin_expect(is_recorded, 0)) activity_begins(device.index, kernel);
    thread.outer = thread.op;
    thread.before = before;
  } else {
    outer_kernels().push_back({thread.op, before});
  }
  ++thread.kernels;  // nothing throws from here on: leave() follows
  thread.op = kernel;
}

void leave(Device) {
  ThreadDevice& thread = thread_device;
  if (--thread.kernels == 0) {
    thread.op = thread.outer;
    activity_ends();
    return reactivate(thread.before);
  }
  const Outer outer = outer_kernels().back();
  outer_kernels().pop_back();
  thread.op = outer.op;
  reactivate(outer.before);
}

void* allocate_cuda(size_t bytes, Device device, Stream stream) {
  check_not_forked(current_op());
  return allocate(bytes, checked_index(device, "empty"), stream);
}

// Called where tensors die: an error of the driver cannot be thrown here, and the next call of the driver gives it
// again.
void release_cuda(void* memory, size_t, Device device) {
  if (is_forked_child) return;
  try {
    release(memory, device.index);
  } catch (const Error&) {
  }
}

void load() {
  Backend& backend = backend_of(DeviceType::CUDA);
  if (!is_available()) {
    backend.why_not = "there is no CUDA device to use: " + why_unavailable();
    return;
  }
  backend.current_stream = [](Device device) { return current_stream(device.index); };
  backend.current_index = [] { return static_cast<int8_t>(current_index()); };
  backend.count = device_count;
  backend.make_generator = make_generator;
  backend.enter = enter;
  backend.leave = leave;
  backend.owner = DeviceType::CUDA;
  budget_bounds[static_cast<size_t>(DeviceType::CUDA)] = {
      [](Device device, size_t bytes) {
        FACULA_CHECK(!is_allocator_changed(), ErrorKind::Runtime,
                     "memory_budget: expected the allocator of Facula, got one that the program has put in its place");
        set_memory_budget(checked_index(device, "memory_budget"), bytes);
      },
      [](Device device) { return held_bytes(checked_index(device, "memory_budget")); },
      [](Device device, const void* memory) { return is_used_elsewhere(memory, device.index); }};
  backend.allocator = {allocate_cuda, release_cuda};  // last: says that the row is filled
}

}  // namespace

void wait_for_results(int device) {
  synchronize(current_stream(device));
  judge_wait();
}

void register_backend() {
  Backend& backend = backend_of(DeviceType::CUDA);
  backend.load = load;
  backend.owner = DeviceType::CUDA;
  register_all_kernels();
}

}  // namespace facula::cuda
