// dtype, device, layout, memory_format and Size objects, and number conversions.
#include "python/docs/types.h"

#include <array>

#include "core/backend.h"
#include "python/arrays.h"
#include "python/free_threading.h"
#include "python/mismatch.h"
#include "python/objects.h"
#include "python/record.h"

namespace facula::python {

static Device read_device(PyObject* o);  // as it is written, index included

namespace {

template <class T>
struct PyValue {
  PyObject_HEAD T value;
};

template <class T>
T value_of(PyObject* o) {
  return reinterpret_cast<PyValue<T>*>(o)->value;
}

template <class T>
PyObject* make_value(PyTypeObject* type, T value) {
  PyObject* o = type->tp_alloc(type, 0);
  if (o) reinterpret_cast<PyValue<T>*>(o)->value = value;
  return o;
}

std::array<PyObject*, kDTypes> dtype_objects;
std::array<PyObject*, 4> format_objects;
PyObject* layout_objects[8];

// Pickles name functions of facula._tensor.pickled: the classes' own module is only a name for people.
PyObject* pickled(const char* function, PyObject* args) {
  PyObject* module = args ? PyImport_ImportModule("facula._tensor.pickled") : nullptr;
  PyObject* rebuild = module ? PyObject_GetAttrString(module, function) : nullptr;
  Py_XDECREF(module);
  if (!rebuild) Py_XDECREF(args);
  return rebuild ? Py_BuildValue("(NN)", rebuild, args) : nullptr;
}

// dtype

PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", std::string(name(value_of<DType>(self))).c_str());
}
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return pickled("constant", Py_BuildValue("(s)", std::string(name(value_of<DType>(self))).c_str()));
}
template <bool (*F)(DType)>
PyObject* dtype_flag(PyObject* self, void*) {
  return PyBool_FromLong(F(value_of<DType>(self)));
}
bool flag_floating(DType d) { return is_floating(d); }
bool flag_complex(DType d) { return is_complex(d); }
bool flag_signed(DType d) { return is_signed(d); }
PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromLongLong(item_size(value_of<DType>(self))); }
PyObject* dtype_to_real(PyObject* self, PyObject*) { return wrap_dtype(real_dtype(value_of<DType>(self))); }
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    const DType dtype = value_of<DType>(self);
    FACULA_CHECK(is_inexact(dtype), ErrorKind::Runtime, "to_complex: expected a floating or complex dtype, got ",
                 dtype);
    return wrap_dtype(complex_dtype(dtype));
  });
}

PyGetSetDef dtype_properties[] = {
    {"is_floating_point", dtype_flag<flag_floating>, nullptr, "Whether values are real floating-point numbers.",
     nullptr},
    {"is_complex", dtype_flag<flag_complex>, nullptr, "Whether values are complex numbers.", nullptr},
    {"is_signed", dtype_flag<flag_signed>, nullptr, "Whether negative values exist.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {}};
PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
                               {"to_real", dtype_to_real, METH_NOARGS, docs::types::kToReal},
                               {"to_complex", dtype_to_complex, METH_NOARGS, docs::types::kToComplex},
                               {}};

// Dtypes of quantized tensors: names for integers that are levels. No op takes them; facula.ao knows what they mean.

struct QuantizedDType {
  PyValue<DType> levels;
  const char* name;
};
PyTypeObject QuantizedDTypeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
constexpr std::pair<const char*, DType> kQuantizedDTypes[] = {{"qint8", DType::Int8},
                                                              {"quint8", DType::UInt8},
                                                              {"qint32", DType::Int32},
                                                              {"quint4x2", DType::UInt8},
                                                              {"quint2x4", DType::UInt8}};

const char* quantized_name(PyObject* self) { return reinterpret_cast<QuantizedDType*>(self)->name; }
PyObject* quantized_dtype_repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", quantized_name(self)); }
PyObject* quantized_dtype_reduce(PyObject* self, PyObject*) {
  return pickled("constant", Py_BuildValue("(s)", quantized_name(self)));
}
PyObject* quantized_dtype_refuse(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    throw_error(ErrorKind::Runtime, "dtype: a quantized one has no sign, real or complex form, got torch.",
                quantized_name(self));
  });
}
PyObject* quantized_dtype_signed(PyObject* self, void*) { return quantized_dtype_refuse(self, nullptr); }
PyObject* quantized_dtype_levels(PyObject* self, void*) { return wrap_dtype(value_of<DType>(self)); }

