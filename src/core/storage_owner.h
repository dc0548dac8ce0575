// Handles storages that own an object of the host language: one with attributes, weak references or a class of its own,
// which must outlive the program's last reference to it as long as tensors hold the bytes.
#pragma once

#include <atomic>

#include "core/storage.h"

namespace facula {

/// How many storages own an object; as long as there is none, nobody asks.
extern std::atomic<int64_t> storages_with_objects;
/// Installed by the host language: lets go of the object that a storage owns. False where the program has come back to
/// the object meanwhile, which then holds the storage again, with one reference.
extern bool (*release_storage_object)(Storage* storage);

/// From now on release_storage_object is called before the storage dies.
void watch_end(Storage* storage);

}  // namespace facula
