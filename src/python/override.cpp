// __torch_function__: classes that take over calls on their instances, and modes that see every call.
// The rare path; the table of overrides and modes lives in facula/overrides.py.
#include <algorithm>
#include <utility>

#include "python/args.h"
#include "python/dispatch.h"
#include "python/free_threading.h"
#include "python/record.h"

namespace facula::python {
namespace {

thread_local int disabled_depth = 0;
thread_local bool next_question_off = false;  // see redispatch_function
thread_local bool modes_on = false;           // function modes
thread_local bool recorder_listens = false;   // it is seen like them

void show_calls() {
  if (modes_on || recorder_listens) thread_state.modes |= kModePython;
  else thread_state.modes &= ~kModePython;
}

PyObject* torch_function_name() {
  static std::atomic<PyObject*> name;
  return made_once(name, [] { return PyUnicode_InternFromString("__torch_function__"); });
}
PyObject* disabled_implementation = nullptr;
PyObject* default_implementation = nullptr;  // Tensor's own: the plain function of the class method

PyObject* disabled_call(PyObject*, PyObject* args) {
  PyObject *cls, *function, *types, *positional = nullptr, *keywords = nullptr;
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 5) {
    if (!PyArg_ParseTuple(args, "OOO|OO", &cls, &function, &types, &positional, &keywords)) return nullptr;
  } else if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &positional, &keywords)) {
    return nullptr;
  }
  Owned given(positional ? PySequence_Tuple(positional) : PyTuple_New(0));
  ++disabled_depth;
  PyObject* result = nullptr;
  if (keywords && keywords != Py_None && !PyDict_Check(keywords)) {
    PyErr_Format(PyExc_TypeError, "__torch_function__: kwargs must be a dict, got %s", Py_TYPE(keywords)->tp_name);
  } else if (given) {
    result = call_python(PyObject_Call, function, given.get(), keywords == Py_None ? nullptr : keywords);
  }
  --disabled_depth;
  return result;
}

PyObject* set_disabled(PyObject*, PyObject* change) {
  disabled_depth += static_cast<int>(PyLong_AsLong(change));
  Py_RETURN_NONE;
}
// Whether any of the arguments, or a mode, takes over calls.
PyObject* any_override(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (overrides_disabled() || std::exchange(next_question_off, false)) Py_RETURN_FALSE;
  if (modes_on) Py_RETURN_TRUE;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!is_plain_tensor(args[i]) && has_override(args[i])) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}
PyObject* set_default_implementation(PyObject*, PyObject* function) {
  default_implementation = Py_NewRef(function);
  Py_RETURN_NONE;
}
PyObject* skip_next_question(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(next_question_off, on == Py_True));
}
PyObject* is_disabled(PyObject*, PyObject*) { return PyBool_FromLong(disabled_depth > 0); }
PyObject* set_mode_active(PyObject*, PyObject* active) {
  modes_on = PyObject_IsTrue(active) == 1;
  show_calls();
  Py_RETURN_NONE;
}

PyMethodDef disabled_definition = {
    "_disabled_torch_function_impl", disabled_call, METH_VARARGS,
    "Declares a class that takes part in no override: calls run as if on plain tensors."};
PyMethodDef functions[] = {
    {"_change_override_disabled", set_disabled, METH_O, "Adds to the depth of disabled overrides of this thread."},
    {"_answer_no_override_once", skip_next_question, METH_O,
     "Whether the next question for overrides on this thread is answered by no; gives what was set before."},
    {"_overrides_disabled", is_disabled, METH_NOARGS, "Whether overrides are disabled on this thread."},
    {"_has_torch_function_variadic", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(any_override)),
     METH_FASTCALL,
     "_has_torch_function_variadic($module, /, *args)\n--\n\n"
     "Return whether a call with these arguments goes to an override (a __torch_function__) or to a mode.\n\n"
     "Args:\n    args: the arguments that may define it, one by one.\n\n"
     ">>> torch.overrides.has_torch_function_variadic(torch.ones(2), 1)\nFalse"},
    {"_set_default_torch_function", set_default_implementation, METH_O,
     "Sets which function is Tensor.__torch_function__."},
    {"_set_function_mode_active", set_mode_active, METH_O,
     "Whether function modes must see every call of this thread."},
    {}};

}  // namespace