PyGetSetDef quantized_dtype_properties[] = {
    {"is_signed", quantized_dtype_signed, nullptr, "Not known of quantized dtypes: a RuntimeError.", nullptr},
    {"_levels", quantized_dtype_levels, nullptr, "The integers that stand for values.", nullptr},
    {}};
PyMethodDef quantized_dtype_methods[] = {{"__reduce__", quantized_dtype_reduce, METH_NOARGS, nullptr},
                                         {"to_real", quantized_dtype_refuse, METH_NOARGS, docs::types::kToReal},
                                         {"to_complex", quantized_dtype_refuse, METH_NOARGS, docs::types::kToComplex},
                                         {}};

// device

PyObject* device_repr(PyObject* self) {
  Device d = value_of<Device>(self);
  return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", name(d.type))
                     : PyUnicode_FromFormat("device(type='%s', index=%d)", name(d.type), static_cast<int>(d.index));
}
PyObject* device_str(PyObject* self) { return PyUnicode_FromString(to_string(value_of<Device>(self)).c_str()); }
PyObject* device_type(PyObject* self, void*) { return PyUnicode_FromString(name(value_of<Device>(self).type)); }
PyObject* device_index(PyObject* self, void*) {
  Device d = value_of<Device>(self);
  if (d.index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(d.index);
}
Py_hash_t device_hash(PyObject* self) {
  Device d = value_of<Device>(self);
  return static_cast<Py_hash_t>(d.type) * 256 + d.index + 1;
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (!PyObject_TypeCheck(b, &DeviceType_) || !PyObject_TypeCheck(a, &DeviceType_) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  bool equal = value_of<Device>(a) == value_of<Device>(b);
  return PyBool_FromLong(op == Py_EQ ? equal : !equal);
}
int8_t to_device_index(PyObject* o) {
  int64_t index = to_int(o);
  FACULA_CHECK(index >= 0 && index <= std::numeric_limits<int8_t>::max(), ErrorKind::Runtime,
               "device: expected an index of at most 127 that is not negative, got ", index);
  return static_cast<int8_t>(index);
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject *type = nullptr, *index = Py_None;
  if (!parse_keywords(args, kwargs, "O|O:device", names, &type, &index)) return nullptr;
  return guarded([&] {
    Device device = read_device(type);
    if (index != Py_None) {
      FACULA_CHECK(device.index < 0, ErrorKind::Runtime, "device: the index stands in the type already, got ",
                   to_string(device));
      device.index = to_device_index(index);
    }
    return wrap_device(device);
  });
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  Device d = value_of<Device>(self);
  return pickled("device", d.index < 0 ? Py_BuildValue("(s)", name(d.type))
                                       : Py_BuildValue("(si)", name(d.type), static_cast<int>(d.index)));
}
// `with device:` is the Python layer's: it sets the default device
PyObject* device_hook(const char* which, PyObject* self) {
  PyObject* module = PyImport_ImportModule("facula.functions.device");
  if (!module) return nullptr;
  PyObject* result = call_python(PyObject_CallMethod, module, which, "O", self);
  Py_DECREF(module);
  return result;
}
PyObject* device_enter(PyObject* self, PyObject*) { return device_hook("enter", self); }
PyObject* device_exit(PyObject* self, PyObject*) { return device_hook("exit", self); }
PyGetSetDef device_properties[] = {
    {"type", device_type, nullptr, "'cpu', 'cuda' or 'meta'.", nullptr},
    {"index", device_index, nullptr, "Ordinal, or None for the current device.", nullptr},
    {}};
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {"__enter__", device_enter, METH_NOARGS, nullptr},
                                {"__exit__", device_exit, METH_VARARGS, nullptr},
                                {}};

// layout and memory format

// The last two are names that programs compare with.
constexpr const char* kLayoutNames[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                        "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged"};
const char* layout_name(PyObject* self) { return kLayoutNames[static_cast<int>(value_of<Layout>(self))]; }
PyObject* layout_repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", layout_name(self)); }
PyObject* layout_reduce(PyObject* self, PyObject*) {
  return pickled("constant", Py_BuildValue("(s)", layout_name(self)));
}
PyMethodDef layout_methods[] = {{"__reduce__", layout_reduce, METH_NOARGS, nullptr}, {}};

const char* format_name(PyObject* self) {
  constexpr const char* names[] = {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  return names[static_cast<int>(value_of<MemoryFormat>(self))];
}
PyObject* format_repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", format_name(self)); }
PyObject* format_reduce(PyObject* self, PyObject*) {
  return pickled("constant", Py_BuildValue("(s)", format_name(self)));
}
PyMethodDef format_methods[] = {{"__reduce__", format_reduce, METH_NOARGS, nullptr}, {}};

// Size

PyObject* size_repr(PyObject* self) {
  PyObject* list = PySequence_List(self);
  if (!list) return nullptr;
  PyObject* text = PyUnicode_FromFormat("torch.Size(%R)", list);
  Py_DECREF(list);
  return text;
}
PyObject* size_numel(PyObject* self, PyObject*) {
  Owned product(PyLong_FromLong(1));  // a size is any tuple of integers: their product need not fit in 64 bits
  for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); ++i)
    product = Owned(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(self, i)));
  return product.release();
}
PyObject* as_size(PyObject* tuple) {
  if (!tuple || !PyTuple_Check(tuple) || PyObject_TypeCheck(tuple, &SizeType)) return tuple;
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!PyLong_Check(PyTuple_GET_ITEM(tuple, i))) return tuple;
  }
  PyObject* size = SizeType.tp_alloc(&SizeType, n);
  for (Py_ssize_t i = 0; size && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Py_INCREF(item);
    PyTuple_SET_ITEM(size, i, item);
  }
  Py_DECREF(tuple);
  return size;
}
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* self = PyTuple_Type.tp_new(type, args, kwargs);
  if (!self) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    PyObject* item = PyTuple_GET_ITEM(self, i);
    if (PyLong_Check(item)) continue;
    PyObject* number = PyIndex_Check(item) ? PyNumber_Index(item) : nullptr;
    if (!number) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "Size: expected integers, got %s at position %zd", Py_TYPE(item)->tp_name, i);
      Py_DECREF(self);
      return nullptr;
    }
    PyTuple_SET_ITEM(self, i, number);
    Py_DECREF(item);
  }
  return self;
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
}
PyObject* size_concat(PyObject* a, PyObject* b) { return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b)); }
PyObject* size_repeat(PyObject* a, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
// A subscript by a slice makes a plain tuple of a subclass's items.
PyObject* whole_slice() {
  static std::atomic<PyObject*> slice;
  return made_once(slice, [] { return PySlice_New(nullptr, nullptr, nullptr); });
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  return pickled("size", PyTuple_Type.tp_as_mapping->mp_subscript(self, whole_slice()));
}
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, docs::types::kNumel}, {"__reduce__", size_reduce, METH_NOARGS, nullptr}, {}};
PyMappingMethods size_mapping;
PySequenceMethods size_sequence;
PyNumberMethods size_number;

