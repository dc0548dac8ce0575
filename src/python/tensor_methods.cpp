// Tensor methods that are not ops: conversions between dtypes and devices, and exchanging the storage.
#include "autograd/function_support.h"
#include "core/backend.h"
#include "core/write.h"
#include "functions.h"
#include "ops/kernel_table.h"
#include "ops/pinned.h"
#include "python/bindings.h"
#include "python/dispatch.h"
#include "python/docs/tensor.h"
#include "python/mismatch.h"
#include "python/node_object.h"
#include "python/storage_object.h"
#include "python/tensor_type.h"

namespace facula::python {
namespace {

/// The arguments of `to`.
struct Target {
  std::optional<DType> dtype;
  std::optional<Device> device;
  MemoryFormat format = MemoryFormat::Preserve;
  bool copy = false, non_blocking = false;
  bool copy_given = false;
};

Tensor move_to(const Tensor& t, DType dtype, Device device) {
  FACULA_CHECK(!t.is_meta(), ErrorKind::NotImplemented, "to: a meta tensor has no values to copy to ", device,
               ", got shape ", t.sizes());
  if (!device.is_meta() && !has_backend(device.type)) report_no_backend(device, "to");
  return _to_device(t, device, dtype);
}

Tensor convert_to(const Tensor& t, const Target& target) {
  DType dtype = target.dtype.value_or(t.dtype());
  if (target.device && *target.device != t.device()) {
    Tensor moved = move_to(t, dtype, *target.device);
    return target.format == MemoryFormat::Preserve ? moved : contiguous(moved, target.format);
  }
  // without a conversion, only a tensor that would suggest another format is rearranged
  const bool makes_new = dtype != t.dtype() || target.copy;
  bool reorder = target.format != MemoryFormat::Preserve &&
                 (t.suggest_memory_format() != target.format || (makes_new && !t.is_contiguous(target.format)));
  if (dtype != t.dtype()) {
    Tensor converted = to_dtype(t, dtype);
    return reorder ? clone(converted, target.format) : converted;
  }
  return target.copy || reorder ? clone(t, target.format) : t;
}

// Where classes or modes stand in for kernels: the device is what the class reports, and the whole is one op to them.
PyObject* converted_by_class(PyObject* self, Target& target) {
  const Tensor& t = tensor_of(self);
  if ((t.flags() & kPythonDispatch) && target.device) {
    Owned reported(check(PyObject_GetAttrString(self, "device")));
    if (!target.dtype && is_device(reported.get()) && to_device_value(reported.get()) == *target.device)
      target.device.reset();
  }
  if (!dispatch_sees_whole({&t})) return nullptr;
  const auto none = [](auto* made) { return made ? made : Py_NewRef(Py_None); };
  Owned arguments(check(
      Py_BuildValue("(ONNOON)", self, none(target.dtype ? wrap_dtype(*target.dtype) : nullptr),
                    none(target.device ? wrap_device(*target.device) : nullptr),
                    target.non_blocking ? Py_True : Py_False, target.copy ? Py_True : Py_False,
                    none(target.format == MemoryFormat::Preserve ? nullptr : wrap_memory_format(target.format)))));
  return dispatch_call("_convert", arguments.get());
}

/// The tensor's own object when nothing changed.
PyObject* converted(PyObject* self, Target target) {
  const bool seen = (watching() & kWatchDispatch) || (tensor_of(self).flags() & kPythonDispatch);
  if (__builtin_expect(seen, 0)) {
    if (PyObject* result = converted_by_class(self, target)) return result;
  }
  const Tensor& t = operand_tensor_of(self);
  const NonBlocking scope(target.non_blocking);
  Tensor result = convert_to(t, target);
  return result.is_same(t) ? Py_NewRef(self) : wrap(std::move(result));
}

MemoryFormat format_of(const char* op, PyObject* o) {
  FACULA_CHECK(PyObject_TypeCheck(o, &MemoryFormatType), ErrorKind::Type, op,
               ": memory_format is a memory_format, got ", Py_TYPE(o)->tp_name);
  return to_memory_format(o);
}

[[noreturn]] void bad_to_argument(PyObject* o, Py_ssize_t position) {
  throw_error(ErrorKind::Type,
              "to: expected (dtype), (device, dtype) or (other), each with non_blocking=False, copy=False, ",
              "memory_format=None; got ", Py_TYPE(o)->tp_name, " at position ", position);
}

// Positional arguments: dtype | device[, dtype] | other; then non_blocking, copy.
void read_positional(Target& target, PyObject* const* args, Py_ssize_t n) {
  Py_ssize_t at = 0;
  if (at < n && is_tensor(args[at])) {
    target.dtype = tensor_of(args[at]).dtype();
    target.device = tensor_of(args[at]).device();
    ++at;
  } else if (at < n && is_dtype(args[at])) {
    target.dtype = to_dtype_value(args[at++]);
  } else if (at < n && (args[at] == Py_None || is_device(args[at]))) {
    if (args[at] != Py_None) target.device = to_device_value(args[at]);
    ++at;
    if (at < n && (args[at] == Py_None || is_dtype(args[at]))) {
      if (args[at] != Py_None) target.dtype = to_dtype_value(args[at]);
      ++at;
    } else if (at < n) {
      bad_to_argument(args[at], at);  // non_blocking by position comes behind a dtype
    }
  } else if (n > 0) {
    bad_to_argument(args[0], 0);
  }
  for (int flag = 0; at < n; ++at, ++flag) {
    if (!PyBool_Check(args[at]) || flag > 1) bad_to_argument(args[at], at);
    (flag == 1 ? target.copy : target.non_blocking) = args[at] == Py_True;
    target.copy_given |= flag == 1;
  }
}

void read_keyword(Target& target, std::string_view name, PyObject* value) {
  if (name == "non_blocking") {
    target.non_blocking = to_bool(value);
  } else if (name == "copy") {
    target.copy = to_bool(value);
    target.copy_given = true;
  } else if (value == Py_None && (name == "dtype" || name == "device" || name == "memory_format")) {
    // the default
  } else if (name == "dtype" && is_dtype(value)) {
    target.dtype = to_dtype_value(value);
  } else if (name == "device" && is_device(value)) {
    target.device = to_device_value(value);
  } else if (name == "memory_format") {
    target.format = format_of("to", value);
  } else if (name == "other" && is_tensor(value)) {
    target.dtype = tensor_of(value).dtype();
    target.device = tensor_of(value).device();
  } else {
    throw_error(ErrorKind::Type,
                "to: expected (dtype), (device, dtype) or (other), each with non_blocking=False, copy=False, ",
                "memory_format=None; got ", name, "=", Py_TYPE(value)->tp_name);
  }
}

Target read_target(PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  Target target;
  read_positional(target, args, n);
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    read_keyword(target, utf8(PyTuple_GET_ITEM(kwnames, k)), args[n + k]);
  }
  return target;
}

/// Whether something stands for a dtype, a device or a tensor whose class takes calls.
bool target_overridden(PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_tensor(args[i]) && !is_dtype(args[i]) && !is_device(args[i]) && is_overridden(args[i])) return true;
  }
  return false;
}

