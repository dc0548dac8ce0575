// Defines marks of storages whose bytes may be released and computed again (core/recipe.h), beside those of
// core/tensor.h and storage.h.
#pragma once

#include <cstdint>

namespace facula {

constexpr uint32_t kMayWait = 1u << 20;  // a flag of tensors: saved values are held by a SavedHold
constexpr uint8_t kMadeAgain = 4;        // one of Asks: the storage is plain before it changes

}  // namespace facula
