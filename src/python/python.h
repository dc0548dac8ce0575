// Includes Python.h, which no other file does, and declares what every file of this folder needs.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <structmember.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/node.h"
#include "core/generator.h"
#include "core/mode.h"
#include "ops/operand.h"

namespace facula::python {

/// Thrown through C++ frames when a Python error is already set.
struct PythonError {};

/// Turns the C++ exception in flight into a Python error.
void translate_exception();

/// Runs `body`, which returns a new reference; C++ exceptions become Python errors.
template <class F>
PyObject* guarded(F&& body) {
  try {
    return body();
  } catch (...) {
    translate_exception();
    return nullptr;
  }
}

inline PyObject* check(PyObject* object) {
  if (!object) throw PythonError{};
  return object;
}
inline void check(int status) {
  if (status < 0) throw PythonError{};
}

/// The text of a str. Python strings may hold what UTF-8 has no form for (lone surrogates): a UnicodeEncodeError.
inline std::string_view utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* start = PyUnicode_AsUTF8AndSize(text, &size);
  if (!start) throw PythonError{};
  return {start, static_cast<size_t>(size)};
}

/// Owns one reference.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  static Owned share(PyObject* object) {
    Py_XINCREF(object);
    return Owned(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// The text of a str for a message: escapes stand for what UTF-8 has no form for.
inline std::string printable(PyObject* text) {
  Owned bytes(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (!bytes) throw PythonError{};
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

/// The interpreter lock; a thread that comes when the interpreter has ended stays there (lock.cpp).
PyGILState_STATE take_lock();
void take_lock_back(PyThreadState* state);

/// Never returns: what remains for a thread that CPython ends, see lock.cpp.
[[noreturn]] void stay_until_the_process_ends();

/// Calls a function of CPython that may run Python code: `call_python(PyObject_CallOneArg, f, x)`. A thread that
/// outlives the interpreter is ended in it, and must not leave through the functions that called.
template <class Function, class... Arguments>
PyObject* call_python(Function function, Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (abi::__forced_unwind&) {
    stay_until_the_process_ends();
  }
}

class WithLock {
 public:
  WithLock() : state_(take_lock()) {}
  ~WithLock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { take_lock_back(state_); }

 private:
  PyThreadState* state_;
};

/// Registers the types and functions of one file with the extension module.
void init_errors(PyObject* module);
void init_types(PyObject* module);
void init_tensor_type(PyObject* module);
void init_generator(PyObject* module);
void init_storage(PyObject* module);
void init_creation(PyObject* module);
void init_autograd(PyObject* module);
void init_generated(PyObject* module);
void init_dlpack(PyObject* module);
void init_settings(PyObject* module);
void init_tensor_methods(PyObject* module);
void init_tensor_new(PyObject* module);
void init_memory(PyObject* module);
void init_dtype_functions(PyObject* module);
void init_overrides(PyObject* module);
void init_optim(PyObject* module);
void init_guard(PyObject* module);
void init_cuda(PyObject* module);
void init_module_lookup(PyObject* module);
void init_observe(PyObject* module);
void init_dispatch(PyObject* module);

}  // namespace facula::python
