// Makes storages whose bytes several processes map: anonymous memory, known by a descriptor.
//
// A tensor remembers the address of its first element, so that bytes can move (into shared memory, or to grow) only
// while everybody who holds the storage is known: the storage object, the tensor it was taken from, and that tensor's
// base.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor.h"
#include "python/objects.h"

namespace facula::python {

/// Those who hold the storage, if nobody else does: then its bytes can move.
std::optional<std::vector<TensorImpl*>> all_holders(Storage* s, const Tensor& origin);
/// Whether tensors on a storage end within its first `bytes` bytes, or have no elements.
bool all_fit(const std::vector<TensorImpl*>& impls, const Storage* s, size_t bytes);
void move_holders(const std::vector<TensorImpl*>& impls, const char* before, char* after);

/// Returns whether the bytes lie in memory that other processes map, with or without a descriptor of it.
bool is_shared(const Storage* s);
/// A storage over a Python buffer in such memory, which it keeps alive; nobody knows a descriptor of it.
Storage* storage_on_shared_buffer(PyObject* buffer);
bool is_on_shared_buffer(const Storage* s);
/// Moves the bytes into shared memory that has a descriptor; false when somebody else holds them.
bool share(Storage* s, const Tensor& origin, const char* op);
/// The same; a RuntimeError when somebody else holds them.
void share_or_throw(Storage* s, const Tensor& origin, const char* op);
/// The descriptor of a storage that is shared.
int shared_descriptor(const Storage* s);
/// The descriptor of new shared memory with a copy of the bytes; the caller closes it.
int shared_copy(const Storage* s, const char* op);
/// A storage on shared memory that somebody gave the descriptor of, which stays theirs.
Storage* storage_on_shared(int descriptor, int64_t bytes, const char* op);

}  // namespace facula::python