bool function_modes_active() { return modes_on; }
void set_recorder_sees_calls(bool on) {
  recorder_listens = on;
  show_calls();
}
bool class_overrides_off() { return disabled_depth > 0; }

// Modes stay on where overrides of classes are off.
void change_overrides_disabled(int change) { disabled_depth += change; }
bool overrides_disabled() { return disabled_depth > 0 && !(thread_state.modes & kModePython); }

bool has_own_override(PyObject* o) {
  if (!has_override(o)) return false;
  Owned found(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(o)), torch_function_name()));
  return !(found && PyMethod_Check(found.get()) && PyMethod_GET_FUNCTION(found.get()) == default_implementation);
}

void leave_calls_to_kernels(PyObject* cls) {
  Owned found(check(PyObject_GetAttr(cls, torch_function_name())));
  const bool inherited = PyMethod_Check(found.get()) && PyMethod_GET_FUNCTION(found.get()) == default_implementation;
  if (inherited && PyObject_SetAttr(cls, torch_function_name(), disabled_implementation) < 0) throw PythonError{};
}

PyObject* optional_attribute(PyObject* o, PyObject* name) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  const int result = PyObject_GetOptionalAttr(o, name, &found);
#else
  const int result = _PyObject_LookupAttr(o, name, &found);
#endif
  if (result < 0) PyErr_Clear();
  return found;
}

bool has_attribute(PyObject* o, const char* name) {
  const PyTypeObject* type = Py_TYPE(o);
  if (type == &PyLong_Type || type == &PySlice_Type || type == &PyList_Type || type == &PyTuple_Type ||
      type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type || o == Py_Ellipsis || o == Py_None)
    return false;
  const Owned key(check(PyUnicode_InternFromString(name)));
  return Owned(optional_attribute(o, key.get())).get() != nullptr;
}

bool has_override(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &TensorType || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) || PyTuple_Check(o) ||
      PyList_Check(o) || o == Py_None || PyType_Check(o)) {
    return false;
  }
  PyObject* found = optional_attribute(reinterpret_cast<PyObject*>(type), torch_function_name());
  if (!found) return false;
  Py_DECREF(found);
  return found != disabled_implementation;
}

PyObject* call_override(const char* name, bool method, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  if (is_recording() && !modes_on) {
    const auto by_class = [](PyObject* o) { return !is_plain_tensor(o) && has_override(o) && !class_overrides_off(); };
    const bool any = (self && by_class(self)) || std::any_of(args, args + nargs, by_class);
    if (!any) return record_named(name, method, self, args, nargs, kwnames);
  }
  Owned module(PyImport_ImportModule("facula.overrides"));
  if (!module) return nullptr;
  Owned positional(PyTuple_New(nargs + (self ? 1 : 0)));
  Py_ssize_t at = 0;
  if (self) PyTuple_SET_ITEM(positional.get(), at++, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(positional.get(), at++, Py_NewRef(args[i]));
  Owned keywords(PyDict_New());
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]);
  }
  return call_python(PyObject_CallMethod, module.get(), "_dispatch", "sOOO", name, method ? Py_True : Py_False,
                     positional.get(), keywords.get());
}

PyObject* call_override_with(const char* name, PyObject* args, PyObject* kwargs) {
  if (is_recording() && !modes_on) return record_creation(name, args, kwargs);
  Owned module(PyImport_ImportModule("facula.overrides"));
  Owned empty(kwargs ? nullptr : PyDict_New());
  if (!module) return nullptr;
  return call_python(PyObject_CallMethod, module.get(), "_dispatch", "sOOO", name, Py_False, args,
                     kwargs ? kwargs : empty.get());
}

void init_overrides(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  disabled_implementation = check(PyCFunction_New(&disabled_definition, nullptr));
  Py_INCREF(disabled_implementation);
  PyModule_AddObject(module, "_disabled_torch_function_impl", disabled_implementation);
}

}  // namespace facula::python
