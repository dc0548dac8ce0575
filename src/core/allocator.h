// Where the bytes of storages come from: one pair of functions per device, installed by the backend.
#pragma once

#include <array>
#include <cstddef>

#include "core/device.h"

namespace facula {

struct Allocator {
  void* (*allocate)(size_t bytes) = nullptr;
  void (*release)(void* pointer, size_t bytes) = nullptr;
};

inline std::array<Allocator, kDeviceTypes> allocators;

}  // namespace facula
