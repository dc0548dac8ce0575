// The autocast regions of this thread; facula/amp is the public face.
#include "autograd/autocast.h"

#include "python/docs/functions.h"
#include "python/node_object.h"
#include "python/objects.h"

namespace facula::python {
namespace {

/// The region of a device type: 0 the CPU's, 1 that of CUDA.
size_t region_of(PyObject* kind) {
  const char* text = PyUnicode_AsUTF8(kind);
  check(text != nullptr);
  const std::string_view name = text;
  FACULA_CHECK(name == "cpu" || name == "cuda", ErrorKind::Value,
               "autocast: expected a region of \"cpu\" or \"cuda\", got \"", name, "\"");
  return name == "cuda";
}
uint32_t mode_of(PyObject* kind) { return region_of(kind) ? kModeAutocastCuda : kModeAutocast; }

PyObject* is_enabled(PyObject*, PyObject* kind) {
  return guarded([&] { return wrap(autocasting(mode_of(kind)) != 0); });
}
PyObject* is_any_enabled(PyObject*, PyObject*) { return PyBool_FromLong(autocasting() != 0); }
PyObject* set_enabled(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FACULA_CHECK(nargs == 2, ErrorKind::Type, "_set_autocast_enabled: expected 2 arguments, got ", nargs);
    const uint32_t mode = mode_of(args[0]);
    if (PyObject_IsTrue(args[1]) == 1) thread_state.modes |= mode;
    else thread_state.modes &= ~mode;
    return Py_NewRef(Py_None);
  });
}
PyObject* get_dtype(PyObject*, PyObject* kind) {
  return guarded([&] { return wrap_dtype(autocast_state().dtypes[region_of(kind)]); });
}
PyObject* set_dtype(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FACULA_CHECK(nargs == 2 && is_dtype(args[1]), ErrorKind::Type, "set_autocast_dtype: dtype must be a dtype, got ",
                 nargs == 2 ? Py_TYPE(args[1])->tp_name : "no argument");
    autocast_state().dtypes[region_of(args[0])] = to_dtype_value(args[1]);  // any: a region says what it supports
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
    FACULA_CHECK(nargs == 2 && is_tensor(args[0]) && (is_dtype(args[1]) || args[1] == Py_None), ErrorKind::Type,
                 "_autocast_tensor: expected a Tensor and a dtype or None, got ", nargs, " arguments");
    const Tensor& t = operand_tensor_of(args[0]);
    if (is_dtype(args[1])) return wrap(autocast_tensor(t, to_dtype_value(args[1])));
    return wrap(autocast_tensor(t, autocast_lower(t).value_or(t.dtype())));
  });
}
template <class F>
PyCFunction fast(F function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef functions[] = {
    {"_is_autocast_enabled", is_enabled, METH_O, "(device type): whether ops on this thread cast its tensors."},
    {"_autocasts", is_any_enabled, METH_NOARGS, "Whether this thread is in a region of any device type."},
    {"_set_autocast_enabled", fast(set_enabled), METH_FASTCALL, "(device type, bool): on this thread."},
    {"_get_autocast_dtype", get_dtype, METH_O, "(device type): the lower precision."},
    {"_set_autocast_dtype", fast(set_dtype), METH_FASTCALL, "(device type, dtype): sets the lower precision."},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS, docs::functions::kIsAutocastCacheEnabled},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O, docs::functions::kSetAutocastCacheEnabled},
    {"autocast_increment_nesting", increment_nesting, METH_NOARGS, docs::functions::kAutocastIncrementNesting},
    {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS, docs::functions::kAutocastDecrementNesting},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, docs::functions::kClearAutocastCache},
    {"_autocast_tensor", fast(cast), METH_FASTCALL,
     "A tensor in a dtype (None: the lower precision) where a region touches it, else the tensor."},
    {}};

}  // namespace

void init_autocast(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
