// What the CPU provides besides kernels of ops: memory, random numbers, and access to single elements.
#include <cstring>

#include "core/kernel.h"
#include "cpu/allocator.h"
#include "cpu/generator.h"

namespace facula::cpu {
namespace {

bool is_zero(const Scalar& value) {
  if (value.is_complex()) return false;
  return value.is_floating() ? value.to_double() == 0 && !std::signbit(value.to_double()) : value.to_int() == 0;
}

void fill_cpu(const Tensor& out, const Scalar& value) {
  if (out.is_dense() && is_zero(value)) {  // all bits zero in every dtype
    if (out.numel()) std::memset(out.data(), 0, static_cast<size_t>(out.numel() * out.item_size()));
    return;
  }
  copy_kernel(kCPU, out, scalar_tensor(value, out.dtype()));
}

void read_cpu(const Tensor& in, std::array<char, 16>& bytes) {
  std::memcpy(bytes.data(), in.data(), static_cast<size_t>(in.item_size()));
}

}  // namespace

void register_device() {
  Backend& backend = backend_of(DeviceType::CPU);
  backend.allocator = {[](size_t bytes, Device, Stream) { return allocate(bytes); },
                       [](void* pointer, size_t bytes, Device) { release(pointer, bytes); }};
  backend.make_generator = [](Device) -> std::unique_ptr<Generator> { return std::make_unique<Mt19937>(); };
  backend.lender = DeviceType::CPU;
  fill_kernel.set(DeviceType::CPU, fill_cpu);
  read_kernel.set(DeviceType::CPU, read_cpu);
}

}  // namespace facula::cpu
