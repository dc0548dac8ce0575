// Deferring everything, for tests (src/region/deferred.h).
#include "region/deferred.h"

#include "python/bindings.h"

namespace facula::python {
namespace {

PyObject* deferrals(PyObject*, PyObject*) {
  const region::Deferrals counts = region::count_deferrals();
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(counts.deferred),
                       static_cast<unsigned long long>(counts.made), static_cast<unsigned long long>(counts.at_once));
}
PyObject* is_deferred(PyObject*, PyObject* tensor) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(tensor), ErrorKind::Type, "_is_deferred: expected a Tensor, got ", Py_TYPE(tensor)->tp_name);
    return wrap((tensor_of(tensor).flags() & kDeferred) != 0);
  });
}

PyMethodDef functions[] = {
    {"_deferrals", deferrals, METH_NOARGS,
     "How many ops FACULA_DEFER has put off, how many of these have run, and how many calls could not wait."},
    {"_is_deferred", is_deferred, METH_O, "Whether the bytes of a tensor do not exist yet. For tests."},
    {}};

}  // namespace

void init_deferred(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  region::start_deferral();
}

}  // namespace facula::python
