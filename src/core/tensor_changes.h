// Notifies a memory budget (core/budget_hooks.h) of tensors that get other memory, grow or lose their history after a
// node has saved a cell in their place. Without a budget, nodes hold the tensor itself and see such a change.
#pragma once

#include <atomic>

#include "core/tensor.h"

namespace facula {

struct PackedTensor;

constexpr uint32_t kSavedInCell = 1u << 22;  // a flag of tensors: nodes may have saved a cell in its place

struct ChangeHooks {
  /// Lets the result of save_in_cell() stand for the tensor itself, which gets kSavedInCell.
  void (*watch)(PackedTensor& saved, const Tensor& tensor) = nullptr;
  /// A tensor with kSavedInCell is about to get another storage, or to lose its history.
  void (*changes)(const Tensor& tensor) = nullptr;
};
extern ChangeHooks change_hooks;

/// Call this before a tensor gets another storage or loses its history.
inline void notify_tensor_changes(const Tensor& tensor) {
  const uint32_t flags = std::atomic_ref(tensor.impl()->flags).load(std::memory_order_relaxed);
  if (__builtin_expect(flags & kSavedInCell, 0)) change_hooks.changes(tensor);
}

}  // namespace facula
