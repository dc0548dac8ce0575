// Tensors in whose place nodes have saved cells of a memory budget (core/budget_hooks.h), and that get other memory,
// grow or lose their history: without a budget nodes have the tensor itself, and see that.
#pragma once

#include <atomic>

#include "core/tensor.h"

namespace facula {

struct PackedTensor;

constexpr uint32_t kSavedInCell = 1u << 22;  // a flag of tensors: nodes may have saved a cell in its place

struct ChangeHooks {
  /// What save_in_cell() has given stands for the tensor itself, which gets kSavedInCell.
  void (*watch)(PackedTensor& saved, const Tensor& tensor) = nullptr;
  /// A tensor with kSavedInCell is about to get another storage, or to lose its history.
  void (*changes)(const Tensor& tensor) = nullptr;
};
extern ChangeHooks change_hooks;

/// For who gives a tensor another storage, or takes its history away. Before that.
inline void notify_tensor_changes(const Tensor& tensor) {
  const uint32_t flags = std::atomic_ref(tensor.impl()->flags).load(std::memory_order_relaxed);
  if (__builtin_expect(flags & kSavedInCell, 0)) change_hooks.changes(tensor);
}

}  // namespace facula
