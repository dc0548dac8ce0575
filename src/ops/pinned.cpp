#include "ops/pinned.h"

#include "core/kernel.h"

namespace facula {

PinnedMemory pinned_memory;
thread_local constinit bool non_blocking_copies = false;

namespace ops {

Storage* pinned_storage(size_t bytes) {
  FACULA_CHECK(pinned_memory.make, ErrorKind::Runtime,
               "pin_memory: this build has no device that could use pinned memory, got ", bytes, " bytes");
  return pinned_memory.make(bytes);
}

bool is_pinned(const Storage* storage) {
  return storage->device.is_cpu() && storage->data && pinned_memory.owns && pinned_memory.owns(storage->data);
}

Tensor pinned_empty(IntList sizes, IntList strides, DType dtype) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  const bool none = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  Storage* storage = pinned_storage(none ? 0 : static_cast<size_t>((last + 1) * item_size(dtype)));
  Tensor t = tensor_on_storage(storage, dtype, 0, sizes, strides, "pin_memory");
  release(storage);
  return t;
}

Tensor pinned_copy(const Tensor& t) {
  FACULA_CHECK(t.device().is_cpu(), ErrorKind::Runtime,
               "pin_memory: only dense tensors of the CPU can be pinned, got one on ", t.device());
  const Tensor pinned = pinned_empty(t.sizes(), preserved_strides(t.sizes(), t.strides()), t.dtype());
  copy_elements(pinned, t);
  return pinned;
}

}  // namespace ops
}  // namespace facula
