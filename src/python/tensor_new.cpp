// Tensor(...) and the constructors of old programs: FloatTensor(2, 3), x.new(...).
#include "functions.h"
#include "python/bindings.h"
#include "python/storage_object.h"

namespace facula::python {
namespace {

struct Request {
  const char* name;            // of the class called, for messages
  std::optional<DType> dtype;  // none: any tensor is taken as it is, numbers become the default dtype
  Device device = kCPU;
};

bool all_ints(PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* item = PyTuple_GET_ITEM(args, i);
    if (!is_int(item) && !(is_tensor(item) && tensor_of(item).dim() == 0 && is_integral(tensor_of(item).dtype()) &&
                           PyTuple_GET_SIZE(args) > 1))
      return false;
  }
  return true;
}

Tensor from_tensor(const Tensor& source, const Request& request) {
  FACULA_CHECK(!request.dtype || *request.dtype == source.dtype(), ErrorKind::Type, request.name,
               ": expected a tensor of ", *request.dtype, ", got ", source.dtype());
  return make_view(source, source.sizes(), source.strides(), 0, false);
}

Tensor from_storage(PyObject* object, const Request& request) {
  DType dtype = request.dtype.value_or(default_dtype());
  Storage* storage = storage_for(object, dtype, request.name);
  int64_t count = static_cast<int64_t>(storage->nbytes) / item_size(dtype);
  return tensor_on_storage(storage, dtype, 0, {count}, {1}, request.name);
}

Device device_argument(PyObject* kwargs, const Request& request) {
  Device device = request.device;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
    FACULA_CHECK(PyUnicode_CompareWithASCIIString(key, "device") == 0, ErrorKind::Type, request.name,
                 ": expected sizes, a sequence, a tensor or a storage, and device=None, got the keyword ",
                 printable(key));
    if (value != Py_None) device = to_device_value(value);
  }
  FACULA_CHECK(device.type == request.device.type, ErrorKind::Runtime, request.name, ": this class is for ",
               request.device, " (use tensor(..., device=)), got device ", device);
  return device;
}

Tensor construct(PyObject* args, PyObject* kwargs, const Request& request) {
  Device device = device_argument(kwargs, request);
  DType dtype = request.dtype.value_or(default_dtype());
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 0) return facula::empty({0}, dtype, device);
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  if (n == 1 && is_tensor(first)) {
    PyObject* placed = kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr;
    FACULA_CHECK(!placed || placed == Py_None, ErrorKind::Runtime, request.name,
                 ": a tensor is taken where it is, without device= (use tensor.to(device)), got device ", device);
    return from_tensor(strided_tensor_of(first), request);
  }
  if (n == 1 && PyObject_TypeCheck(first, &SizeType)) return facula::empty(arg_ints(first, 0).values, dtype, device);
  if (all_ints(args)) {
    Dims sizes;
    for (Py_ssize_t i = 0; i < n; ++i) sizes.push_back(to_int(PyTuple_GET_ITEM(args, i)));
    return facula::empty(sizes, dtype, device);
  }
  FACULA_CHECK(n == 1, ErrorKind::Type, request.name, ": expected sizes, a sequence, a tensor or a storage, got ", n,
               " arguments, the first of class ", Py_TYPE(first)->tp_name);
  if (has_attribute(first, "_cdata")) return from_storage(first, request);
  FACULA_CHECK(!is_number(first) && (PySequence_Check(first) || has_attribute(first, "__array__")), ErrorKind::Type,
               request.name, ": expected sizes, a sequence, a tensor or a storage, got ", Py_TYPE(first)->tp_name);
  return tensor_from_data(first, dtype, device, true);
}

// _legacy_new(cls, name, dtype or None, device, args, kwargs)
PyObject* function_legacy_new(PyObject*, PyObject* args) {
  PyObject *dtype, *device, *positional, *keywords;
  const char* name;
  if (!PyArg_ParseTuple(args, "sOOO!O", &name, &dtype, &device, &PyTuple_Type, &positional, &keywords)) return nullptr;
  return guarded([&] {
    Request request{name, std::nullopt, to_device_value(device)};
    if (dtype != Py_None) request.dtype = to_dtype_value(dtype);
    return wrap(construct(positional, keywords == Py_None ? nullptr : keywords, request));
  });
}

PyMethodDef functions[] = {
    {"_legacy_new", function_legacy_new, METH_VARARGS,
     "_legacy_new(name, dtype, device, args, kwargs): what FloatTensor(...) and x.new(...) make."},
    {}};

}  // namespace

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    Tensor made = construct(args, kwargs, {"Tensor", std::nullopt});
    return wrap_as(std::move(made), type);
  });
}

void init_tensor_new(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
