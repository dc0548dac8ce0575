// Declares what a device provides besides its kernels, one row per device type. A backend fills its row when it is
// registered. docs/internals/devices.md, "One more device", lists what the rest of the library expects of one.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/allocator.h"
#include "core/dtype.h"
#include "core/generator.h"

namespace facula {

struct Backend {
  /// Fills the rest of the row when the device is first needed, or leaves it and says in `why_not` what is missing.
  void (*load)() = nullptr;
  std::string why_not;
  Allocator allocator;
  /// The stream that work of the calling thread goes to; null where a device has only one.
  Stream (*current_stream)(Device device) = nullptr;
  /// Devices that come in numbers: what an index of -1 stands for on the calling thread, and how many there are.
  int8_t (*current_index)() = nullptr;
  int (*count)() = nullptr;
  std::unique_ptr<Generator> (*make_generator)(Device device) = nullptr;
  /// Around every kernel that runs on the device: makes it the current one, opens its memory, counts, ... `waits` says
  /// that the host needs what the kernel computes. leave() follows also when the kernel throws.
  void (*enter)(Device device, const char* kernel, bool waits) = nullptr;
  void (*leave)(Device device) = nullptr;
  /// Whether memory that a kernel is given belongs to the device; null to look at tensors' devices only.
  bool (*owns)(const void* memory, Device device) = nullptr;
  /// Whether images of `channels` channels are better stored channels-last inside (see materialize_layout()).
  bool (*prefers_channels_last)(DType dtype, int64_t channels, int64_t numel) = nullptr;
  /// The device type whose kernels also run on this device's memory; its own type where there is none.
  DeviceType owner = DeviceType::Meta;
};

extern std::array<Backend, kDeviceTypes> backends;
inline Backend& backend_of(DeviceType type) { return backends[static_cast<size_t>(type)]; }

/// Whether tensors can lie on devices of the type; loads what is loaded on first use.
inline bool has_backend(DeviceType type) {
  Backend& backend = backend_of(type);
  if (!backend.allocator.allocate && backend.load) backend.load();
  return backend.allocator.allocate;
}

inline Stream current_stream(Device device) {
  auto* current = backend_of(device.type).current_stream;
  return current ? current(device) : Stream{device};
}

/// The device itself where `device` says "the current one": tensors have exact devices, so that == compares them.
inline Device concrete(Device device) {
  if (device.index >= 0 || device.is_cpu() || device.is_meta()) return device;
  if (!has_backend(device.type)) return {device.type, 0};
  auto* current = backend_of(device.type).current_index;
  return {device.type, current ? current() : int8_t{0}};
}

/// Throws the error about a device that this build does not have.
[[noreturn]] void report_no_backend(Device device, const char* op);

}  // namespace facula
