// Declares the type facula.Tensor: the object and its identity are in tensor_type.cpp, the rest of its type in other
// files.
#pragma once

#include "python/bindings.h"

namespace facula::python {

inline PyTensor* self_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

extern PyGetSetDef tensor_properties[];
extern PyMethodDef tensor_methods[];
/// _swap_tensors(a, b): each object becomes the other tensor, with class and attributes.
PyObject* swap_tensors(PyObject*, PyObject* args);
/// Fills the slots of numbers, sequences, indexing, buffers and comparison, before the type is ready.
void set_tensor_operators(PyTypeObject& type);

}  // namespace facula::python
