// Attribute lookup and calls of nn.Module in C: what `__getattr__` would find in `_parameters`, `_buffers` and
// `_modules` is found without raising and catching an AttributeError first, and a call without hooks goes straight to
// `forward`.
#include "python/free_threading.h"
#include "python/objects.h"

// Exported by every supported Python, declared in public headers only by some.
extern "C" PyObject* _PyObject_GenericGetAttrWithDict(PyObject* self, PyObject* name, PyObject* dict, int suppress);
extern "C" PyObject* _PyType_Lookup(PyTypeObject* type, PyObject* name);

namespace facula::python {
namespace {

PyObject* tables[3];              // "_parameters", "_buffers", "_modules"
PyObject* base_lookup = nullptr;  // the __getattr__ that the lookup stands for
PyObject* base_call = nullptr;    // the __call__ that the call stands for
PyObject *name_hooked, *name_forward;

/// The entry of one of the tables: a new reference, or null with or without an error set.
PyObject* find_in_tables(PyObject* self, PyObject* name) {
  Owned dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict.get()) return nullptr;
  return guarded([&]() -> PyObject* {
    for (PyObject* key : tables) {
      const Item table = dict_item(dict.get(), key);
      if (!table.get() || !PyDict_Check(table.get())) continue;
      if (const Item found = dict_item(table, name); found.get()) return found.new_reference();
    }
    return nullptr;
  });
}

PyObject* module_getattro(PyObject* self, PyObject* name) {
  // The last argument: give null without an error where there is no such attribute.
  PyObject* found = _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1);
  if (found || PyErr_Occurred()) return found;
  found = find_in_tables(self, name);
  if (found || PyErr_Occurred()) return found;
  return call_python(PyObject_CallFunctionObjArgs, base_lookup, self, name, nullptr);  // raises the usual error
}

/// The method `forward` of the class; null when the instance has a forward of its own, or it is no function.
Owned forward_of_class(PyObject* self) {
#ifdef Py_GIL_DISABLED
  Owned found(_PyType_LookupRef(Py_TYPE(self), name_forward));
#else
  Owned found = Owned::share(_PyType_Lookup(Py_TYPE(self), name_forward));
#endif
  if (!found.get() || !PyFunction_Check(found.get())) return {};
  Owned dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict.get()) PyErr_Clear();
  return dict.get() && dict_item(dict.get(), name_forward).get() ? Owned() : std::move(found);
}

PyObject* call_forward(PyObject* self, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t kMost = 8;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  const Owned function = count <= kMost ? forward_of_class(self) : Owned();
  if (!function.get()) {
    Owned forward(PyObject_GetAttr(self, name_forward));
    return forward.get() ? call_python(PyObject_Call, forward.get(), args, kwargs) : nullptr;
  }
  PyObject* stack[kMost + 1] = {self};
  for (Py_ssize_t i = 0; i < count; ++i) stack[i + 1] = PyTuple_GET_ITEM(args, i);
  return call_python(PyObject_VectorcallDict, function.get(), stack, static_cast<size_t>(count) + 1, kwargs);
}

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  Owned hooked(PyObject_GetAttr(self, name_hooked));
  if (!hooked.get()) return nullptr;
  if (hooked.get() == Py_False) return guarded([&] { return call_forward(self, args, kwargs); });
  Owned method(PyObject_GetAttrString(self, "_call_with_hooks"));
  if (!method.get()) return nullptr;
  Owned none(kwargs ? nullptr : PyDict_New());
  return call_python(PyObject_CallFunctionObjArgs, method.get(), args, kwargs ? kwargs : none.get(), nullptr);
}

/// _set_module_lookup(getattr, call): the functions whose lookups and calls are made in C.
PyObject* set_module_lookup(PyObject*, PyObject* args) {
  PyObject *lookup, *call;
  if (!PyArg_ParseTuple(args, "OO:_set_module_lookup", &lookup, &call)) return nullptr;
  Py_XSETREF(base_lookup, Py_NewRef(lookup));
  Py_XSETREF(base_call, Py_NewRef(call));
  Py_RETURN_NONE;
}

/// _use_module_lookup(cls): whether lookups on instances of cls are made in C now, as they are unless it (or a base)
/// has a `__getattr__` or `__getattribute__` of its own. Its calls are made in C unless it has a `__call__` of its own;
/// who assigns one later, to cls or a base, has Python set the class's slot anew.
PyObject* use_module_lookup(PyObject*, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(PyType_Check(cls), ErrorKind::Type, "_use_module_lookup: takes a class, got ", Py_TYPE(cls)->tp_name);
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    Owned call(check(PyObject_GetAttrString(cls, "__call__")));
    if (call.get() == base_call) type->tp_call = module_call;
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
    {"_set_module_lookup", set_module_lookup, METH_VARARGS, "Names the __getattr__ and __call__ that are made in C."},
    {"_use_module_lookup", use_module_lookup, METH_O, "Makes attribute lookups of a class in C, when it has no own."},
    {},
};

}  // namespace

void init_module_lookup(PyObject* module) {
  const char* names[] = {"_parameters", "_buffers", "_modules"};
  for (int i = 0; i < 3; ++i) tables[i] = check(PyUnicode_InternFromString(names[i]));
  name_hooked = check(PyUnicode_InternFromString("_hooked"));
  name_forward = check(PyUnicode_InternFromString("forward"));
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python