PyObject* method_to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  Py_ssize_t given = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (is_overridden(self) || target_overridden(args, given)) return call_override("to", true, self, args, n, kwnames);
  return guarded([&] { return converted(self, read_target(args, n, kwnames)); });
}

// _parse_to(*args, **kwargs) -> (device, dtype, non_blocking, memory_format), for nn.Module.to
PyObject* function_parse_to(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    Target target = read_target(args, n, kwnames);
    FACULA_CHECK(!target.copy_given, ErrorKind::Runtime, "to: a module is converted in place, got the argument copy");
    return Py_BuildValue(
        "(NNNN)", target.device ? wrap_device(*target.device) : Py_NewRef(Py_None),
        target.dtype ? wrap_dtype(*target.dtype) : Py_NewRef(Py_None), PyBool_FromLong(target.non_blocking),
        target.format == MemoryFormat::Preserve ? Py_NewRef(Py_None) : wrap_memory_format(target.format));
  });
}

// x.float(), x.long(), ...: one optional argument, memory_format
template <DType D>
PyObject* method_convert(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, const char* name) {
  if (is_overridden(self)) return call_override(name, true, self, args, n, kwnames);
  if (n == 0 && !kwnames && tensor_of(self).dtype() == D) return Py_NewRef(self);
  return guarded([&] {
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    bool known = n + keywords <= 1 &&
                 (!keywords || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "memory_format") == 0);
    FACULA_CHECK(known, ErrorKind::Type, name, ": expected (memory_format=preserve_format), got ", n + keywords,
                 " arguments");
    Target target{D, std::nullopt};
    if (n + keywords && args[0] != Py_None) target.format = format_of(name, args[0]);
    return converted(self, target);
  });
}

