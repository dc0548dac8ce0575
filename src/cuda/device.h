// CUDA devices: how many there are, what they are like, and which is the current one of a thread.
#pragma once

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
};

/// 0 where CUDA cannot be used.
int device_count();
const Properties& properties(int device);
/// A device of this machine, or an error that begins with `op`.
int checked_index(Device device, const char* op);

int current_index();
void set_current_index(int device);

/// Makes the driver work with the device on this thread.
void activate(int device);
/// That device: the one whose kernel runs.
int active_index();

/// The device for a while, then the one that the driver worked with before.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : before_(active_index()) { activate(device); }
  ~DeviceGuard() {
    if (before_ >= 0) activate(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;

 private:
  int before_;
};

/// What errors begin with: the op whose kernel this thread runs.
const char* current_op();
void set_current_op(const char* op);
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
