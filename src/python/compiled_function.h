// Declares the object of a compiled function, for the files that make its calls.
#pragma once

#include <memory>

#include "python/objects.h"
#include "region/compiled.h"

namespace facula::python {

using SharedCalls = std::shared_ptr<CompiledCalls>;

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* settings;
  PyObject* code;  // the key of what is shared; null: nothing is
  PyObject* attributes;
  PyObject* weak;
  bool pure;        // the user promises it
  bool checks;      // for tests: what steps do without effects is compared with what Python does
  PyObject* steps;  // that make a call (python/replay.h); null: none
  SharedCalls calls;
};
inline CompiledFunction* compiled(PyObject* self) { return reinterpret_cast<CompiledFunction*>(self); }

// Calls by steps (python/replay.h), in compiled_steps.cpp.

/// Requests steps that make such a call. Why there are none is known to `facula.compiler._looks`.
void prepare_steps(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names);
/// A call of a function that is promised to be pure, which is watched for its steps.
PyObject* watched_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names);
/// Whether steps made the call, which gave `result`.
bool is_made_by_steps(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names, PyObject*& result);
/// The result of steps, compared with that of Python where a second call does nothing else.
PyObject* compared(PyObject* object, PyObject* replayed, PyObject* const* args, size_t nargsf, PyObject* names);

}  // namespace facula::python
