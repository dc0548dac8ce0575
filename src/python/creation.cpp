// Tensors from Python data: tensor(), from_numpy(), numpy(), tolist(), and the buffer protocol behind them.
#include <cstring>

#include "core/checked.h"
#include "core/number.h"
#include "cpu/allocator.h"
#include "functions.h"
#include "ops/contiguous.h"
#include "ops/kernel_table.h"
#include "ops/out.h"
#include "python/arrays.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/docs/tensor.h"
#include "python/free_threading.h"
#include "python/mismatch.h"
#include "python/node_object.h"
#include "python/numpy_arrays.h"
#include "python/storage_object.h"

namespace facula::python {
namespace {

// Nested sequences

struct Scan {
  Dims shape;
  std::optional<DType> dtype;
  DType floats = default_dtype();

  void add(DType found) {
    if (dtype != found) dtype = dtype ? promote(*dtype, found) : found;
  }
};

/// Lists and tuples whose items can be looked at in place, and numbers that are exactly Python's: they have none of the
/// attributes by which arrays are known.
bool is_plain_sequence(PyObject* o) { return PyList_CheckExact(o) || PyTuple_CheckExact(o); }
bool is_plain(PyObject* o) {
  return is_plain_sequence(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
}

bool is_sequence_like(PyObject* o) {
  return (PyList_Check(o) || PyTuple_Check(o) ||
          (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_number(o) && !is_scalar_array(o))) &&
         !is_tensor(o);
}

/// The number in a NumPy array of no dimension.
Owned number_of_array(PyObject* array) {
  Owned nothing(check(PyTuple_New(0)));
  return Owned(check(PyObject_GetItem(array, nothing.get())));
}

bool is_ndarray(PyObject* o) { return is_array_exact(o) || std::string_view(Py_TYPE(o)->tp_name) == "numpy.ndarray"; }
bool is_array(PyObject* o) {
  return is_ndarray(o) || (!is_tensor(o) && !is_number(o) && has_attribute(o, "__array_interface__"));
}

DType number_dtype(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o).dtype();
  std::string_view type = Py_TYPE(o)->tp_name;
  if (type.starts_with("numpy.")) {
    std::string_view plain = type.substr(6);
    if (plain.starts_with("bool")) return DType::Bool;
    for (int d = 0; d < kDTypes; ++d) {
      if (kDTypeInfo[d].name == plain) return static_cast<DType>(d);
    }
  }
  if (PyLong_Check(o) && !PyBool_Check(o)) return DType::Int64;
  return to_scalar(o).dtype();
}

int64_t bit_length(PyObject* integer) {
  Owned bits(check(call_python(PyObject_CallMethod, integer, "bit_length", nullptr)));
  return to_int(bits.get());
}

// An item of a sequence by a class of the program. What it raises says why its shape cannot be known.
Owned item_of(PyObject* sequence, Py_ssize_t i) {
  PyObject* item = call_python(PySequence_GetItem, sequence, i);
  if (!item && PyErr_ExceptionMatches(PyExc_Exception)) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    const Owned raised(type), raised_value(value), where(trace);
    throw_error(ErrorKind::Value, "tensor: a sequence gives its items, by which its shape is known, got ",
                reinterpret_cast<PyTypeObject*>(type)->tp_name, " for item ", i, " of a ", Py_TYPE(sequence)->tp_name);
  }
  return Owned(check(item));
}

// The shape is that of the first element at every depth; the others are checked when they are stored. A tensor that
// comes first is a number; where sequences came first, it is one of them.
void scan(PyObject* data, size_t depth, Scan& result) {
  if (PyFloat_CheckExact(data)) return result.add(result.floats);
  if (PyLong_CheckExact(data)) return result.add(DType::Int64);
  if (is_sequence_like(data)) {
    Py_ssize_t n = PySequence_Size(data);
    check(static_cast<int>(n < 0 ? -1 : 0));
    if (result.shape.size() <= depth) result.shape.push_back(n);
    FACULA_CHECK(depth < 64, ErrorKind::Value, "tensor: at most 64 nested sequences, got more");
    if (PyList_Check(data) || PyTuple_Check(data)) {
      for (Py_ssize_t i = 0; i < n; ++i) {
        const Item item = list_item(data, i);
        FACULA_CHECK(item.get(), ErrorKind::Value, "tensor: a list became shorter during the call, got ", i, " items");
        scan(item, depth + 1, result);
      }
    } else {
      for (Py_ssize_t i = 0; i < n; ++i) {
        scan(item_of(data, i).get(), depth + 1, result);
      }
    }
    return;
  }
  if (is_scalar_array(data)) return result.add(number_dtype(number_of_array(data).get()));
  if (is_tensor(data)) {
    if (depth == 0) result.shape = Dims(tensor_of(data).sizes());
  } else {
    FACULA_CHECK(is_number(data), ErrorKind::Type,
                 "tensor: expected numbers, sequences of them, arrays or tensors, got ", Py_TYPE(data)->tp_name);
  }
  result.add(number_dtype(data));
}

/// A number as an element. Like PyTorch: integers of any length for floating-point and bool elements, negative ones
/// wrap around in unsigned elements of less than 64 bits, numbers too large for float16, bfloat16 and float32 are
/// infinite, and nothing else may be lost but a fraction.
template <class T>
T element(PyObject* o) {
  constexpr DType dtype = dtype_of<T>();
  if (PyLong_Check(o) && !PyBool_Check(o)) {
    if constexpr (std::is_same_v<T, bool>) {
      return PyObject_IsTrue(o) == 1;
    } else if constexpr (std::is_integral_v<T>) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
      constexpr bool widest = std::is_same_v<T, uint64_t>;
      FACULA_CHECK(!widest || overflow || value >= 0, ErrorKind::Value, "tensor: expected an integer with a value in ",
                   dtype, ", got ", value);
      FACULA_CHECK(!overflow || (widest && overflow > 0), ErrorKind::Value,
                   "tensor: expected an integer with a value in ", dtype, ", got one of ", bit_length(o), " bits");
    } else {
      const double value = PyLong_AsDouble(o);
      if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
      return Scalar(value).to<T>();
    }
  }
  if constexpr (std::is_same_v<T, bool>) {
    if (PyComplex_Check(o)) return PyObject_IsTrue(o) == 1;
  }
  FACULA_CHECK(is_complex(dtype) || !PyComplex_Check(o), ErrorKind::Type, "tensor: expected a real number for ", dtype,
               ", got a complex one");
  const Scalar value = to_scalar(o);
  constexpr bool narrow = dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32;
  FACULA_CHECK(narrow || has_value<T>(value), ErrorKind::Runtime, "tensor: expected a number with a value in ", dtype,
               ", got ", value);
  return value.to<T>();
}

