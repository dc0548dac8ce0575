// Declares pinned (page-locked) memory of the host: a device copies from and to it by itself, while the host goes on.
#pragma once

#include "core/tensor.h"

namespace facula {

/// Filled by the backend that has such memory.
struct PinnedMemory {
  /// A storage of the CPU; throws where no device could use it.
  Storage* (*make)(size_t bytes) = nullptr;
  bool (*owns)(const void* memory) = nullptr;
};
extern PinnedMemory pinned_memory;

/// Whether copies of this thread between the host and a device may return before they are done.
extern thread_local constinit bool non_blocking_copies;
class NonBlocking {
 public:
  explicit NonBlocking(bool wanted) : before_(std::exchange(non_blocking_copies, wanted)) {}
  ~NonBlocking() { non_blocking_copies = before_; }
  NonBlocking(const NonBlocking&) = delete;

 private:
  bool before_;
};

namespace ops {

Storage* pinned_storage(size_t bytes);
bool is_pinned(const Storage* storage);
Tensor pinned_empty(IntList sizes, IntList strides, DType dtype);
/// The elements of a CPU tensor in pinned memory, in the same order.
Tensor pinned_copy(const Tensor& t);

}  // namespace ops
}  // namespace facula
