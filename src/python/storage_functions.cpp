// Functions beside the type of storages: storages over memory of others, and the storages of tensors.
#include <unistd.h>

#include "core/recipe.h"
#include "python/bindings.h"
#include "python/cuda_objects.h"
#include "python/docs/tensor.h"
#include "python/mismatch.h"
#include "python/node_object.h"
#include "python/shared_memory.h"
#include "python/storage_object.h"

namespace facula::python {
namespace {

// _storage_share(storage) -> descriptor; of a copy when the bytes cannot move
PyObject* function_storage_share(PyObject*, PyObject* o) {
  return guarded([&] {
    FACULA_CHECK(is_storage(o), ErrorKind::Type, "_storage_share: expected an UntypedStorage, got ",
                 Py_TYPE(o)->tp_name);
    PyStorage* self = storage_object(o);
    Storage* s = self->storage;
    FACULA_CHECK(s->device.is_cpu(), ErrorKind::Runtime, "_storage_share: only memory of the CPU can be shared, got ",
                 s->device);
    FACULA_CHECK(s->nbytes > 0, ErrorKind::Runtime, "_storage_share: an empty storage cannot be shared, got 0 bytes");
    if (share(s, self->origin, "_storage_share")) return PyLong_FromLong(shared_descriptor(s));
    const int fd = shared_copy(s, "_storage_share");
    if (self->copy_fd >= 0) close(self->copy_fd);
    self->copy_fd = fd;
    return PyLong_FromLong(fd);
  });
}

PyObject* function_storage_from_fd(PyObject*, PyObject* args) {
  int given;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "in", &given, &bytes)) return nullptr;
  return guarded([&] { return adopt_storage(storage_on_shared(given, bytes, "_storage_from_fd")); });
}

PyObject* function_storage_from_buffer(PyObject*, PyObject* buffer) {
  return guarded([&] { return adopt_storage(storage_on_buffer(buffer)); });
}

PyObject* function_storage_from_shared_buffer(PyObject*, PyObject* buffer) {
  return guarded([&] { return adopt_storage(storage_on_shared_buffer(buffer)); });
}

PyObject* function_storage_view(PyObject*, PyObject* o) {
  return guarded([&] {
    storage_of(o, "_storage_view");
    return check(PyMemoryView_FromObject(o));
  });
}

// _tensor_from_storage(storage, dtype, offset, sizes, strides); offset and strides count elements
PyObject* function_tensor_from_storage(PyObject*, PyObject* args) {
  PyObject *storage, *dtype, *sizes, *strides;
  Py_ssize_t offset;
  if (!PyArg_ParseTuple(args, "OOnOO:_tensor_from_storage", &storage, &dtype, &offset, &sizes, &strides))
    return nullptr;
  return guarded([&] {
    FACULA_CHECK(is_dtype(dtype), ErrorKind::Type, "_tensor_from_storage: dtype is a dtype, got ",
                 Py_TYPE(dtype)->tp_name);
    return wrap(tensor_on_storage(storage_of(storage, "_tensor_from_storage"), to_dtype_value(dtype), offset,
                                  arg_ints(sizes, 1).values, arg_ints(strides, 1).values, "_tensor_from_storage"));
  });
}

// Methods of tensors

PyObject* method_untyped_storage(PyObject* self, PyObject*) {
  return guarded([&] { return wrap_storage(shared_storage(strided_tensor_of(self).storage()), tensor_of(self)); });
}
PyObject* method_is_shared(PyObject* self, PyObject*) {
  return PyBool_FromLong(is_shared(shared_storage(tensor_of(self).storage())));
}
PyObject* method_share_memory(PyObject* self, PyObject*) {
  return guarded([&] {
    share_or_throw(shared_storage(strided_tensor_of(self).storage()), tensor_of(self), "share_memory_");
    return Py_NewRef(self);
  });
}

PyMethodDef tensor_methods[] = {{"untyped_storage", method_untyped_storage, METH_NOARGS, docs::tensor::kUntypedStorage},
                                {"is_shared", method_is_shared, METH_NOARGS, docs::tensor::kIsShared},
                                {"share_memory_", method_share_memory, METH_NOARGS, docs::tensor::kShareMemory},
                                {}};

PyMethodDef functions[] = {
    {"_storage_from_buffer", function_storage_from_buffer, METH_O,
     "An UntypedStorage over any Python buffer, which it keeps alive."},
    {"_storage_from_shared_buffer", function_storage_from_shared_buffer, METH_O,
     "An UntypedStorage over a Python buffer in memory that other processes map too; it keeps the buffer alive."},
    {"_storage_view", function_storage_view, METH_O, "The bytes of a CPU storage as a memoryview."},
    {"_storage_share", function_storage_share, METH_O,
     "The descriptor of shared memory with the bytes of a storage: its own from now on, or a copy when other tensors "
     "hold them."},
    {"_storage_from_fd", function_storage_from_fd, METH_VARARGS,
     "_storage_from_fd(fd, nbytes): an UntypedStorage over shared memory."},
    {"_tensor_from_storage", function_tensor_from_storage, METH_VARARGS,
     "_tensor_from_storage(storage, dtype, offset, sizes, strides): a tensor over a storage; offset and strides count "
     "elements."},
    {}};

}  // namespace

Storage* storage_of(PyObject* o, const char* op) {
  if (is_storage(o)) return storage_object(o)->storage;
  Owned inner(PyObject_GetAttrString(o, "_untyped_storage"));
  if (!inner) PyErr_Clear();
  FACULA_CHECK(inner && is_storage(inner.get()), ErrorKind::Type, op, ": expected a storage, got ",
               Py_TYPE(o)->tp_name);
  return storage_object(inner.get())->storage;  // kept alive by the outer object
}

bool has_storage(PyObject* o) { return is_storage(o) || has_attribute(o, "_untyped_storage"); }

std::optional<DType> storage_dtype(PyObject* o) {
  if (is_storage(o)) return std::nullopt;
  Owned dtype(PyObject_GetAttrString(o, "dtype"));
  if (!dtype) PyErr_Clear();
  return dtype && is_dtype(dtype.get()) ? std::optional(to_dtype_value(dtype.get())) : std::nullopt;
}

Storage* storage_for(PyObject* o, DType dtype, const char* op) {
  Storage* storage = storage_of(o, op);
  const std::optional<DType> own = storage_dtype(o);
  FACULA_CHECK(!own || *own == dtype, ErrorKind::Runtime, op, ": expected a Storage of type ", dtype,
               " or an UntypedStorage, got ", *own);
  return storage;
}

void init_storage_functions(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  add_tensor_methods(tensor_methods);
}

}  // namespace facula::python
