// Declares the Python objects of the core, and the conversions between them and C++ values.
#pragma once

#include "python/python.h"

namespace facula::python {

struct PyTensor {
  PyObject_HEAD Tensor tensor;  // empty while the tensor owns this object (see tensor_type.cpp)
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject TensorType;
extern PyTypeObject TensorMetaType;
extern PyTypeObject DTypeType;
extern PyTypeObject DeviceType_;
extern PyTypeObject LayoutType;
extern PyTypeObject MemoryFormatType;
extern PyTypeObject SizeType;
extern PyTypeObject GeneratorType;
extern PyObject* parameter_class;  // facula.nn.Parameter, once it exists

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == &TensorType || PyObject_TypeCheck(o, &TensorType); }
inline bool is_plain_tensor(PyObject* o) {
  return Py_TYPE(o) == &TensorType || reinterpret_cast<PyObject*>(Py_TYPE(o)) == parameter_class;
}
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->tensor; }
/// For ops, which take sparse tensors as well.
inline const Tensor& operand_tensor_of(PyObject* o) {
  materialize_layout(tensor_of(o));
  return tensor_of(o);
}
/// For what shows strides or memory to the program, or makes another tensor on the same storage: throws for sparse
/// ones.
inline const Tensor& strided_tensor_of(PyObject* o) {
  materialize(tensor_of(o));
  return tensor_of(o);
}

/// A new reference to the Python object of a tensor; None for an undefined one.
PyObject* wrap(Tensor tensor);
/// As wrap(), with an object of the given class made when the tensor has none yet.
PyObject* wrap_as(Tensor tensor, PyTypeObject* type);
PyObject* wrap(const std::vector<Tensor>& tensors);  // a tuple
PyObject* wrap(const Scalar& scalar);
inline PyObject* wrap(bool value) { return PyBool_FromLong(value); }
inline PyObject* wrap(int64_t value) { return PyLong_FromLongLong(value); }
inline PyObject* wrap(double value) { return PyFloat_FromDouble(value); }

PyObject* wrap_size(IntList sizes);
PyObject* wrap_ints(IntList values);
PyObject* wrap_dtype(DType dtype);
PyObject* wrap_device(Device device);
PyObject* wrap_layout(Layout layout);
PyObject* wrap_memory_format(MemoryFormat format);

// Conversions throw Error (or PythonError) when the object does not fit; argument parsing has checked the type before.
bool is_number(PyObject* o);
bool is_int(PyObject* o);
Scalar to_scalar(PyObject* o);
int64_t to_int(PyObject* o);
double to_float(PyObject* o);
bool to_bool(PyObject* o);
DType to_dtype_value(PyObject* o);
Device to_device_value(PyObject* o);
Layout to_layout(PyObject* o);
MemoryFormat to_memory_format(PyObject* o);
Generator* to_generator(PyObject* o);
/// A Python object for a generator that somebody else keeps alive.
PyObject* wrap_generator(Generator* generator);
bool is_dtype(PyObject* o);
bool is_device(PyObject* o);

/// Whether the object has an attribute. Where it has none, no exception is made on the way, which would take longer
/// than most ops; what lists, slices and numbers of Python itself do not have is not looked for.
bool has_attribute(PyObject* o, const char* name);
/// The attribute, or null without an exception where there is none.
PyObject* optional_attribute(PyObject* o, PyObject* name);

/// Calls with an override: an argument whose class defines `__torch_function__`.
bool has_override(PyObject* o);
/// As has_override, for a class that does more than Tensor's own, which gives results the subclass.
bool has_own_override(PyObject* o);
bool overrides_disabled();
void change_overrides_disabled(int change);
/// Whether a class has a `__torch_dispatch__` (see dispatch.cpp).
bool stands_in_for_kernels(PyTypeObject* type);
PyObject* call_override(const char* name, bool method, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames);

/// Whether a call on `o` goes to an override or to a function mode.
inline bool is_overridden(PyObject* o) {
  bool plain = is_plain_tensor(o) && !(thread_state.modes & kModePython);
  return __builtin_expect(!plain, 0) && ((thread_state.modes & kModePython) || has_override(o)) &&
         !overrides_disabled();
}

/// Gives a tensor another storage; who reads it meanwhile may still be at the old one.
void exchange_storage(TensorImpl* impl, Storage* storage);
/// The storage behind an UntypedStorage or TypedStorage object; a TypeError naming `op` otherwise.
Storage* storage_of(PyObject* o, const char* op);
/// A storage over the bytes of any Python buffer, which it keeps alive.
Storage* storage_on_buffer(PyObject* buffer);
/// A tensor with the values of a sequence or an array (not a tensor); shares an array's memory unless `copy`.
Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device, bool copy);
/// Tensor(...): tp_new of the Tensor type.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs);
/// The buffer protocol of tensors.
int tensor_buffer(PyObject* self, Py_buffer* view, int flags);
void release_tensor_buffer(PyObject* self, Py_buffer* view);
/// Adds rows that end with an empty one to the Tensor type.
void add_tensor_methods(PyMethodDef* table);

/// The same for a function called with a tuple and a dict (or null).
PyObject* call_override_with(const char* name, PyObject* args, PyObject* kwargs);

PyObject* getitem(PyObject* self, PyObject* key);
int setitem(PyObject* self, PyObject* key, PyObject* value);

}  // namespace facula::python
