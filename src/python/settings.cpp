// Process-wide settings: default dtype, threads, warnings, the Parameter class, methods written in Python.
#include "core/parallel.h"
#include "core/recipe.h"
#include "core/warn.h"
#include "cpu/allocator.h"
#include "cpu/backend.h"
#include "ops/deterministic.h"
#include "ops/out.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/replay.h"

namespace facula::python {
namespace {

PyObject* get_default(PyObject*, PyObject*) { return wrap_dtype(default_dtype()); }
PyObject* set_default(PyObject*, PyObject* value) {
  return guarded([&] {
    FACULA_CHECK(is_dtype(value), ErrorKind::Type, "set_default_dtype: expected a dtype, got ",
                 Py_TYPE(value)->tp_name);
    DType dtype = to_dtype_value(value);
    FACULA_CHECK(is_floating(dtype) && !is_float8(dtype), ErrorKind::Type,
                 "set_default_dtype: only floating-point dtypes are supported, got ", dtype);
    settings_will_change();
    set_default_dtype(dtype);
    return Py_NewRef(Py_None);
  });
}
constexpr int64_t kMaxThreads = 65535;
PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }
PyObject* set_threads(PyObject*, PyObject* value) {
  return guarded([&] {
    FACULA_CHECK(is_int(value), ErrorKind::Type, "set_num_threads: expected an int, got ", Py_TYPE(value)->tp_name);
    int64_t count = to_int(value);
    FACULA_CHECK(count > 0 && count <= kMaxThreads, ErrorKind::Runtime, "set_num_threads: expected 1 to ", kMaxThreads,
                 " threads, got ", count);
    set_num_threads(static_cast<int>(count));
    return Py_NewRef(Py_None);
  });
}
PyObject* isa_level(PyObject*, PyObject*) { return PyUnicode_FromString(cpu::isa_level()); }
PyObject* set_parameter_class(PyObject*, PyObject* cls) {
  parameter_class = Py_NewRef(cls);
  Py_RETURN_NONE;
}
PyObject* set_deterministic(PyObject*, PyObject* mode) {
  return guarded([&] {
    const int64_t value = to_int(mode);
    FACULA_CHECK(value >= 0 && value <= 2, ErrorKind::Value, "_set_deterministic: 0, 1 or 2, got ", value);
    settings_will_change();
    ops::set_deterministic(static_cast<ops::Deterministic>(value));
    return Py_NewRef(Py_None);
  });
}
PyObject* set_fill_new_memory(PyObject*, PyObject* fill) {
  ops::set_fill_new_memory(fill == Py_True);
  Py_RETURN_NONE;
}
// The Tensor type is built in and cannot be written to from Python: its Python half is installed here.
PyObject* install_methods(PyObject*, PyObject* methods) {
  return guarded([&] {
    check(PyDict_Update(TensorType.tp_dict, methods));
    PyType_Modified(&TensorType);
    return Py_NewRef(Py_None);
  });
}

void issue_warning(const char* text) {
  WithLock lock;
  if (replay_left_for_warning() || PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError{};
}

void* save_lock() { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void restore_lock(void* state) { take_lock_back(static_cast<PyThreadState*>(state)); }

PyObject* set_warn_always(PyObject*, PyObject* value) {
  const bool before = warn_always.exchange(PyObject_IsTrue(value) == 1);
  return PyBool_FromLong(before);
}

PyMethodDef functions[] = {
    {"get_default_dtype", get_default, METH_NOARGS, docs::functions::kGetDefaultDtype},
    {"set_default_dtype", set_default, METH_O, docs::functions::kSetDefaultDtype},
    {"get_num_threads", get_threads, METH_NOARGS, docs::functions::kGetNumThreads},
    {"set_num_threads", set_threads, METH_O, docs::functions::kSetNumThreads},
    {"_set_deterministic", set_deterministic, METH_O,
     "What an op without a deterministic way does: 0 runs, 1 warns, 2 raises."},
    {"_set_fill_new_memory", set_fill_new_memory, METH_O,
     "Whether new memory is filled while deterministic algorithms are requested."},
    {"_set_warn_always", set_warn_always, METH_O,
     "Whether warnings that a process gives once are given every time; returns what it was."},
    {"_isa_level", isa_level, METH_NOARGS, "The instruction-set level of the CPU kernels in use: v4, v3, v2 or base."},
    {"_set_parameter_class", set_parameter_class, METH_O, "Makes ops on nn.Parameter as quick as on plain tensors."},
    {"_install_methods", install_methods, METH_O, "Adds methods written in Python to Tensor."},
    {}};

}  // namespace

void init_settings(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  host.warn = issue_warning;
  host.release_lock = save_lock;
  host.take_lock = restore_lock;
}

}  // namespace facula::python