#define CONVERSION(name, dtype)                                                                      \
  PyObject* convert_##name(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) { \
    return method_convert<DType::dtype>(self, args, n, kwnames, #name);                              \
  }
CONVERSION(float, Float32)
CONVERSION(double, Float64)
CONVERSION(half, Float16)
CONVERSION(bfloat16, BFloat16)
CONVERSION(int, Int32)
CONVERSION(long, Int64)
CONVERSION(short, Int16)
CONVERSION(char, Int8)
CONVERSION(byte, UInt8)
CONVERSION(bool, Bool)
CONVERSION(cfloat, Complex64)
CONVERSION(cdouble, Complex128)
CONVERSION(chalf, Complex32)
#undef CONVERSION

PyObject* method_cpu(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  if (is_overridden(self)) return call_override("cpu", true, self, args, n, kwnames);
  return guarded([&] {
    Target target{std::nullopt, kCPU};
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    FACULA_CHECK(n + keywords <= 1, ErrorKind::Type, "cpu: expected (memory_format=preserve_format), got ",
                 n + keywords, " arguments");
    if (n + keywords && args[0] != Py_None) target.format = format_of("cpu", args[0]);
    return converted(self, target);
  });
}

// cuda(device=None, non_blocking=False, memory_format=preserve_format)
PyObject* method_cuda(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  if (is_overridden(self)) return call_override("cuda", true, self, args, n, kwnames);
  return guarded([&] {
    Target target{std::nullopt, Device{DeviceType::CUDA, -1}};
    auto read = [&](std::string_view name, PyObject* value) {
      if (name == "device") {
        if (value == Py_None) return;
        target.device = to_device_value(value);
        FACULA_CHECK(target.device->is_cuda(), ErrorKind::Runtime, "cuda: device is a CUDA device, got ",
                     *target.device);
      } else if (name == "memory_format") {
        target.format = format_of("cuda", value);
      } else {
        FACULA_CHECK(name == "non_blocking", ErrorKind::Type,
                     "cuda: expected (device=None, non_blocking=False, memory_format), got ", name);
        target.non_blocking = to_bool(value);
      }
    };
    constexpr const char* names[] = {"device", "non_blocking", "memory_format"};
    FACULA_CHECK(n <= 3, ErrorKind::Type, "cuda: expected at most 3 arguments, got ", n);
    for (Py_ssize_t i = 0; i < n; ++i) read(names[i], args[i]);
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
      read(utf8(PyTuple_GET_ITEM(kwnames, k)), args[n + k]);
    return converted(self, target);
  });
}

