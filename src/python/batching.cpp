// vmap as Python sees it: wrappers, levels, and the warning for ops that run example by example.
#include "autograd/batching.h"

#include "python/bindings.h"
#include "python/node_object.h"

namespace facula::python {
namespace {

PyObject* wrapper_class = nullptr;

const Tensor& wrapper_of(PyObject* o) {
  FACULA_CHECK(is_tensor(o) && is_batched(tensor_of(o)), ErrorKind::Type, "vmap: expected an example of a batch, got ",
               Py_TYPE(o)->tp_name);
  return tensor_of(o);
}

PyObject* function_make_batched(PyObject*, PyObject* args) {
  PyObject* value;
  int level;
  if (!PyArg_ParseTuple(args, "Oi", &value, &level)) return nullptr;
  return guarded([&] {
    FACULA_CHECK(is_tensor(value) && tensor_of(value).dim() > 0, ErrorKind::Value,
                 "vmap: expected a Tensor with a batch dimension, got ", Py_TYPE(value)->tp_name);
    return wrap(make_batched(strided_tensor_of(value), static_cast<uint32_t>(level)));
  });
}
PyObject* function_batch_value(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(batch_behind(wrapper_of(o))); });
}
// The level of a wrapper, 0 for anything else.
PyObject* function_batch_level(PyObject*, PyObject* o) {
  return PyLong_FromUnsignedLong(is_tensor(o) && is_batched(tensor_of(o)) ? batch_level(tensor_of(o)) : 0);
}

void update_mode() {
  if (vmap_levels().empty()) thread_state.modes &= ~static_cast<uint32_t>(kModeVmap);
  else thread_state.modes |= kModeVmap;
}
// _push_vmap(size, randomness) -> level; randomness is 0 error, 1 same, 2 different
PyObject* function_push_vmap(PyObject*, PyObject* args) {
  long long size;
  int randomness;
  if (!PyArg_ParseTuple(args, "Li", &size, &randomness)) return nullptr;
  vmap_levels().push_back({size, static_cast<Randomness>(randomness)});
  update_mode();
  return PyLong_FromSize_t(vmap_levels().size());
}
PyObject* function_pop_vmap(PyObject*, PyObject*) {
  if (!vmap_levels().empty()) vmap_levels().pop_back();
  update_mode();
  Py_RETURN_NONE;
}
// _vmap_levels() -> [(size, randomness)], outermost first
PyObject* function_vmap_levels(PyObject*, PyObject*) {
  return guarded([&] {
    Owned list(check(PyList_New(0)));
    for (const VmapLevel& level : vmap_levels()) {
      Owned item(check(Py_BuildValue("(Li)", static_cast<long long>(level.size), static_cast<int>(level.randomness))));
      check(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}
PyObject* function_set_batched_class(PyObject*, PyObject* type) {
  Py_XSETREF(wrapper_class, Py_NewRef(type));
  Py_RETURN_NONE;
}

void warn(const char* op) {
  WithLock lock;
  Owned module(check(PyImport_ImportModule("facula.func._vmap")));
  Owned done(check(call_python(PyObject_CallMethod, module.get(), "_warn_example_by_example", "s", op)));
}

PyMethodDef functions[] = {
    {"_make_batched", function_make_batched, METH_VARARGS,
     "_make_batched(value, level): one example of the batch `value`."},
    {"_batch_value", function_batch_value, METH_O, "The batch behind an example."},
    {"_batch_level", function_batch_level, METH_O, "The number of the vmap that made an example, 0 for other objects."},
    {"_push_vmap", function_push_vmap, METH_VARARGS, "_push_vmap(size, randomness): begins a vmap, returns its level."},
    {"_pop_vmap", function_pop_vmap, METH_NOARGS, "Ends the innermost vmap."},
    {"_vmap_levels", function_vmap_levels, METH_NOARGS, "(size, randomness) of the vmaps that run, outermost first."},
    {"_set_batched_class", function_set_batched_class, METH_O, "The class of examples."},
    {}};

}  // namespace

PyTypeObject* batched_type() {
  if (!wrapper_class) Owned module(check(PyImport_ImportModule("facula.func._vmap")));
  FACULA_CHECK(wrapper_class, ErrorKind::Runtime, "vmap: the class of examples is not there");
  return reinterpret_cast<PyTypeObject*>(wrapper_class);
}

void init_batching(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  host.warn_example_by_example = warn;
}

}  // namespace facula::python
