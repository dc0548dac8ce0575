// What C++ extensions get from the module (extension_values.h), and the operators that they register
// (program/custom.h) as facula.library sees them.
#include "program/custom.h"
#include "python/extension_values.h"
#include "python/values.h"

namespace facula::python {

namespace {

bool from_object(PyObject* object, const BoxedType& type, Value& value) {
  try {
    value = to_value(object, type, "extension", "argument");
    return type.accepts(value);
  } catch (...) {
    PyErr_Clear();
    return false;
  }
}
PyObject* to_object(const Value& value) {
  return guarded([&] { return wrap_value(value); });
}
void set_error(const Error& error) {
  guarded([&]() -> PyObject* { throw error; });
}

const PythonValues values = {PythonValues::kVersion, from_object, to_object, set_error};

PyObject* text(std::string_view s) {
  return check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

PyObject* custom_count(PyObject*, PyObject*) { return PyLong_FromSize_t(custom_registrations()); }

// _custom_error(): what went wrong while libraries registered, once; None for nothing
PyObject* custom_error(PyObject*, PyObject*) {
  return guarded([] {
    const std::string errors = take_registration_error();
    return errors.empty() ? Py_NewRef(Py_None) : text(errors);
  });
}

// _custom_ops(): a list of (name, schema, [dispatch key])
PyObject* custom_ops(PyObject*, PyObject*) {
  return guarded([] {
    Owned list(check(PyList_New(0)));
    for (const CustomOp* op : all_custom()) {
      if (!op->row()) continue;
      Owned keys(check(PyList_New(0)));
      for (size_t i = 0; i < kKernelKeys; ++i) {
        const auto key = static_cast<KernelKey>(i);
        if (!op->has(key)) continue;
        Owned word(text(name(key)));
        if (PyList_Append(keys.get(), word.get())) throw PythonError{};
      }
      Owned row(check(Py_BuildValue("(NNO)", text(op->name()), text(op->schema()), keys.get())));
      if (PyList_Append(list.get(), row.get())) throw PythonError{};
    }
    return list.release();
  });
}

PyObject* custom_load(PyObject*, PyObject* path) {
  return guarded([&] {
    open_custom_library(std::string(utf8(path)));
    return Py_NewRef(Py_None);
  });
}

/// The arguments of a call by the schema: by position, by keyword, or their defaults.
std::vector<Value> bound(const CustomOp& custom, PyObject* args, PyObject* kwargs) {
  const BoxedOp& op = *custom.row();
  const char* name = custom.name().c_str();
  const auto given = static_cast<size_t>(PyTuple_GET_SIZE(args));
  size_t by_position = 0;
  for (const BoxedArgument& a : op.arguments) by_position += !a.keyword_only;
  FACULA_CHECK(given <= by_position, ErrorKind::Type, name, ": at most ", by_position,
               " arguments by position are expected, got ", given);
  Py_ssize_t used = 0;
  std::vector<Value> values;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const BoxedArgument& a = op.arguments[i];
    PyObject* named = kwargs ? PyDict_GetItemString(kwargs, a.name.c_str()) : nullptr;
    PyObject* object = i < given && !a.keyword_only ? PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)) : nullptr;
    FACULA_CHECK(!named || !object, ErrorKind::Type, name, ": one value for argument '", a.name,
                 "' is expected, got two");
    used += named != nullptr;
    if (named) object = named;
    FACULA_CHECK(object || !a.required, ErrorKind::Type, name, ": argument '", a.name, "' is missing");
    values.push_back(object ? to_value(object, a.type, name, a.name.c_str()) : a.default_value);
    FACULA_CHECK(a.accepts(values.back()), ErrorKind::Type, name, ": argument '", a.name, "' is a ", a.type.text(),
                 ", got ", object ? Py_TYPE(object)->tp_name : "its default");
  }
  FACULA_CHECK(!kwargs || used == PyDict_GET_SIZE(kwargs), ErrorKind::Type, name,
               ": arguments of the schema are expected, got others by keyword: ", custom.schema());
  return values;
}

PyObject* result_of(const std::vector<Value>& results) {
  if (results.empty()) return Py_NewRef(Py_None);
  if (results.size() == 1) return check(wrap_value(results[0]));
  Owned made(check(PyTuple_New(static_cast<Py_ssize_t>(results.size()))));
  for (size_t i = 0; i < results.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), check(wrap_value(results[i])));
  return made.release();
}

const CustomOp& custom_of(PyObject* name) {
  FACULA_CHECK(PyUnicode_Check(name), ErrorKind::Type, "operator: a str is expected, got ", Py_TYPE(name)->tp_name);
  const CustomOp* op = find_custom(utf8(name));
  FACULA_CHECK(op, ErrorKind::Attribute, "operator: a registered one is expected, got '", utf8(name), "'");
  return *op;
}

// _custom_call(name, below, args, kwargs): the kernel that is right, or with `below` the one below those for autograd
PyObject* custom_call(PyObject*, PyObject* given) {
  PyObject *name = nullptr, *args = nullptr, *kwargs = nullptr;
  int is_below = 0;
  if (!PyArg_ParseTuple(given, "OpO!O!", &name, &is_below, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
  return guarded([&] {
    const CustomOp& op = custom_of(name);
    const std::vector<Value> values = bound(op, args, kwargs);
    std::vector<const Value*> places;
    for (const Value& value : values) places.push_back(&value);
    std::vector<Value> results(op.row()->results.size());
    {
      const WithoutLock without;
      std::optional<BelowAutograd> below;
      if (is_below) below.emplace();
      op.call(places.data(), results.data());
    }
    return result_of(results);
  });
}

// _custom_bind(name, args, kwargs): every argument of the schema, by position
PyObject* custom_bind(PyObject*, PyObject* given) {
  PyObject *name = nullptr, *args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(given, "OO!O!", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
  return guarded([&] {
    const std::vector<Value> values = bound(custom_of(name), args, kwargs);
    Owned made(check(PyTuple_New(static_cast<Py_ssize_t>(values.size()))));
    for (size_t i = 0; i < values.size(); ++i)
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), check(wrap_value(values[i])));
    return made.release();
  });
}

PyMethodDef functions[] = {
    {"_custom_count", custom_count, METH_NOARGS, "How many registrations of operators in C++ there were."},
    {"_custom_error", custom_error, METH_NOARGS, "What went wrong with registrations since the last call, or None."},
    {"_custom_ops", custom_ops, METH_NOARGS, "A list of (name, schema, dispatch keys)."},
    {"_custom_load", custom_load, METH_O, "Loads a shared library with operators."},
    {"_custom_call", custom_call, METH_VARARGS, "_custom_call(name, below, args, kwargs): runs a kernel."},
    {"_custom_bind", custom_bind, METH_VARARGS, "_custom_bind(name, args, kwargs): every argument, by position."},
    {}};

}  // namespace

void init_extension(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  Owned capsule(check(PyCapsule_New(const_cast<PythonValues*>(&values), PythonValues::kCapsule, nullptr)));
  check(PyModule_AddObjectRef(module, "_extension_values", capsule.get()));
}

}  // namespace facula::python
