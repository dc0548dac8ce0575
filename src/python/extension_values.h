// Declares what an extension module gets from Facula's own module: Python objects as values, and back. The two are
// linked apart, so functions come in a capsule, `facula._C._extension_values`.
#pragma once

#include <Python.h>

#include <exception>

#include "program/boxed.h"

namespace facula {

struct PythonValues {
  static constexpr const char* kCapsule = "facula._C._extension_values";
  static constexpr uint32_t kVersion = 1;
  uint32_t version;
  /// False where the object is of another type; never throws and leaves no Python error.
  bool (*from_object)(PyObject* object, const BoxedType& type, Value& value);
  /// A new reference, or null with a Python error. A tensor comes as the object that it has.
  PyObject* (*to_object)(const Value& value);
  /// Sets the Python error that an exception stands for.
  void (*set_error)(const Error& error);
};

/// Null, with a Python error, where Facula cannot be imported or is of another version.
inline const PythonValues* python_values() {
  static const PythonValues* found = nullptr;
  if (found) return found;
  const auto* capsule = static_cast<const PythonValues*>(PyCapsule_Import(PythonValues::kCapsule, 0));
  if (!capsule) return nullptr;
  if (capsule->version != PythonValues::kVersion) {
    PyErr_SetString(PyExc_ImportError, "the extension was compiled for another version of Facula: build it again");
    return nullptr;
  }
  return found = capsule;
}

}  // namespace facula
