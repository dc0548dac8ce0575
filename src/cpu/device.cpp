// What the CPU provides besides kernels of ops: memory, random numbers, and access to single elements.
#include <cstring>

#include "core/kernel.h"
#include "cpu/allocator.h"
#include "cpu/generator.h"

namespace facula::cpu {
namespace {

void read_cpu(const Tensor& in, std::array<char, 16>& bytes) {
  std::memcpy(bytes.data(), in.data(), static_cast<size_t>(in.item_size()));
}

}  // namespace

void register_device() {
  Backend& backend = backend_of(DeviceType::CPU);
  backend.allocator = {[](size_t bytes, Device, Stream) { return allocate(bytes); },
                       [](void* pointer, size_t bytes, Device) { release(pointer, bytes); }};
  backend.make_generator = [](Device) -> std::unique_ptr<Generator> { return std::make_unique<Mt19937>(); };
  backend.owner = DeviceType::CPU;
  read_kernel.set(DeviceType::CPU, read_cpu);
}

}  // namespace facula::cpu