PyObject* method_type_as(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  const bool known = !named || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "other") == 0;
  if (n + named != 1 || !known) {
    PyErr_SetString(PyExc_TypeError, "type_as: expected one argument, the Tensor other, got another number of them");
    return nullptr;
  }
  PyObject* other = args[0];
  if (is_overridden(self) || is_overridden(other)) return call_override("type_as", true, self, &other, 1, nullptr);
  return guarded([&] {
    FACULA_CHECK(is_tensor(other), ErrorKind::Type, "type_as: other is a Tensor, got ", Py_TYPE(other)->tp_name);
    return converted(self, {tensor_of(other).dtype(), tensor_of(other).device()});
  });
}

PyObject* method_is_set_to(PyObject* self, PyObject* other) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(other), ErrorKind::Type, "is_set_to: tensor is a Tensor, got ", Py_TYPE(other)->tp_name);
    const Tensor &a = strided_tensor_of(self), &b = strided_tensor_of(other);
    return PyBool_FromLong(shared_storage(a.storage()) == shared_storage(b.storage()) &&
                           a.impl()->data == b.impl()->data && a.sizes() == b.sizes() && a.strides() == b.strides());
  });
}

PyObject* method_is_same_size(PyObject* self, PyObject* other) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(other), ErrorKind::Type, "is_same_size: other is a Tensor, got ", Py_TYPE(other)->tp_name);
    if (!is_plain_tensor(other)) {
      const Owned nested(check(PyObject_GetAttrString(other, "is_nested")));
      const Owned mine(check(PyObject_GetAttrString(self, "is_nested")));
      FACULA_CHECK((nested.get() == Py_True) == (mine.get() == Py_True), ErrorKind::Runtime,
                   "is_same_size: expected two nested tensors or none, got one");
      if (nested.get() == Py_True) return check(call_python(PyObject_CallMethod, self, "is_same_size", "O", other));
    }
    return PyBool_FromLong(tensor_of(self).sizes() == tensor_of(other).sizes());
  });
}

void put_on_storage(const Tensor& t, const Tensor& source) {
  TensorImpl* impl = t.impl();
  FACULA_CHECK(source.dtype() == t.dtype(), ErrorKind::Runtime, "set_: the source must have the tensor's dtype ",
               t.dtype(), ", got ", source.dtype());
  FACULA_CHECK(!(requires_grad(t) && GradMode::enabled() && !grad_fn(impl)), ErrorKind::Runtime,
               "set_: a leaf that requires grad cannot be used in an in-place operation (use no_grad()), got shape ",
               t.sizes());
  const uint32_t recorded_flags = recorded_flags_of(t) | recorded_flags_of(source);
  const uint32_t version = impl->storage->current_version();
  exchange_storage(impl, source.storage());
  impl->data = source.impl()->data;
  set_sizes(impl, source.sizes(), source.strides());
  if (AutogradMeta* meta = autograd_meta(impl)) {
    if (AccumulateGrad* node = meta->accumulator.load()) node->set_output(0, t);  // gradients have the new shape
  }
  // No element is written: who has saved the source need not know. Who has saved this tensor itself learns it from a
  // version that is higher than all that it has had.
  if (impl->refs.load() > 1 && source.storage()->current_version() <= version)
    impl->storage->version.store(version + 1, std::memory_order_relaxed);
  if (recorded_flags)
    record_missing("set_", recorded_flags, t, t, source);  // the old values take no part in the new ones
}

