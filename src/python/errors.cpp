// C++ exceptions as Python exceptions.
#include <new>

#include "budget/why_full.h"
#include "core/public_names.h"
#include "cuda/driver.h"
#include "distributed/error.h"
#include "python/python.h"

namespace facula::python {
namespace {

PyObject* out_of_memory_class = nullptr;
PyObject* linalg_class = nullptr;
PyObject* accelerator_class = nullptr;

PyObject* python_class(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Value: return PyExc_ValueError;
    case ErrorKind::Type: return PyExc_TypeError;
    case ErrorKind::Index: return PyExc_IndexError;
    case ErrorKind::NotImplemented: return PyExc_NotImplementedError;
    case ErrorKind::OutOfMemory: return out_of_memory_class;
    case ErrorKind::Attribute: return PyExc_AttributeError;
    case ErrorKind::Assertion: return PyExc_AssertionError;
    case ErrorKind::LinAlg: return linalg_class;
    case ErrorKind::Buffer: return PyExc_BufferError;
    default: return PyExc_RuntimeError;
  }
}

void set_accelerator_error(const cuda::DriverError& error) {
  PyObject* made = call_python(PyObject_CallFunction, accelerator_class, "s", error.what());
  if (!made) return;
  PyObject* number = PyLong_FromLong(error.result());
  if (number && PyObject_SetAttrString(made, "error_code", number) == 0) PyErr_SetObject(accelerator_class, made);
  Py_XDECREF(number);
  Py_DECREF(made);
}

/// Its class is Python's, and loaded when first needed.
void set_distributed_error(const distributed::DistError& error) {
  static constexpr const char* kClasses[] = {"DistError", "DistBackendError", "DistNetworkError", "DistStoreError",
                                             "QueueEmptyError"};
  const Owned module(PyImport_ImportModule("facula.distributed._errors"));
  if (!module) return;
  const Owned kind(PyObject_GetAttrString(module.get(), kClasses[static_cast<size_t>(error.trouble())]));
  if (kind) PyErr_SetString(kind.get(), error.what());
}

}  // namespace

void translate_exception() {
  try {
    throw;
  } catch (const PythonError&) {
    return;
  } catch (const cuda::DriverError& error) {
    if (error.kind() == ErrorKind::OutOfMemory)
      PyErr_SetString(out_of_memory_class, budget::with_held_memory(error.what()).c_str());
    else set_accelerator_error(error);
  } catch (const distributed::DistError& error) {
    set_distributed_error(error);
  } catch (const Error& error) {
    std::string text = with_public_name(error.what());
    if (error.kind() == ErrorKind::OutOfMemory) text = budget::with_held_memory(text);
    PyErr_SetString(python_class(error.kind()), text.c_str());
  } catch (const std::length_error&) {  // a vector longer than memory can be
    PyErr_SetString(out_of_memory_class, "allocate: the system has no memory left for bookkeeping");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(out_of_memory_class, "allocate: the system has no memory left for bookkeeping");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void init_errors(PyObject* module) {
  out_of_memory_class = PyErr_NewExceptionWithDoc(
      "torch.OutOfMemoryError", "Memory could not be allocated on a device.", PyExc_RuntimeError, nullptr);
  linalg_class = PyErr_NewExceptionWithDoc("torch._C._LinAlgError", "A matrix does not allow the operation.",
                                           PyExc_RuntimeError, nullptr);
  accelerator_class = PyErr_NewExceptionWithDoc("torch.AcceleratorError",
                                                "A call of an accelerator's driver failed; `error_code` is its number.",
                                                PyExc_RuntimeError, nullptr);
  Py_XINCREF(accelerator_class);
  PyModule_AddObject(module, "AcceleratorError", accelerator_class);
  Py_XINCREF(out_of_memory_class);
  PyModule_AddObject(module, "OutOfMemoryError", out_of_memory_class);
  Py_XINCREF(linalg_class);
  PyModule_AddObject(module, "_LinAlgError", linalg_class);
}

}  // namespace facula::python
