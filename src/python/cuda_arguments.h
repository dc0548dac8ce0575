// Declares what the functions behind facula.cuda have in common: their arguments, and the dicts that they return.
#pragma once

#include <string>

#include "cuda/device.h"
#include "cuda/stream.h"
#include "python/args.h"
#include "python/objects.h"

namespace facula::python {

/// The arguments of a call by their positions.
class CudaArguments {
 public:
  CudaArguments(PyObject* tuple, Py_ssize_t count, const char* name) : tuple_(tuple) {
    FACULA_CHECK(PyTuple_GET_SIZE(tuple) == count, ErrorKind::Type, name, ": expected ", count, " arguments, got ",
                 PyTuple_GET_SIZE(tuple));
  }
  PyObject* object(Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_, i); }
  int64_t integer(Py_ssize_t i) const { return to_int(object(i)); }
  int device(Py_ssize_t i, const char* name) const {
    cuda::check_not_forked(name);
    const int64_t index = integer(i);
    FACULA_CHECK(index >= 0 && index < cuda::device_count(), ErrorKind::Runtime, name, ": a CUDA device of the ",
                 cuda::device_count(), " that there are, got ", index);
    return static_cast<int>(index);
  }
  /// Of two arguments, the device and the handle.
  Stream stream(Py_ssize_t i, const char* name) const {
    const unsigned long long handle = PyLong_AsUnsignedLongLong(object(i + 1));
    if (PyErr_Occurred()) throw PythonError{};
    return {{DeviceType::CUDA, static_cast<int8_t>(device(i, name))}, handle};
  }

 private:
  PyObject* tuple_;
};

template <class F>
PyObject* none_after(F f) {
  return guarded([&] {
    f();
    return Py_NewRef(Py_None);
  });
}

inline PyObject* text(const std::string& s) {
  return check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

inline void put(PyObject* dict, const char* key, PyObject* fresh) {
  Owned value(check(fresh));
  check(PyDict_SetItemString(dict, key, value.get()));
}
inline void put(PyObject* dict, const std::string& key, int64_t number) {
  put(dict, key.c_str(), PyLong_FromLongLong(number));
}

}  // namespace facula::python
