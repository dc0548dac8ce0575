// Makes NumPy's arrays on the memory of tensors, and describes the memory of arrays.
#pragma once

#include <optional>

#include "core/shape.h"
#include "core/tensor.h"
#include "python/python.h"

namespace facula::python {

/// The memory of an array, as NumPy describes it.
struct ArrayMemory {
  DType dtype;
  Dims sizes, steps;  // steps in elements
  char* start;
  bool read_only;
};

/// Returns true if `o` is an array of NumPy's own class.
bool is_array_exact(PyObject* o);
/// The memory of an array of NumPy's own class; nothing where it is another object, in another byte order, of elements
/// that tensors have not or between whose steps there is a part of an element.
std::optional<ArrayMemory> memory_of_array(PyObject* o);
/// A new array on the memory of a strided tensor on the CPU, which it keeps and exposes as long as it lives; null where
/// NumPy has no such dtype.
PyObject* array_on(const Tensor& t);

void init_numpy_arrays();

}  // namespace facula::python
