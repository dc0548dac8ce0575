// Converts values of programs to Python objects, and back.
#pragma once

#include "program/program.h"
#include "python/objects.h"

namespace facula::python {

/// A new reference: None, numbers, str, tensors, lists of these, dtype and the like; of an expression its text.
PyObject* wrap_value(const Value& value);
/// By what the object is: a sequence of tensors (and None) is Tensors, of integers Ints, and so on.
Value to_value(PyObject* object);
/// Whether an op takes a number, or numbers, here.
bool takes_number(const BoxedType& type);
/// As an op takes it for `type`: 2 is a Float where a float is wanted, an int a list where an int[N] is, a tensor of
/// one element the number that it holds.
Value to_value(PyObject* object, const BoxedType& type, const char* op, const char* argument);

/// The expression that an integer carries while programs are recorded (facula/export/_symint.py), or null.
PyObject* expression_of(PyObject* object);

}  // namespace facula::python
