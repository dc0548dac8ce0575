// Uses an allocator that a program brings, in the place of the caching one.
#pragma once

#include "cuda/driver.h"

namespace facula::cuda {

struct PluggableAllocator {
  void* (*allocate)(size_t bytes, int device, CUstream stream);
  void (*release)(void* memory, size_t bytes, int device, CUstream stream);
};

/// From now on tensors lie in its memory. Throws where some lie in the caching allocator's already.
void change_allocator(PluggableAllocator allocator);
bool is_allocator_changed();

}  // namespace facula::cuda