/// Stores `o` when it is exactly the Python number that becomes a T without a question.
template <class T>
bool store_plain(PyObject* o, char* at) {
  T value;
  if constexpr (std::is_floating_point_v<T>) {
    if (!PyFloat_CheckExact(o)) return false;
    value = static_cast<T>(PyFloat_AS_DOUBLE(o));
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (!PyLong_CheckExact(o)) return false;
    int overflow = 0;
    value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) return false;
  } else {
    return false;
  }
  std::memcpy(at, &value, sizeof value);
  return true;
}

template <class T>
char* store_all(PyObject* data, size_t depth, IntList shape, char* at) {
  if (depth == shape.size()) {
    if (is_sequence_like(data))
      throw_error(ErrorKind::Type, "tensor: the sequences differ in depth, got a sequence where a number is expected");
    if (is_tensor(data)) {
      FACULA_CHECK(tensor_of(data).numel() == 1, std::is_integral_v<T> ? ErrorKind::Type : ErrorKind::Value,
                   "tensor: only tensors of a single element can stand for numbers (use torch.stack to join tensors), ",
                   "got one of shape ", tensor_of(data).sizes());
      warn_of_lost_history(tensor_of(data));
    }
    const T value = element<T>(is_scalar_array(data) ? number_of_array(data).get() : data);
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
  }
  if (is_tensor(data)) {
    FACULA_CHECK(!tensor_of(data).is_meta(), ErrorKind::Runtime, "tensor: a meta tensor has no values, got shape ",
                 tensor_of(data).sizes());
    Tensor source = to_dtype(ops::on_host(contiguous(tensor_of(data), MemoryFormat::Contiguous)), dtype_of<T>());
    FACULA_CHECK(source.sizes() == shape.slice(depth, shape.size() - depth), ErrorKind::Value,
                 "tensor: the tensors differ in shape, got ", source.sizes());
    materialize_bytes(source);
    size_t bytes = static_cast<size_t>(source.numel()) * sizeof(T);
    std::memcpy(at, source.impl()->data, bytes);
    return at + bytes;
  }
  FACULA_CHECK(is_sequence_like(data), ErrorKind::Type, "tensor: the sequences differ in depth, got ",
               Py_TYPE(data)->tp_name, " where a sequence of ", shape[depth], " is expected");
  Py_ssize_t n = PySequence_Size(data);
  FACULA_CHECK(n == shape[depth], ErrorKind::Value, "tensor: expected sequence of length ", shape[depth], " at dim ",
               depth, ", got ", n);
  const bool plain = depth + 1 == shape.size() && is_plain_sequence(data);
  for (Py_ssize_t i = 0; i < n; ++i) {
    // what an item does when its value is read may change the list
    if (plain) {
      const Item number = list_item(data, i);
      if (number.get() && store_plain<T>(number, at)) {
        at += sizeof(T);
        continue;
      }
    }
    Owned item(check(PySequence_GetItem(data, i)));
    at = store_all<T>(item.get(), depth + 1, shape, at);
  }
  return at;
}

