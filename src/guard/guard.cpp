#include "guard/guard.h"

#include <atomic>

#include "core/kernel.h"
#include "cpu/generator.h"
#include "guard/arena.h"

namespace facula::guard {
namespace {

std::atomic<bool> is_enabled = false;
std::atomic<uint64_t> waited = 0;

// Any of the two tensors may be the CPU's: a copy to it is one that the host waits for.
void copy_guard(const Tensor& out, const Tensor& in) {
  waited += out.is_cpu() && open_kernels() == 1;  // not a kernel's own copies
  copy_kernel.table[static_cast<size_t>(DeviceType::CPU)](out, in);
}

}  // namespace

void enable() {
  if (is_enabled.exchange(true)) return;
  reserve_arena();
  device_names[static_cast<size_t>(DeviceType::PrivateUse)] = "guard";
  Backend& backend = backend_of(DeviceType::PrivateUse);
  backend.allocator = {[](size_t bytes, Device, Stream) { return arena_allocate(bytes); },
                       [](void* block, size_t bytes, Device) { arena_release(block, bytes); }};
  backend.current_index = [] { return int8_t{0}; };
  backend.count = [] { return 1; };
  // the CPU's engine, so that a seed gives the CPU's numbers
  backend.make_generator = [](Device device) -> std::unique_ptr<Generator> {
    return std::make_unique<cpu::Mt19937>(Generator::kDefaultSeed, device);
  };
  backend.enter = [](Device, const char* kernel, bool waits) {
    waited += waits && open_kernels() == 0;
    open_arena(kernel);
  };
  backend.leave = [](Device) { close_arena(); };
  backend.owns = [](const void* memory, Device) { return arena_owns(memory); };
  backend.owner = DeviceType::CPU;
  copy_kernel.set(DeviceType::PrivateUse, copy_guard);
}

bool enabled() { return is_enabled; }
uint64_t waits() { return waited; }
uint64_t used_bytes() { return arena_used(); }

}  // namespace facula::guard