void ready(PyTypeObject& type, PyObject* module, const char* name) {
  check(PyType_Ready(&type));
  Py_INCREF(&type);
  check(PyModule_AddObject(module, name, reinterpret_cast<PyObject*>(&type)));
}

}  // namespace

PyTypeObject DTypeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject DeviceType_ = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject LayoutType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject MemoryFormatType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject SizeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* wrap_size(IntList sizes) {
  PyObject* size = SizeType.tp_alloc(&SizeType, static_cast<Py_ssize_t>(sizes.size()));
  for (size_t i = 0; size && i < sizes.size(); ++i)
    PyTuple_SET_ITEM(size, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return size;
}

PyObject* wrap_ints(IntList values) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t i = 0; tuple && i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  return tuple;
}

PyObject* wrap_dtype(DType dtype) { return Py_NewRef(dtype_objects[index(dtype)]); }
PyObject* wrap_device(Device device) {
  static std::atomic<PyObject*> cpu;
  if (device != kCPU) return make_value(&DeviceType_, device);
  return Py_NewRef(made_once(cpu, [] { return immortal(make_value(&DeviceType_, kCPU)); }));
}
PyObject* wrap_layout(Layout layout) { return Py_NewRef(layout_objects[static_cast<int>(layout)]); }
PyObject* wrap_memory_format(MemoryFormat format) { return Py_NewRef(format_objects[static_cast<int>(format)]); }

