// Records programs. Every call that Python makes is seen where function modes see it (kModePython), so that eager code
// tests nothing more, and before composites open up.
#pragma once

#include "observe/observer.h"
#include "python/args.h"

namespace facula::python {

/// A program is recorded on this thread, and not by what runs inside an op that is already seen.
bool is_recording();
/// A call of a generated binding with a signature found: runs it and records the op. A new reference.
PyObject* record_call(const FunctionSpec& f, int chosen, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                      PyObject* kwnames, PyObject** slots);
/// A call of anything else that is seen by name: an operator, a property, a method written by hand.
PyObject* record_named(const char* name, bool method, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                       PyObject* kwnames);
/// `tensor(...)` and the like: what they make is a constant of the program.
PyObject* record_creation(const char* name, PyObject* args, PyObject* kwargs);
/// Python is about to get a value of a tensor: an error when the program made it or was given it.
void note_value_needed(const Tensor& tensor, const char* op);
inline void value_needed(const Tensor& tensor, const char* op) {
  if (__builtin_expect(thread_state.modes & kModePython, 0)) note_value_needed(tensor, op);
  notify_region_of_value(op);
}
/// The sizes of a tensor as a Size whose numbers may carry expressions; empty where nobody records, or none varies.
Owned find_recorded_sizes(PyObject* tensor);
inline Owned recorded_sizes(PyObject* tensor) {
  return __builtin_expect(thread_state.modes & kModePython, 0) ? find_recorded_sizes(tensor) : Owned();
}

/// The generated function or method with the name that its op goes by in errors ("functional_relu"); null for none.
using BoundFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
BoundFunction find_binding(const std::string& name, bool method);

/// Whether function modes written in Python are on, or none but a recorder sees calls.
bool function_modes_active();
void set_recorder_sees_calls(bool on);
/// How deeply overrides of classes are switched off on this thread.
bool class_overrides_off();

}  // namespace facula::python
