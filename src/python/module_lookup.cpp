// Attribute lookup of nn.Module in C: what `__getattr__` would find in `_parameters`, `_buffers` and `_modules` is
// found without raising and catching an AttributeError first.
#include "python/objects.h"

// Exported by every supported Python, declared in public headers only by some.
extern "C" PyObject* _PyObject_GenericGetAttrWithDict(PyObject* self, PyObject* name, PyObject* dict, int suppress);

namespace facula::python {
namespace {

PyObject* tables[3];              // "_parameters", "_buffers", "_modules"
PyObject* base_lookup = nullptr;  // the __getattr__ that the lookup stands for

/// The entry of one of the tables: a new reference, or null with or without an error set.
PyObject* find_in_tables(PyObject* self, PyObject* name) {
  Owned dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict.get()) return nullptr;
  for (PyObject* key : tables) {
    PyObject* table = PyDict_GetItemWithError(dict.get(), key);
    if (!table || !PyDict_Check(table)) continue;
    if (PyObject* found = PyDict_GetItemWithError(table, name)) return Py_NewRef(found);
  }
  return nullptr;
}

PyObject* module_getattro(PyObject* self, PyObject* name) {
  // The last argument: give null without an error where there is no such attribute.
  PyObject* found = _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1);
  if (found || PyErr_Occurred()) return found;
  found = find_in_tables(self, name);
  if (found || PyErr_Occurred()) return found;
  return PyObject_CallFunctionObjArgs(base_lookup, self, name, nullptr);  // raises the usual error
}

/// _set_module_lookup(getattr): the function whose lookups are made in C.
PyObject* set_module_lookup(PyObject*, PyObject* function) {
  Py_XDECREF(base_lookup);
  base_lookup = Py_NewRef(function);
  Py_RETURN_NONE;
}

/// _use_module_lookup(cls): whether lookups on instances of cls are made in C now, as they are unless it (or a base)
/// has a `__getattr__` or `__getattribute__` of its own.
PyObject* use_module_lookup(PyObject*, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(PyType_Check(cls), ErrorKind::Type, "_use_module_lookup: takes a class, got ", Py_TYPE(cls)->tp_name);
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    Owned getattr(check(PyObject_GetAttrString(cls, "__getattr__")));
    Owned getattribute(check(PyObject_GetAttrString(cls, "__getattribute__")));
    Owned plain(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__getattribute__")));
    if (getattr.get() != base_lookup || getattribute.get() != plain.get()) Py_RETURN_FALSE;
    type->tp_getattro = module_getattro;
    PyType_Modified(type);
    Py_RETURN_TRUE;
  });
}

PyMethodDef functions[] = {
    {"_set_module_lookup", set_module_lookup, METH_O, "Names the __getattr__ whose lookups are made in C."},
    {"_use_module_lookup", use_module_lookup, METH_O, "Makes attribute lookups of a class in C, when it has no own."},
    {},
};

}  // namespace

void init_module_lookup(PyObject* module) {
  const char* names[] = {"_parameters", "_buffers", "_modules"};
  for (int i = 0; i < 3; ++i) tables[i] = check(PyUnicode_InternFromString(names[i]));
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python
