// Connects storages with the code that gives deferred ones their bytes.
#pragma once

#include "core/tensor.h"

namespace facula {

/// Gives back bytes of the allocator of the storage's device.
void release_allocated(Storage* storage);
/// Bytes of that allocator with what the storage holds: its own, which it then has no longer, or a copy of them.
char* take_bytes(Storage* storage);
/// A tensor that was put on a deferred storage, with an address in it: is put right with the others. Where the storage
/// has its bytes meanwhile, the tensor is put right at once.
void list_deferred(TensorImpl* impl);
void unlist_deferred(TensorImpl* impl);

}  // namespace facula
