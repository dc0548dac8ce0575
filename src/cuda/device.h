// Describes CUDA devices: how many there are, what they are like, and which is the current one of a thread.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "core/device.h"
#include "cuda/driver.h"

namespace facula::cuda {

struct Properties {
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0, threads_per_multiprocessor = 0, warp_size = 32;
  size_t total_memory = 0, l2_bytes = 0, shared_per_block = 0, shared_per_block_optin = 0,
         shared_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0, threads_per_block = 0;
  bool integrated = false, multi_gpu_board = false;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
  CUuuid uuid{};
  CUcontext context = nullptr;
  bool reads_pageable_memory = false;  // of the host, by itself: copies from there may then be late
};

/// What this module keeps for each thread, in one place that is read without a call: the storage is initial-exec, of
/// which there is little.
struct ThreadDevice {
  int current = 0;              // what "cuda" stands for
  int active = -1;              // which device the driver works with
  const char* op = "cuda";      // what errors begin with
  const char* outer = nullptr;  // the op around the outermost kernel
  uint64_t* streams = nullptr;  // the current stream of each device; null: the default streams
  int kernels = 0;              // how many run inside each other
  CUcontext before = nullptr;   // what the driver worked with outside of the outermost one, if that is something else
};
extern thread_local constinit ThreadDevice thread_device __attribute__((tls_model("initial-exec")));

/// 0 where CUDA cannot be used.
int device_count();
namespace detail {
constexpr int kMostDevices = 128;  // a Device's index is a signed byte
extern std::array<std::atomic<const Properties*>, kMostDevices> known_properties;
const Properties& read_properties_once(int device);
void make_active(int device);
void go_back(CUcontext context) noexcept;
}  // namespace detail
inline const Properties& properties(int device) {
  const auto at = static_cast<size_t>(device);
  const Properties* known =
      at < detail::kMostDevices ? detail::known_properties[at].load(std::memory_order_acquire) : nullptr;
  return __builtin_expect(known != nullptr, 1) ? *known : detail::read_properties_once(device);
}
/// A device of this machine, or an error that begins with `op`.
int checked_index(Device device, const char* op);

inline int current_index() { return thread_device.current; }
void set_current_index(int device);

/// Makes the driver work with the device on this thread, and returns what it worked with before where that is something
/// else: another device, or a context of another library's. Nothing reports those (cudaSetDevice, cuCtxPushCurrent), so
/// the driver is queried each time, which takes some nanoseconds.
inline CUcontext activate(int device) {
  CUcontext before = nullptr;
  driver().cuCtxGetCurrent(&before);
  if (__builtin_expect(before == properties(device).context, 1)) {
    thread_device.active = device;
    return nullptr;
  }
  detail::make_active(device);
  return before;
}
/// That device: the one whose kernel runs.
inline int active_index() { return thread_device.active; }

/// Goes back to what activate() returned. The driver's error, if there is one, is not lost: the next activate() queries
/// it again.
inline void reactivate(CUcontext before) noexcept {
  if (__builtin_expect(before != nullptr, 0)) detail::go_back(before);
}

/// The device for a while, then what the driver worked with before.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : before_(activate(device)) {}
  ~DeviceGuard() { reactivate(before_); }
  DeviceGuard(const DeviceGuard&) = delete;

 private:
  CUcontext before_;
};

/// What errors begin with: the op whose kernel this thread runs.
inline const char* current_op() { return thread_device.op; }
inline void set_current_op(const char* op) { thread_device.op = op; }
/// Names the op for a while.
class OpName {
 public:
  explicit OpName(const char* op) : before_(current_op()) { set_current_op(op); }
  ~OpName() { set_current_op(before_); }
  OpName(const OpName&) = delete;

 private:
  const char* before_;
};

}  // namespace facula::cuda
