// Declares the Python object of a storage and its identity; what can be done with it is in storage.cpp and
// storage_functions.cpp.
#pragma once

#include <optional>

#include "core/storage.h"
#include "core/tensor.h"
#include "python/python.h"

namespace facula::python {

struct PyStorage {
  PyObject_HEAD Storage* storage;
  Tensor origin;  // the tensor it was last taken from
  int copy_fd;    // shared memory with a copy of bytes that could not move, or -1
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject StorageBaseType;  // what classes of storages derive from; there is no object of it
extern PyTypeObject StorageType;      // UntypedStorage

inline PyStorage* storage_object(PyObject* o) { return reinterpret_cast<PyStorage*>(o); }
inline bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, &StorageBaseType); }

/// The one object of a storage.
PyObject* wrap_storage(Storage* storage, const Tensor& origin = {});
/// A new object, of a class of storages, for a storage that has none; takes over one reference.
PyObject* adopt_storage_as(Storage* storage, PyTypeObject* type);

/// Whether the object is a storage, or a TypedStorage, which has one.
bool has_storage(PyObject* o);
/// The dtype of a TypedStorage; none of an UntypedStorage.
std::optional<DType> storage_dtype(PyObject* o);
/// storage_of(), for a tensor of `dtype`; a TypedStorage must be of the same.
Storage* storage_for(PyObject* o, DType dtype, const char* op);

/// Gives the types what they need, before PyType_Ready of StorageType.
void init_storage_object(PyObject* module);
/// Functions of the module, and methods of tensors (storage_functions.cpp).
void init_storage_functions(PyObject* module);

}  // namespace facula::python
