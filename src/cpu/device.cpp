// What the CPU provides besides kernels of ops: memory, random numbers, and access to single elements.
#include <algorithm>
#include <cstring>

#include "core/kernel.h"
#include "core/parallel.h"
#include "cpu/allocator.h"
#include "cpu/generator.h"

namespace facula::cpu {
namespace {

bool is_zero(const Scalar& value) {
  if (value.is_complex()) return false;
  return value.is_floating() ? value.to_double() == 0 && !std::signbit(value.to_double()) : value.to_int() == 0;
}

/// Every element of a dense tensor, by copies of a block that stays in the first-level cache: the C library's copy uses
/// the widest vectors there are, and 16 bytes hold a whole number of elements of any dtype.
void fill_dense(const Tensor& out, const char* element) {
  constexpr int64_t kBlock = 4096;
  const int64_t item = out.item_size(), bytes = out.numel() * item;
  char block[kBlock], *const to = out.data<char>();
  const int64_t used = std::min(kBlock, bytes);
  for (int64_t i = 0; i < used; i += item) std::memcpy(block + i, element, static_cast<size_t>(item));
  parallel_for(0, (bytes + kBlock - 1) / kBlock, kGrain / (kBlock / 16), [&](int64_t from, int64_t end) {
    for (int64_t i = from * kBlock; i < std::min(bytes, end * kBlock); i += kBlock)
      std::memcpy(to + i, block, static_cast<size_t>(std::min(kBlock, bytes - i)));
  });
}

void fill_cpu(const Tensor& out, const Scalar& value) {
  if (out.is_dense() && is_zero(value)) {  // all bits zero in every dtype
    if (out.numel()) std::memset(out.data(), 0, static_cast<size_t>(out.numel() * out.item_size()));
    return;
  }
  if (out.is_dense()) return fill_dense(out, scalar_tensor(value, out.dtype()).data<char>());
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