PyObject* wrap(const Scalar& scalar) {
  if (scalar.is_bool()) return PyBool_FromLong(scalar.to_bool());
  if (scalar.is_floating()) return PyFloat_FromDouble(scalar.to_double());
  if (scalar.is_complex()) return PyComplex_FromDoubles(scalar.to_complex().real(), scalar.to_complex().imag());
  return scalar.dtype() == DType::UInt64 ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(scalar.to_int()))
                                         : PyLong_FromLongLong(scalar.to_int());
}

bool is_dtype(PyObject* o) {
  return Py_IS_TYPE(o, &DTypeType) || reinterpret_cast<PyTypeObject*>(o) == &PyFloat_Type ||
         reinterpret_cast<PyTypeObject*>(o) == &PyLong_Type || reinterpret_cast<PyTypeObject*>(o) == &PyBool_Type ||
         reinterpret_cast<PyTypeObject*>(o) == &PyComplex_Type;
}
bool is_device(PyObject* o) {
  return PyObject_TypeCheck(o, &DeviceType_) || PyUnicode_Check(o) || PyLong_CheckExact(o);
}

DType to_dtype_value(PyObject* o) {
  if (Py_IS_TYPE(o, &DTypeType)) return value_of<DType>(o);
  FACULA_CHECK(!Py_IS_TYPE(o, &QuantizedDTypeType), ErrorKind::Runtime,
               "dtype: quantized tensors are made by quantize_per_tensor and the like, got torch.", quantized_name(o));
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  if (type == &PyFloat_Type) return DType::Float64;
  if (type == &PyLong_Type) return DType::Int64;
  if (type == &PyBool_Type) return DType::Bool;
  if (type == &PyComplex_Type) return DType::Complex128;
  throw_error(ErrorKind::Type, "dtype: expected a facula.dtype, got ", Py_TYPE(o)->tp_name);
}

static Device read_device(PyObject* o) {
  if (PyObject_TypeCheck(o, &DeviceType_)) return value_of<Device>(o);
  if (PyUnicode_Check(o)) return parse_device(std::string(utf8(o)));
  if (PyLong_Check(o)) return Device{DeviceType::CUDA, to_device_index(o)};
  throw_error(ErrorKind::Type, "device: expected a device, a string or an index, got ", Py_TYPE(o)->tp_name);
}

// There is one CPU, and tensors on it say so without an index, whatever the requested device; of devices that
// are numbered, no index means the current one.
Device to_device_value(PyObject* o) {
  Device device = read_device(o);
  if (device.is_cpu() || device.is_meta()) device.index = -1;
  return concrete(device);
}

Layout to_layout(PyObject* o) {
  FACULA_CHECK(value_of<Layout>(o) <= Layout::SparseBsc, ErrorKind::NotImplemented,
               "layout: tensors are strided or sparse here, got torch.", layout_name(o));
  return value_of<Layout>(o);
}
MemoryFormat to_memory_format(PyObject* o) { return value_of<MemoryFormat>(o); }

