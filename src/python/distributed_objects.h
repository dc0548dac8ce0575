// Declares objects of facula.distributed that several files make.
#pragma once

#include <cstring>

#include "distributed/store.h"
#include "distributed/world.h"
#include "python/python.h"

namespace facula::python {

void init_process_groups(PyObject* module);
void init_reducers(PyObject* module);
PyObject* wrap_store(std::shared_ptr<distributed::Store> store);
std::shared_ptr<distributed::Store> store_of(PyObject* object);

struct GroupRef {
  std::shared_ptr<distributed::World> world;
  std::shared_ptr<distributed::Group> group;
};

/// An object that holds a shared C++ one.
template <class T>
struct Holder {
  PyObject_HEAD T value;
};
template <class T>
inline PyTypeObject type_of{.ob_base = PyVarObject_HEAD_INIT(nullptr, 0)};

template <class T>
T& held(PyObject* self) {
  return reinterpret_cast<Holder<T>*>(self)->value;
}

template <class T>
PyObject* hold(T value) {
  PyObject* object = check(type_of<T>.tp_alloc(&type_of<T>, 0));
  new (&held<T>(object)) T(std::move(value));
  return object;
}

template <class T>
void make_type(PyObject* module, const char* name, PyMethodDef* methods, const char* doc) {
  PyTypeObject& type = type_of<T>;
  type.tp_name = name;
  type.tp_basicsize = sizeof(Holder<T>);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_methods = methods;
  type.tp_doc = doc;
  type.tp_dealloc = [](PyObject* self) {
    T last = std::move(held<T>(self));
    held<T>(self).~T();
    Py_TYPE(self)->tp_free(self);
    WithoutLock unlocked;
    last = {};
  };
  check(PyType_Ready(&type));
  check(PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, reinterpret_cast<PyObject*>(&type)));
}

inline PyObject* none() { return Py_NewRef(Py_None); }

template <class... T>
void parse(PyObject* args, const char* format, T*... slots) {
  if (!PyArg_ParseTuple(args, format, slots...)) throw PythonError{};
}

/// Runs `f` without the interpreter lock, interruptible by Ctrl-C.
template <class F>
auto unlocked(F f) {
  WithoutLock lock;
  distributed::Interruptible interruptible;
  return f();
}

/// The innermost line of the program outside of this package.
distributed::CallSite call_site();
/// Writes the flight recorder after an operation failed, where a program wants that; `error` is the class.
void dump_records(PyObject* error);

}  // namespace facula::python