Tensor from_sequence(PyObject* data, std::optional<DType> wanted) {
  Scan found;
  scan(data, 0, found);
  DType target = wanted.value_or(found.dtype.value_or(default_dtype()));
  Tensor t = empty(found.shape, target);
  if (t.numel() || !found.shape.size()) {
    visit_dtype(target, [&]<class T>(TypeTag<T>) { store_all<T>(data, 0, found.shape, t.data<char>()); });
  }
  return t;
}

// NumPy, through the array interface and the buffer it describes: no copy, no NumPy headers

DType dtype_of_typestring(std::string_view text) {
  FACULA_CHECK(text.size() >= 3 && text[0] != '>', ErrorKind::Type,
               "from_numpy: native byte order is expected, got dtype '", text, "'");
  struct Row {
    std::string_view code;
    DType dtype;
  };
  static constexpr Row rows[] = {{"b1", DType::Bool},      {"u1", DType::UInt8},      {"i1", DType::Int8},
                                 {"i2", DType::Int16},     {"i4", DType::Int32},      {"i8", DType::Int64},
                                 {"u2", DType::UInt16},    {"u4", DType::UInt32},     {"u8", DType::UInt64},
                                 {"f2", DType::Float16},   {"f4", DType::Float32},    {"f8", DType::Float64},
                                 {"c8", DType::Complex64}, {"c16", DType::Complex128}};
  for (const Row& row : rows) {
    if (text.substr(1) == row.code) return row.dtype;
  }
  throw_error(ErrorKind::Type, "from_numpy: can't convert an array of dtype '", text,
              "'; supported are bool, (u)int8 to 64, float16 to 64, complex64 and complex128");
}

const char* typestring_of(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "|b1";
    case DType::UInt8: return "|u1";
    case DType::Int8: return "|i1";
    case DType::Int16: return "<i2";
    case DType::Int32: return "<i4";
    case DType::Int64: return "<i8";
    case DType::UInt16: return "<u2";
    case DType::UInt32: return "<u4";
    case DType::UInt64: return "<u8";
    case DType::Float16: return "<f2";
    case DType::Float32: return "<f4";
    case DType::Float64: return "<f8";
    case DType::Complex64: return "<c8";
    case DType::Complex128: return "<c16";
    default:
      throw_error(ErrorKind::Type, "numpy: NumPy has no dtype for ", dtype, " (convert the tensor first), got ", dtype);
  }
}

void release_object(Storage* storage) {
  if (!Py_IsInitialized()) return;
  WithLock lock;
  Py_DECREF(static_cast<PyObject*>(storage->context));
}

void to_elements(Dims& steps, int64_t item) {
  for (int64_t& s : steps) {
    FACULA_CHECK(s % item == 0, ErrorKind::Value, "from_numpy: strides must be multiples of the element size ", item,
                 ", got ", s);
    s /= item;
  }
}