bool is_number(PyObject* o) {
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;
  // NumPy scalars have nb_float and no length; arrays have a length
  PyTypeObject* type = Py_TYPE(o);
  if (PyObject_TypeCheck(o, &TensorType)) return false;
  return type->tp_as_number && (type->tp_as_number->nb_float || type->tp_as_number->nb_index) &&
         !(type->tp_as_sequence && type->tp_as_sequence->sq_length) &&
         !(type->tp_as_mapping && type->tp_as_mapping->mp_length) &&
         std::string_view(type->tp_name).starts_with("numpy");
}
bool is_int(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (PyObject_TypeCheck(o, &TensorType) || PyFloat_Check(o)) return false;
  if (!PyIndex_Check(o)) return false;
  return !(Py_TYPE(o)->tp_as_sequence && Py_TYPE(o)->tp_as_sequence->sq_length) || is_scalar_array(o);
}
bool is_scalar_array(PyObject* o) {
  if (std::string_view(Py_TYPE(o)->tp_name) != "numpy.ndarray") return false;
  const bool sized = PyObject_Size(o) >= 0;
  if (!sized) PyErr_Clear();
  return !sized;
}

[[noreturn]] static void refuse_integer(PyObject* error, PyObject* o) {
  PyErr_Clear();
  Owned bits(check(call_python(PyObject_CallMethod, o, "bit_length", nullptr)));
  PyErr_Format(error, "number: an integer of at most 64 bits is expected, got one of %S bits", bits.get());
  throw PythonError{};
}

Scalar to_scalar(PyObject* o) {
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return Scalar(static_cast<int64_t>(value));
    unsigned long long big = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
    if (overflow < 0 || PyErr_Occurred()) refuse_integer(PyExc_OverflowError, o);
    return Scalar(static_cast<uint64_t>(big));
  }
  if (PyComplex_Check(o)) return Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  if (is_tensor(o)) {
    value_needed(tensor_of(o), "item()");
    return tensor_of(o).item();
  }
  std::string_view type = Py_TYPE(o)->tp_name;
  if (type.starts_with("numpy.bool")) return Scalar(PyObject_IsTrue(o) == 1);
  if (PyIndex_Check(o)) {
    Owned number(check(PyNumber_Index(o)));
    return to_scalar(number.get());
  }
  if (type.starts_with("numpy.complex")) {
    Py_complex c = PyComplex_AsCComplex(o);
    return Scalar(std::complex<double>(c.real, c.imag));
  }
  double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
  return Scalar(value);
}

int64_t to_int(PyObject* o) {
  if (PyLong_CheckExact(o)) {
    long long value = PyLong_AsLongLong(o);
    if (value == -1 && PyErr_Occurred()) refuse_integer(PyExc_ValueError, o);
    return value;
  }
  if (is_tensor(o)) {
    value_needed(tensor_of(o), "int()");
    return tensor_of(o).item().to_int();
  }
  Owned number(check(PyNumber_Index(o)));
  long long value = PyLong_AsLongLong(number.get());
  if (value == -1 && PyErr_Occurred()) refuse_integer(PyExc_ValueError, number.get());
  return value;
}

double to_float(PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  return to_scalar(o).to_double();
}

bool to_bool(PyObject* o) {
  if (o == Py_True) return true;
  if (o == Py_False) return false;
  int truth = PyObject_IsTrue(o);
  check(truth);
  return truth == 1;
}

