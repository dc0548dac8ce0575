// The guard device, for tests (src/guard/guard.h).
#include "guard/guard.h"

#include <cstdlib>

#include "guard/pages.h"
#include "python/bindings.h"

namespace facula::python {
namespace {

PyObject* enable(PyObject*, PyObject*) {
  return guarded([] {
    guard::enable();
    return Py_NewRef(Py_None);
  });
}
PyObject* waits(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(guard::waits()); }
PyObject* used(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(guard::used_bytes()); }
PyObject* pages(PyObject*, PyObject* on) {
  return guarded([&] {
    guard::guard_pages(PyObject_IsTrue(on) == 1);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_enable_guard_device", enable, METH_NOARGS,
     "Makes the device 'guard': its kernels are the CPU's, but the host cannot touch its memory."},
    {"_guard_pages", pages, METH_O, "Whether the CPU's tensors that this thread makes lie between inaccessible pages."},
    {"_guard_waits", waits, METH_NOARGS, "How often the host has needed a value from the guard device so far."},
    {"_guard_used_bytes", used, METH_NOARGS, "Bytes that tensors on the guard device hold."},
    {}};

}  // namespace

void init_guard(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  if (const char* wanted = std::getenv("FACULA_GUARD_DEVICE"); wanted && *wanted == '1') guard::enable();
}

}  // namespace facula::python