ArrayMemory read_interface(PyObject* array) {
  Owned interface(check(PyObject_GetAttrString(array, "__array_interface__")));
  FACULA_CHECK(PyDict_Check(interface.get()), ErrorKind::Type, "from_numpy: expected a NumPy array, got ",
               Py_TYPE(array)->tp_name);
  interface = Owned(check(PyDict_Copy(interface.get())));
  PyObject* typestring = PyDict_GetItemString(interface.get(), "typestr");
  PyObject* shape = PyDict_GetItemString(interface.get(), "shape");
  PyObject* strides = PyDict_GetItemString(interface.get(), "strides");
  PyObject* data = PyDict_GetItemString(interface.get(), "data");
  FACULA_CHECK(typestring && shape && data && PyTuple_Check(data), ErrorKind::Type,
               "from_numpy: expected a NumPy array, got ", Py_TYPE(array)->tp_name);
  ArrayMemory memory{dtype_of_typestring(arg_string(typestring)), arg_ints(shape, 0).values, Dims(),
                     static_cast<char*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0))),
                     PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1};
  if (strides && strides != Py_None) {
    memory.steps = arg_ints(strides, 0).values;
    to_elements(memory.steps, item_size(memory.dtype));
  } else {
    memory.steps = contiguous_strides(memory.sizes);
  }
  return memory;
}

ArrayMemory read_array(PyObject* array) {
  auto memory = memory_of_array(array);
  return memory ? *std::move(memory) : read_interface(array);
}

Tensor from_array(PyObject* array) {
  const auto [dtype, sizes, steps, start, read_only] = read_array(array);
  int64_t item = item_size(dtype);
  const bool some = count_elements(sizes, "from_numpy") > 0;
  const Places reach = places_of(sizes, steps, 0);
  const size_t bytes = byte_count(some ? reach.high - reach.low + 1 : Checked(0), item, "from_numpy", sizes);
  const int64_t low = (reach.low * item).get("from_numpy", "the lowest place", "strides ", steps);
  Py_INCREF(array);
  Storage* storage = borrow_storage(start + low, bytes, kCPU, release_object, array);
  storage->asks = read_only ? kReadOnly : 0;
  TensorImpl* impl = new_impl();
  impl->storage = storage;
  impl->data = start;
  impl->dtype = dtype;
  set_sizes(impl, sizes, steps);
  return Tensor::adopt(impl);
}

// A Python object that keeps a tensor's storage alive and shows it to NumPy.
PyObject* array_interface(const Tensor& t) {
  materialize_bytes(t);
  FACULA_CHECK(t.is_cpu(), ErrorKind::Type,
               "numpy: only the CPU's memory can be shared (use tensor.cpu()), got device ", t.device());
  expose_address(shared_storage(t.storage()));
  Owned shape(wrap_ints(t.sizes()));
  Dims bytes(t.strides());
  for (int64_t& s : bytes) s = wrapping_mul(s, t.item_size());
  Owned strides(wrap_ints(bytes));
  return Py_BuildValue("{s:O,s:O,s:s,s:(NO),s:i}", "shape", shape.get(), "strides", strides.get(), "typestr",
                       typestring_of(t.dtype()), "data", PyLong_FromVoidPtr(t.impl()->data),
                       t.storage()->is_read_only() ? Py_True : Py_False, "version", 3);
}

PyObject* method_array_interface(PyObject* self, PyObject*) {
  return guarded([&] { return array_interface(strided_tensor_of(self)); });
}

template <class T>
PyObject* element(const char* at) {
  if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(*at != 0);  // memory may hold more than 0 and 1
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(value);
  else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(value);
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return PyComplex_FromDoubles(value.real(), value.imag());
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return PyComplex_FromDoubles(static_cast<float>(value.re), static_cast<float>(value.im));
  else return PyFloat_FromDouble(static_cast<double>(value));
}

/// Bytes that the nested lists of a tensor take: lists, their items, and numbers that Python does not share.
template <class T>
size_t bytes_of_lists(const Tensor& t) {
  constexpr int64_t list = 72, item = 8;
  constexpr int64_t number = std::is_integral_v<T> ? (sizeof(T) == 1 ? 0 : 32) : sizeof(T) < 16 ? 24 : 32;
  Checked count = 1, bytes = 0;
  for (int64_t size : t.sizes()) {
    bytes += count * (list + Checked(size) * item);
    count *= size;
    if (size == 0) break;
  }
  bytes += count * number;
  return static_cast<size_t>(bytes.value_or(INT64_MAX));
}

