// Declares what a memory budget needs from the allocator of a device. Allocators that can respect a budget install it.
#pragma once

#include <array>

#include "core/device.h"

namespace facula {

struct BudgetBound {
  /// Bounds the bytes that are held and cached, 0 for no bound; asks for room before it refuses (core/budget_hooks.h).
  void (*set)(Device device, size_t bytes) = nullptr;
  /// Bytes that are held.
  size_t (*held)(Device device) = nullptr;
  /// Whether other streams use the memory, too, so that it is not free at once when it is released. Null: never.
  bool (*used_elsewhere)(Device device, const void* memory) = nullptr;
};
extern std::array<BudgetBound, kDeviceTypes> budget_bounds;

}  // namespace facula
