// Declares the allocators of devices, from which the bytes of storages come. Small blocks of the CPU come from
// core/small_block.h.
#pragma once

#include <cstddef>

#include "core/stream.h"

namespace facula {

struct Allocator {
  /// Memory that `stream` may use at once. Throws OutOfMemory.
  void* (*allocate)(size_t bytes, Device device, Stream stream) = nullptr;
  /// `bytes` as given to allocate().
  void (*release)(void* pointer, size_t bytes, Device device) = nullptr;
};

}  // namespace facula