// set_(source=None, storage_offset=0, size=None, stride=None); source is a tensor or a storage
PyObject* method_set_(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"source", "storage_offset", "size", "stride", nullptr};
  PyObject *source = nullptr, *size = Py_None, *stride = Py_None;
  constexpr Py_ssize_t kNotGiven = PY_SSIZE_T_MIN;
  Py_ssize_t given = kNotGiven;
  if (!parse_keywords(args, kwargs, "|OnOO:set_", names, &source, &given, &size, &stride)) return nullptr;
  return guarded([&] {
    const Tensor& t = strided_tensor_of(self);
    DType dtype = t.dtype();
    FACULA_CHECK(given == kNotGiven || (source && size != Py_None), ErrorKind::Type,
                 "set_: storage_offset is given with a source and a size, got storage_offset=", given);
    if (!source) {
      put_on_storage(t, facula::empty({0}, dtype, t.device()));
      return Py_NewRef(self);
    }
    if (is_tensor(source) && size == Py_None) {
      put_on_storage(t, strided_tensor_of(source));
      return Py_NewRef(self);
    }
    const int64_t offset = given == kNotGiven ? 0 : given;
    Storage* storage = is_tensor(source) ? strided_tensor_of(source).storage() : storage_for(source, dtype, "set_");
    Dims sizes = size == Py_None ? Dims{static_cast<int64_t>(storage->nbytes) / item_size(dtype) - offset}
                                 : arg_ints(size, 1).values;
    Dims strides = stride == Py_None ? contiguous_strides(sizes) : arg_ints(stride, 1).values;
    FACULA_CHECK(sizes.size() == strides.size(), ErrorKind::Runtime, "set_: size and stride differ in length, got ",
                 sizes, " and ", strides);
    put_on_storage(t, tensor_on_storage(storage, dtype, offset, sizes, strides, "set_"));
    return Py_NewRef(self);
  });
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {{"to", as_function(method_to), kFast, docs::tensor::kTo},
                         {"float", as_function(convert_float), kFast, docs::tensor::kFloat},
                         {"double", as_function(convert_double), kFast, docs::tensor::kDouble},
                         {"half", as_function(convert_half), kFast, docs::tensor::kHalf},
                         {"bfloat16", as_function(convert_bfloat16), kFast, docs::tensor::kBfloat16},
                         {"int", as_function(convert_int), kFast, docs::tensor::kInt},
                         {"long", as_function(convert_long), kFast, docs::tensor::kLong},
                         {"short", as_function(convert_short), kFast, docs::tensor::kShort},
                         {"char", as_function(convert_char), kFast, docs::tensor::kChar},
                         {"byte", as_function(convert_byte), kFast, docs::tensor::kByte},
                         {"bool", as_function(convert_bool), kFast, docs::tensor::kBool},
                         {"cfloat", as_function(convert_cfloat), kFast, docs::tensor::kCfloat},
                         {"cdouble", as_function(convert_cdouble), kFast, docs::tensor::kCdouble},
                         {"chalf", as_function(convert_chalf), kFast, docs::tensor::kChalf},
                         {"cpu", as_function(method_cpu), kFast, docs::tensor::kCpu},
                         {"cuda", as_function(method_cuda), kFast, docs::tensor::kCuda},
                         {"type_as", as_function(method_type_as), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kTypeAs},
                         {"is_set_to", method_is_set_to, METH_O, docs::tensor::kIsSetTo},
                         {"is_same_size", method_is_same_size, METH_O, docs::tensor::kIsSameSize},
                         {"set_", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_set_)),
                          METH_VARARGS | METH_KEYWORDS, docs::tensor::kSet},
                         {}};

PyMethodDef functions[] = {{"_parse_to", as_function(function_parse_to), kFast,
                            "The arguments of `to`, as (device, dtype, non_blocking, memory_format)."},
                           {"_swap_tensors", swap_tensors, METH_VARARGS,
                            "Each of two tensor objects becomes the other tensor, with class and attributes."},
                           {}};

}  // namespace

void add_tensor_methods(PyMethodDef* table) {
  for (PyMethodDef* m = table; m->ml_name; ++m) {
    Owned descriptor(check(PyDescr_NewMethod(&TensorType, m)));
    check(PyDict_SetItemString(TensorType.tp_dict, m->ml_name, descriptor.get()));
  }
  PyType_Modified(&TensorType);
}

void init_tensor_methods(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  add_tensor_methods(methods);
}

}  // namespace facula::python
