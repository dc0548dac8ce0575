// Shrinks storages, and grows them again, without moving them.
#pragma once

#include "core/storage.h"

namespace facula {

/// resize_storage() for tensors that nobody can move: shrinks, or grows up to what the storage once had, at the same
/// address, which stays good for all of that. On the CPU the system gets back the pages that are left out, which read
/// as zeros then; other devices keep them. False, and nothing done, where there is no such room.
bool resize_storage_in_place(Storage* storage, size_t nbytes);

/// Throws where contiguous strides of `sizes` are no 64-bit numbers, as they may be beside a size of zero.
void check_strides_fit(IntList sizes, const char* op);

}  // namespace facula
