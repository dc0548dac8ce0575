#include "cuda/device.h"

#include <algorithm>
#include <mutex>

namespace facula::cuda {

thread_local constinit ThreadDevice thread_device __attribute__((tls_model("initial-exec")));
std::array<std::atomic<const Properties*>, detail::kMostDevices> detail::known_properties{};

namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  FACULA_CUDA_CALL(cuDeviceGetAttribute, &value, which, device);
  return value;
}

Properties read_properties(int index) {
  Properties p;
  CUdevice device;
  FACULA_CUDA_CALL(cuDeviceGet, &device, index);
  char name[256] = {};
  FACULA_CUDA_CALL(cuDeviceGetName, name, static_cast<int>(sizeof name) - 1, device);
  p.name = name;
  FACULA_CUDA_CALL(cuDeviceTotalMem_v2, &p.total_memory, device);
  FACULA_CUDA_CALL(cuDeviceGetUuid, &p.uuid, device);
  const struct {
    int& to;
    CUdevice_attribute which;
  } numbers[] = {
      {p.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {p.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {p.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {p.threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
      {p.warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
      {p.registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
      {p.threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {p.clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {p.memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
      {p.memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
      {p.pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
      {p.pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
      {p.pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
  };
  for (const auto& n : numbers) n.to = attribute(device, n.which);
  const auto bytes = [&](CUdevice_attribute which) { return static_cast<size_t>(attribute(device, which)); };
  p.l2_bytes = bytes(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.shared_per_block = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p.shared_per_block_optin = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.shared_per_multiprocessor = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.reads_pageable_memory = attribute(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  p.integrated = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  p.multi_gpu_board = attribute(device, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
  FACULA_CUDA_CALL(cuDevicePrimaryCtxRetain, &p.context, device);
  return p;
}

}  // namespace

int device_count() {
  static const int count = [] {
    int n = 0;
    if (!is_available() || driver().cuDeviceGetCount(&n) != CUDA_SUCCESS) return 0;
    return n;
  }();
  return count;
}

const Properties& detail::read_properties_once(int device) {
  static std::mutex mutex;
  const int count = std::min(device_count(), kMostDevices);
  FACULA_CHECK(device >= 0 && device < count, ErrorKind::Runtime, current_op(), ": a CUDA device of the ", count,
               " that there are, got ", device);
  std::lock_guard<std::mutex> lock(mutex);
  auto& known = known_properties[static_cast<size_t>(device)];
  if (!known.load(std::memory_order_relaxed))
    known.store(new Properties(read_properties(device)), std::memory_order_release);
  return *known.load(std::memory_order_relaxed);
}

int checked_index(Device device, const char* name) {
  const int index = device.index < 0 ? current_index() : device.index;
  FACULA_CHECK(index < device_count(), ErrorKind::Runtime, name, ": a CUDA device of the ", device_count(),
               " that there are, got ", device);
  return index;
}

void set_current_index(int device) {
  thread_device.current = device;
  activate(device);
}

void detail::make_active(int device) {
  FACULA_CUDA_CALL(cuCtxSetCurrent, properties(device).context);
  thread_device.active = device;
}

void detail::go_back(CUcontext context) noexcept {
  thread_device.active = -1;
  if (driver().cuCtxSetCurrent(context) != CUDA_SUCCESS) return;
  for (size_t i = 0; i < known_properties.size(); ++i) {
    const Properties* known = known_properties[i].load(std::memory_order_acquire);
    if (known && known->context == context) thread_device.active = static_cast<int>(i);
  }
}

}  // namespace facula::cuda