static void init_quantized_dtypes(PyObject* module) {
  QuantizedDTypeType.tp_name = "torch.dtype";
  QuantizedDTypeType.tp_base = &DTypeType;
  QuantizedDTypeType.tp_basicsize = sizeof(QuantizedDType);
  QuantizedDTypeType.tp_flags = Py_TPFLAGS_DEFAULT;
  QuantizedDTypeType.tp_repr = quantized_dtype_repr;
  QuantizedDTypeType.tp_methods = quantized_dtype_methods;
  QuantizedDTypeType.tp_getset = quantized_dtype_properties;
  QuantizedDTypeType.tp_doc = "The type of a quantized tensor's elements.";
  ready(QuantizedDTypeType, module, "_quantized_dtype");
  for (auto [name, levels] : kQuantizedDTypes) {
    PyObject* dtype = immortal(make_value(&QuantizedDTypeType, levels));
    reinterpret_cast<QuantizedDType*>(dtype)->name = name;
    PyModule_AddObject(module, name, dtype);
  }
}

void init_types(PyObject* module) {
  auto simple = [](PyTypeObject& type, const char* name, size_t size, reprfunc repr, PyMethodDef* methods,
                   PyGetSetDef* properties, const char* doc) {
    type.tp_name = name;
    type.tp_basicsize = static_cast<Py_ssize_t>(size);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_repr = repr;
    type.tp_methods = methods;
    type.tp_getset = properties;
    type.tp_doc = doc;
  };
  simple(DTypeType, "torch.dtype", sizeof(PyValue<DType>), dtype_repr, dtype_methods, dtype_properties,
         docs::types::kDtype);
  ready(DTypeType, module, "dtype");
  init_quantized_dtypes(module);
  simple(DeviceType_, "torch.device", sizeof(PyValue<Device>), device_repr, device_methods, device_properties,
         docs::types::kDevice);
  DeviceType_.tp_str = device_str;
  DeviceType_.tp_hash = device_hash;
  DeviceType_.tp_richcompare = device_compare;
  DeviceType_.tp_new = device_new;
  ready(DeviceType_, module, "device");
  simple(LayoutType, "torch.layout", sizeof(PyValue<Layout>), layout_repr, layout_methods, nullptr,
         docs::types::kLayout);
  ready(LayoutType, module, "layout");
  simple(MemoryFormatType, "torch.memory_format", sizeof(PyValue<MemoryFormat>), format_repr, format_methods, nullptr,
         docs::types::kMemoryFormat);
  ready(MemoryFormatType, module, "memory_format");

  SizeType.tp_name = "torch.Size";
  SizeType.tp_base = &PyTuple_Type;
  SizeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_TUPLE_SUBCLASS;
  SizeType.tp_repr = size_repr;
  SizeType.tp_new = size_new;
  SizeType.tp_methods = size_methods;
  SizeType.tp_doc = docs::types::kSize;
  size_mapping.mp_length = PyTuple_Type.tp_as_mapping->mp_length;
  size_mapping.mp_subscript = size_subscript;
  SizeType.tp_as_mapping = &size_mapping;
  size_sequence = *PyTuple_Type.tp_as_sequence;
  size_sequence.sq_concat = size_concat;
  size_sequence.sq_repeat = size_repeat;
  SizeType.tp_as_sequence = &size_sequence;
  size_number.nb_add = size_add;
  SizeType.tp_as_number = &size_number;
  ready(SizeType, module, "Size");

  for (int i = 0; i < kDTypes; ++i) {
    dtype_objects[i] = immortal(make_value(&DTypeType, static_cast<DType>(i)));
    Py_INCREF(dtype_objects[i]);
    PyModule_AddObject(module, std::string(kDTypeInfo[i].name).c_str(), dtype_objects[i]);
  }
  for (int i = 0; i < 4; ++i) {
    format_objects[i] = immortal(make_value(&MemoryFormatType, static_cast<MemoryFormat>(i)));
    Py_INCREF(format_objects[i]);
    PyModule_AddObject(module, format_name(format_objects[i]), format_objects[i]);
  }
  for (size_t i = 0; i < std::size(kLayoutNames); ++i) {
    PyObject* layout = immortal(make_value(&LayoutType, static_cast<Layout>(i)));
    layout_objects[i] = Py_NewRef(layout);
    PyModule_AddObject(module, kLayoutNames[i], layout);
  }
}

}  // namespace facula::python
