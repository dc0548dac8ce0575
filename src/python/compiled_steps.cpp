// Calls of compiled functions by steps: asking for them, trying them, comparing them.
#include "python/compiled_function.h"
#include "python/replay.h"

namespace facula::python {
namespace {

/// Calls a function of `facula.compiler._looks` about a call.
Owned answer(PyObject* object, const char* method, PyObject* const* args, size_t nargsf, PyObject* names) {
  const Py_ssize_t all = PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0);
  Owned values(check(PyTuple_New(all)));
  for (Py_ssize_t i = 0; i < all; ++i) PyTuple_SET_ITEM(values.get(), i, Py_NewRef(args[i]));
  PyObject *settings = compiled(object)->settings, *keywords = names ? names : Py_None;
  return Owned(check(call_python(PyObject_CallMethod, settings, method, "OOO", object, values.get(), keywords)));
}

}  // namespace

void prepare_steps(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  Owned steps(answer(object, "steps_of", args, nargsf, names));
  Py_XSETREF(compiled(object)->steps, is_replay(steps.get()) ? steps.release() : nullptr);
}

PyObject* watched_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  CompiledFunction* self = compiled(object);
  Owned pair(answer(object, "watched_call", args, nargsf, names));
  PyObject* steps = PyTuple_GET_ITEM(pair.get(), 1);
  if (steps != Py_Ellipsis) {
    Py_XSETREF(self->steps, is_replay(steps) ? Py_NewRef(steps) : nullptr);
    self->calls->prepared(self->steps != nullptr);
  }
  return Py_NewRef(PyTuple_GET_ITEM(pair.get(), 0));
}

bool is_made_by_steps(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names, PyObject*& result) {
  CompiledFunction* self = compiled(object);
  if (!self->steps) return false;
  ReplayEnd end;
  result = replay_call(self->steps, args, nargsf, names, end);
  if (end == ReplayEnd::Done) return true;
  if (end != ReplayEnd::Stale) return false;
  Py_CLEAR(self->steps);
  if (!self->calls->replaces_steps() || self->pure) return false;
  prepare_steps(object, args, nargsf, names);
  if (!self->steps) return false;
  result = replay_call(self->steps, args, nargsf, names, end);
  return end == ReplayEnd::Done;
}

PyObject* compared(PyObject* object, PyObject* replayed, PyObject* const* args, size_t nargsf, PyObject* names) {
  CompiledFunction* self = compiled(object);
  Owned result(replayed);
  if (!self->steps || !replay_is_pure(self->steps)) return result.release();
  Owned expected(check(call_python(PyObject_Vectorcall, self->function, args, nargsf, names)));
  Owned(check(
      call_python(PyObject_CallMethod, self->settings, "check_replay", "OOO", object, result.get(), expected.get())));
  return result.release();
}

}  // namespace facula::python
