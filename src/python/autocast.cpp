// The autocast region of the CPU on this thread; facula/amp is the public face.
#include "autograd/autocast.h"

#include "python/node_object.h"
#include "python/objects.h"

namespace facula::python {
namespace {

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(autocasting() != 0); }
PyObject* set_enabled(PyObject*, PyObject* value) {
  if (PyObject_IsTrue(value) == 1) thread_state.modes |= kModeAutocast;
  else thread_state.modes &= ~static_cast<uint32_t>(kModeAutocast);
  Py_RETURN_NONE;
}
PyObject* get_dtype(PyObject*, PyObject*) { return wrap_dtype(autocast_state().dtype); }
PyObject* set_dtype(PyObject*, PyObject* value) {
  return guarded([&] {
    FACULA_CHECK(is_dtype(value), ErrorKind::Type, "set_autocast_dtype: dtype must be a dtype, got ",
                 Py_TYPE(value)->tp_name);
    DType dtype = to_dtype_value(value);
    FACULA_CHECK(is_floating(dtype), ErrorKind::Runtime, "set_autocast_dtype: expected a floating-point dtype, got ",
                 dtype);
    autocast_state().dtype = dtype;
    return Py_NewRef(Py_None);
  });
}
PyObject* is_cache_enabled(PyObject*, PyObject*) { return PyBool_FromLong(autocast_state().cache_enabled); }
PyObject* set_cache_enabled(PyObject*, PyObject* value) {
  autocast_state().cache_enabled = PyObject_IsTrue(value) == 1;
  Py_RETURN_NONE;
}
PyObject* increment_nesting(PyObject*, PyObject*) { return PyLong_FromLong(++autocast_state().nesting); }
PyObject* decrement_nesting(PyObject*, PyObject*) { return PyLong_FromLong(--autocast_state().nesting); }
PyObject* clear_cache(PyObject*, PyObject*) {
  clear_autocast_cache();
  Py_RETURN_NONE;
}
PyObject* cast(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FACULA_CHECK(nargs == 2 && is_tensor(args[0]) && is_dtype(args[1]), ErrorKind::Type,
                 "_autocast_tensor: expected a Tensor and a dtype, got ", nargs, " arguments");
    return wrap(autocast_tensor(settled_tensor_of(args[0]), to_dtype_value(args[1])));
  });
}

PyMethodDef functions[] = {
    {"_is_autocast_enabled", is_enabled, METH_NOARGS, "Whether ops on this thread cast their CPU tensors."},
    {"_set_autocast_enabled", set_enabled, METH_O, "Switches autocast of CPU tensors on this thread."},
    {"_get_autocast_dtype", get_dtype, METH_NOARGS, "The lower precision of CPU tensors."},
    {"_set_autocast_dtype", set_dtype, METH_O, "Sets the lower precision of CPU tensors."},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS,
     "is_autocast_cache_enabled(): whether cast weights are kept."},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O,
     "set_autocast_cache_enabled(enabled): whether cast weights are kept."},
    {"autocast_increment_nesting", increment_nesting, METH_NOARGS,
     "autocast_increment_nesting(): one region deeper; returns how deep."},
    {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS,
     "autocast_decrement_nesting(): leaves a region; returns how deep."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "clear_autocast_cache(): lets go of cast weights."},
    {"_autocast_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(cast)), METH_FASTCALL,
     "A tensor in a dtype where autocast touches it, else the tensor."},
    {}};

}  // namespace

void init_autocast(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