/// The lists of dimension `dim` and those behind it. A list is seen by the collector when it is full.
template <class T>
PyObject* nested_list(const Tensor& t, int64_t dim, const char* at) {
  constexpr int64_t kBetweenSignals = 65536;
  if (dim == t.dim()) return check(element<T>(at));
  const int64_t size = t.size(dim), step = t.stride(dim) * t.item_size();
  Owned list(check(PyList_New(size)));
  PyObject** items = reinterpret_cast<PyListObject*>(list.get())->ob_item;
  for (int64_t from = 0; from < size; from += kBetweenSignals) {
    if (from > 0 && PyErr_CheckSignals() < 0) throw PythonError{};
    const int64_t to = std::min(size, from + kBetweenSignals);
    if (dim + 1 < t.dim()) {
      for (int64_t i = from; i < to; ++i) items[i] = nested_list<T>(t, dim + 1, at + i * step);
    } else {
      for (int64_t i = from; i < to; ++i) items[i] = check(element<T>(at + i * step));
    }
  }
  return list.release();
}

PyObject* method_tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor t = strided_tensor_of(self);
    FACULA_CHECK(!t.is_meta(), ErrorKind::Runtime, "tolist: a meta tensor has no values, got shape ", t.sizes());
    notify_region_of_value(is_floating(t.dtype()) ? "tolist" : "item");
    if (t.is_conj()) t = resolve_conj(t);
    t = t.is_cpu() ? t : ops::on_host(t);
    materialize_bytes(t);
    return visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
      cpu::check_room("tolist", bytes_of_lists<T>(t));
      return nested_list<T>(t, 0, t.data<char>());
    });
  });
}

// tensor(), as_tensor() and their relatives share this

struct Wanted {
  std::optional<DType> dtype;
  std::optional<Device> device;
};

Tensor convert(Tensor t, const Wanted& wanted, bool copy) {
  Device device = wanted.device.value_or(t.device());
  DType dtype = wanted.dtype.value_or(t.dtype());
  bool changes = dtype != t.dtype() || device != t.device();
  if (!changes && !copy) return t;
  Tensor out = empty_like(t, dtype);
  if (device != t.device()) out = empty(t.sizes(), dtype, device);
  copy_elements(out, t);
  return out;
}

}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device, bool copy) {
  Wanted wanted{dtype, device};
  if (is_plain(data)) return convert(from_sequence(data, dtype), {std::nullopt, device}, false);
  if (is_array(data)) return convert(from_array(data), wanted, copy);
  if (!is_number(data) && has_attribute(data, "__cuda_array_interface__")) {
    Owned module(check(PyImport_ImportModule("facula.cuda._interface")));
    Owned made(check(call_python(PyObject_CallMethod, module.get(), "tensor_of", "O", data)));
    return convert(tensor_of(made.get()), wanted, copy);
  }
  if (!is_number(data) && has_storage(data)) {
    const DType own = wanted.dtype.value_or(storage_dtype(data).value_or(DType::Int64));
    Storage* storage = storage_for(data, own, "tensor");
    const int64_t count = static_cast<int64_t>(storage->nbytes) / item_size(own);
    return convert(tensor_on_storage(storage, own, 0, {count}, {1}, "tensor"), {std::nullopt, device}, false);
  }
  if (has_attribute(data, "__array__") && !is_number(data)) {
    Owned array(check(call_python(PyObject_CallMethod, data, "__array__", nullptr)));
    return convert(from_array(array.get()), wanted, copy);
  }
  return convert(from_sequence(data, dtype), {std::nullopt, device}, false);
}

