// Declares what this folder needs to know of NumPy's arrays, beside sequences and buffers.
#pragma once

#include "python/python.h"

namespace facula::python {

/// A NumPy array of no dimension, which stands for the number in it.
bool is_scalar_array(PyObject* o);

/// Warns, once in a process, that the number of a tensor that requires a gradient has none.
void warn_of_lost_history(const Tensor& t);

}  // namespace facula::python
