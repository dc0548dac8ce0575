// Growing the memory of a tensor that others may hold too.
#pragma once

#include <cstddef>

namespace facula {

struct Storage;

/// What the Python layer installs: how many objects hold the storage without remembering an address in it.
inline size_t (*storage_objects)(Storage* storage) = nullptr;

}  // namespace facula