namespace {

PyObject* make_tensor(PyObject* data, const Wanted& wanted, bool copy, bool requires_grad, bool pinned = false) {
  Tensor t;
  if (is_tensor(data)) {
    constexpr const char* kText =
        "tensor: a copy of a tensor is better made by source.detach().clone(), with requires_grad_() where it is "
        "wanted";
    if (copy && PyErr_WarnEx(PyExc_UserWarning, kText, 1) < 0) throw PythonError{};
    const Tensor& source = operand_tensor_of(data);
    bool same =
        (!wanted.dtype || *wanted.dtype == source.dtype()) && (!wanted.device || *wanted.device == source.device());
    if (!copy && same && !requires_grad) return Py_NewRef(data);
    if (!copy) {
      t = source;
      if (wanted.dtype) t = to_dtype(t, *wanted.dtype);
      if (wanted.device) t = convert(t, {std::nullopt, wanted.device}, false);
      return wrap(std::move(t));
    }
    t = convert(source.is_conj() ? resolve_conj(source) : source, wanted, true);
  } else {
    t = tensor_from_data(data, wanted.dtype, wanted.device, copy);
  }
  if (pinned && !t.is_meta()) t = ops::pinned_copy(t);
  if (requires_grad) set_requires_grad(t, true);
  return wrap(std::move(t));
}

// tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
PyObject* tensor_with_options(PyObject* args, PyObject* kwargs) {
  if (thread_state.modes & kModePython) return call_override_with("tensor", args, kwargs);
  static const char* names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", nullptr};
  PyObject *data, *dtype = Py_None, *device = Py_None;
  int requires_grad = 0, pin_memory = 0;
  if (!parse_keywords(args, kwargs, "O|$OOpp:tensor", names, &data, &dtype, &device, &requires_grad, &pin_memory))
    return nullptr;
  return guarded([&] {
    Wanted wanted{arg_optional<DType>(dtype, to_dtype_value), arg_optional<Device>(device, to_device_value)};
    return make_tensor(data, wanted, true, requires_grad, pin_memory);
  });
}

PyObject* function_tensor(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    if (count == 1 && !names && !(thread_state.modes & kModePython)) return make_tensor(args[0], {}, true, false);
    Owned tuple(check(PyTuple_New(count))), keywords(check(PyDict_New()));
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      check(PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]));
    PyObject* made = tensor_with_options(tuple.get(), keywords.get());
    if (!made) throw PythonError{};
    return made;
  });
}

PyObject* function_as_tensor(PyObject*, PyObject* args, PyObject* kwargs) {
  if (thread_state.modes & kModePython) return call_override_with("as_tensor", args, kwargs);
  static const char* names[] = {"data", "dtype", "device", nullptr};
  PyObject *data, *dtype = Py_None, *device = Py_None;
  if (!parse_keywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype, &device)) return nullptr;
  return guarded([&] {
    Wanted wanted{arg_optional<DType>(dtype, to_dtype_value), arg_optional<Device>(device, to_device_value)};
    return make_tensor(data, wanted, false, false);
  });
}

/// Set by set_warn_always().
bool warns_always() {
  Owned settings(check(PyImport_ImportModule("facula.functions.settings")));
  Owned on(check(call_python(PyObject_CallMethod, settings.get(), "is_warn_always_enabled", nullptr)));
  return on.get() == Py_True;
}

PyObject* function_from_numpy(PyObject*, PyObject* array) {
  return guarded([&] {
    FACULA_CHECK(is_array(array), ErrorKind::Type, "from_numpy: expected a NumPy array, got ", Py_TYPE(array)->tp_name);
    Tensor t = from_array(array);
    static std::atomic<bool> warned = false;
    if (t.storage()->is_read_only() && (!warned.exchange(true) || warns_always()))
      host.warn("from_numpy: the array is non-writable; writing to the tensor raises (copy the array to write)");
    return wrap(std::move(t));
  });
}

PyObject* function_index_tensor(PyObject*, PyObject* data) {
  return guarded([&] {
    if (PyBool_Check(data)) return wrap(scalar_tensor(Scalar(data == Py_True), DType::Bool));
    Tensor t = is_array(data) ? from_array(data) : from_sequence(data, std::nullopt);
    if (t.numel() == 0 && !is_bits(t.dtype()) && !is_array(data)) t = to_dtype(t, DType::Int64);
    return wrap(std::move(t));
  });
}

PyMethodDef functions[] = {
    {"tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function_tensor)), METH_FASTCALL | METH_KEYWORDS,
     docs::functions::kTensor},
    {"as_tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function_as_tensor)),
     METH_VARARGS | METH_KEYWORDS, docs::functions::kAsTensor},
    {"from_numpy", function_from_numpy, METH_O, docs::functions::kFromNumpy},
    {"_index_tensor", function_index_tensor, METH_O, "An index given as a sequence, as a tensor."},
    {}};

PyMethodDef methods[] = {
    {"tolist", method_tolist, METH_NOARGS, docs::tensor::kTolist},
    {"_array_interface", method_array_interface, METH_NOARGS, "What NumPy needs to see the same memory."},
    {}};

}  // namespace

void init_creation(PyObject* module) {
  init_numpy_arrays();
  check(PyModule_AddFunctions(module, functions));
  for (PyMethodDef* m = methods; m->ml_name; ++m) {
    Owned descriptor(check(PyDescr_NewMethod(&TensorType, m)));
    check(PyDict_SetItemString(TensorType.tp_dict, m->ml_name, descriptor.get()));
  }
}

}  // namespace facula::python
