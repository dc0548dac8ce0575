// Defines devices as plain values: a type and an index. `meta` tensors have shapes and no data.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace facula {

enum class DeviceType : uint8_t { CPU, CUDA, Meta, PrivateUse };
constexpr int kDeviceTypes = 4;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current device of that type; tensors know theirs (core/backend.h, concrete())

  bool operator==(const Device&) const = default;
  bool is_cpu() const { return type == DeviceType::CPU; }
  bool is_meta() const { return type == DeviceType::Meta; }
  bool is_cuda() const { return type == DeviceType::CUDA; }
};

constexpr Device kCPU{DeviceType::CPU, -1};
constexpr Device kMeta{DeviceType::Meta, -1};

/// The names of device types. That of PrivateUse is null until a backend takes the place.
extern const char* device_names[kDeviceTypes];
inline const char* name(DeviceType type) { return device_names[static_cast<int>(type)]; }

inline std::string to_string(Device device) {
  std::string text = name(device.type);
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

inline std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

/// Parses "cpu", "cuda:1", "meta", ...; throws a RuntimeError naming `text` otherwise.
Device parse_device(const std::string& text);

}  // namespace facula
