// facula.UntypedStorage: the bytes behind tensors as an object.
#include "python/docs/storage.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/recipe.h"
#include "core/storage_room.h"
#include "core/write.h"
#include "cpu/allocator.h"
#include "ops/kernel_table.h"
#include "python/bindings.h"
#include "python/cuda_objects.h"
#include "python/free_threading.h"
#include "python/mismatch.h"
#include "python/node_object.h"
#include "python/shared_memory.h"
#include "python/storage_object.h"

namespace facula::python {

namespace {

PyStorage* self_of(PyObject* o) { return storage_object(o); }

void release_parent(Storage* s) {
  auto* parent = static_cast<Storage*>(s->context);
  conceal(parent);
  release(parent);
}

template <class F>
PyObject* with(PyObject* o, F&& f) {
  return guarded([&] { return f(self_of(o)->storage); });
}

/// Bytes of a storage as a tensor, for kernels: only its device can touch them.
Tensor bytes_of(Storage* s, size_t from, size_t count) {
  return tensor_on_storage(s, DType::UInt8, static_cast<int64_t>(from), {static_cast<int64_t>(count)}, {1}, "storage");
}
Tensor bytes_of(Storage* s) { return bytes_of(s, 0, s->nbytes); }

void fill_bytes(const Tensor& bytes, uint8_t value) {
  if (!bytes.is_meta() && bytes.numel()) fill_kernel(bytes.device(), bytes, Scalar(value));
}

Storage* storage_with(PyObject* values, Device where) {
  Owned list(PySequence_List(values));
  FACULA_CHECK(list, ErrorKind::Type, "UntypedStorage: size is an int or a sequence of bytes, got ",
               Py_TYPE(values)->tp_name);
  Owned bytes(PyBytes_FromObject(list.get()));
  if (!bytes) PyErr_Clear();
  FACULA_CHECK(bytes, ErrorKind::Type, "UntypedStorage: a sequence of ints from 0 to 255, got ",
               Py_TYPE(values)->tp_name, " of something else");
  Storage* s = make_storage(static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())), kCPU);
  std::memcpy(s->data, PyBytes_AS_STRING(bytes.get()), s->nbytes);
  if (where.is_cpu()) return s;
  Storage* moved = make_storage(s->nbytes, where);
  if (!where.is_meta()) copy_elements(bytes_of(moved), bytes_of(s));
  release(s);
  return moved;
}

PyObject* storage_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "device", nullptr};
  PyObject *size = nullptr, *device = Py_None;
  if (!parse_keywords(args, kwargs, "|O$O:UntypedStorage", names, &size, &device)) return nullptr;
  return guarded([&] {
    FACULA_CHECK(type != &StorageBaseType, ErrorKind::Runtime,
                 "StorageBase: there is no object of this class itself, expected UntypedStorage, got a call");
    Device where = device == Py_None ? kCPU : to_device_value(device);
    if (size && !is_int(size)) return adopt_storage_as(storage_with(size, where), type);
    int64_t bytes = size ? to_int(size) : 0;
    FACULA_CHECK(bytes >= 0, ErrorKind::Runtime, "UntypedStorage: size must not be negative, got ", bytes);
    return adopt_storage_as(make_storage(static_cast<size_t>(bytes), where), type);
  });
}

PyObject* storage_nbytes(PyObject* o, PyObject*) { return PyLong_FromSize_t(self_of(o)->storage->nbytes); }
PyObject* storage_use_count(PyObject* o, PyObject*) {
  materialize_storage(self_of(o)->storage);                                         // recipes hold what they read
  return PyLong_FromLong(static_cast<long>(self_of(o)->storage->refs.load()) - 1);  // this object is one
}
PyObject* storage_data_ptr(PyObject* o, PyObject*) {
  return guarded([&] {
    Storage* s = self_of(o)->storage;
    const Tensor& origin = self_of(o)->origin;
    FACULA_CHECK(!s->device.is_meta() || !origin.defined() || !(origin.flags() & kPythonDispatch), ErrorKind::Runtime,
                 "data_ptr: the storage of a tensor whose class stands for others has no address, got one of ",
                 s->nbytes, " bytes");
    expose_address(s);
    return PyLong_FromVoidPtr(s->nbytes ? s->data : nullptr);
  });
}
PyObject* storage_element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* storage_get_device(PyObject* o, PyObject*) { return PyLong_FromLong(self_of(o)->storage->device.index); }
PyObject* storage_same(PyObject* o, PyObject*) { return Py_NewRef(o); }
PyObject* storage_is_shared(PyObject* o, PyObject*) { return PyBool_FromLong(is_shared(self_of(o)->storage)); }
// PyTorch's argument, which names the device that would use the memory: there is one kind.
void check_pinning_device(PyObject* args, const char* method) {
  FACULA_CHECK(PyTuple_GET_SIZE(args) <= 1, ErrorKind::Type, method, ": expected at most a device, got ",
               PyTuple_GET_SIZE(args), " arguments");
  if (PyTuple_GET_SIZE(args) == 0 || PyTuple_GET_ITEM(args, 0) == Py_None) return;
  const Device device = to_device_value(PyTuple_GET_ITEM(args, 0));
  FACULA_CHECK(device.is_cuda(), ErrorKind::Runtime, method, ": expected a CUDA device, got ", device);
}
PyObject* storage_is_pinned(PyObject* o, PyObject* args) {
  return with(o, [&](Storage* s) {
    check_pinning_device(args, "is_pinned");
    return PyBool_FromLong(ops::is_pinned(s));
  });
}
PyObject* storage_pin_memory(PyObject* o, PyObject* args) {
  return with(o, [&](Storage* s) {
    check_pinning_device(args, "pin_memory");
    FACULA_CHECK(s->device.is_cpu(), ErrorKind::Type, "pin_memory: only memory of the CPU can be pinned, got ",
                 s->device);
    if (ops::is_pinned(s)) return Py_NewRef(o);
    Storage* pinned = ops::pinned_storage(s->nbytes);
    copy_elements(bytes_of(pinned), bytes_of(s));
    return adopt_storage(pinned);
  });
}
PyObject* storage_resizable(PyObject* o, PyObject*) { return PyBool_FromLong(self_of(o)->storage->resizable); }
PyObject* storage_share_memory(PyObject* o, PyObject*) {
  return with(o, [&](Storage* s) {
    share_or_throw(s, self_of(o)->origin, "share_memory_");
    return Py_NewRef(o);
  });
}

Storage* copy_of(Storage* s, size_t from, size_t bytes) {
  Storage* copy = make_storage(bytes, s->device);
  copy_elements(bytes_of(copy), bytes_of(s, from, bytes));
  return copy;
}
/// The storage itself when it is there already.
PyObject* moved_to(PyObject* o, Device device) {
  return with(o, [&](Storage* s) {
    if (s->device == device) return Py_NewRef(o);
    FACULA_CHECK(!s->device.is_meta(), ErrorKind::NotImplemented, "to: a meta storage has no values to copy to ",
                 device, ", got ", s->nbytes, " bytes");
    const bool pinned = non_blocking_copies && device.is_cpu() && s->device.is_cuda();
    Storage* moved = pinned ? ops::pinned_storage(s->nbytes) : make_storage(s->nbytes, device);
    copy_elements(bytes_of(moved), bytes_of(s));
    return adopt_storage(moved);
  });
}
PyObject* storage_cpu(PyObject* o, PyObject*) { return moved_to(o, kCPU); }
PyObject* storage_to(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", "non_blocking", nullptr};
  PyObject* device;
  int non_blocking = 0;
  if (!parse_keywords(args, kwargs, "O|p:to", names, &device, &non_blocking)) return nullptr;
  return guarded([&] {
    const NonBlocking scope(non_blocking);
    return moved_to(o, concrete(to_device_value(device)));
  });
}
PyObject* storage_cuda(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", "non_blocking", nullptr};
  PyObject* given = Py_None;
  int non_blocking = 0;
  if (!parse_keywords(args, kwargs, "|Op:cuda", names, &given, &non_blocking)) return nullptr;
  return guarded([&] {
    const Device device = concrete(given == Py_None ? Device{DeviceType::CUDA} : to_device_value(given));
    FACULA_CHECK(device.is_cuda(), ErrorKind::Runtime, "cuda: expected a CUDA device, got ", device);
    const NonBlocking scope(non_blocking);
    return moved_to(o, device);
  });
}

PyObject* storage_clone(PyObject* o, PyObject*) {
  return with(o, [](Storage* s) { return adopt_storage(copy_of(s, 0, s->nbytes)); });
}

// copy.deepcopy: once per storage, so that tensors that share it still do
PyObject* storage_deepcopy(PyObject* o, PyObject* memo) {
  return guarded([&] {
    Owned key(PyLong_FromVoidPtr(o));
    if (const Item done = dict_item(memo, key.get()); done.get()) return done.new_reference();
    Owned copy(check(storage_clone(o, nullptr)));
    check(PyDict_SetItem(memo, key.get(), copy.get()));
    return copy.release();
  });
}

PyObject* storage_copy(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"source", "non_blocking", nullptr};
  PyObject* source;
  int non_blocking = 0;
  if (!parse_keywords(args, kwargs, "O|p:copy_", names, &source, &non_blocking)) return nullptr;
  return with(o, [&](Storage* s) {
    Storage* from = storage_of(source, "copy_");
    FACULA_CHECK(from->nbytes == s->nbytes, ErrorKind::Runtime, "copy_: the source must have ", s->nbytes,
                 " bytes, got ", from->nbytes);
    check_has_values(bytes_of(from), s->device, "copy_");
    const WriteScope write(s, "copy_");
    if (s->device.is_cpu() && from->device.is_cpu()) {  // slices of one storage may overlap
      if (s->nbytes) std::memmove(s->data, from->data, s->nbytes);
    } else {
      const NonBlocking scope(non_blocking);
      copy_elements(bytes_of(s), bytes_of(from));
    }
    return Py_NewRef(o);
  });
}

PyObject* storage_fill(PyObject* o, PyObject* value) {
  return with(o, [&](Storage* s) {
    const auto byte = static_cast<uint8_t>(to_int(value));
    const WriteScope write(s, "fill_");
    fill_bytes(bytes_of(s), byte);
    return Py_NewRef(o);
  });
}

PyObject* storage_resize(PyObject* o, PyObject* size) {
  return with(o, [&](Storage* s) {
    int64_t bytes = to_int(size);
    FACULA_CHECK(bytes >= 0, ErrorKind::Runtime, "resize_: size must not be negative, got ", bytes);
    const size_t wanted = static_cast<size_t>(bytes);
    if (wanted == s->nbytes || (wanted > s->nbytes && resize_storage_in_place(s, wanted))) return Py_NewRef(o);
    Tensor& origin = self_of(o)->origin;
    if (origin.defined() && origin.impl()->refs.load() == 1) origin = Tensor();  // nobody but this object has it
    auto impls = all_holders(s, origin);
    if (wanted < s->nbytes && !(impls && all_fit(*impls, s, wanted))) {
      if (resize_storage_in_place(s, wanted)) return Py_NewRef(o);  // tensors stay where they are
    }
    FACULA_CHECK(impls, ErrorKind::Runtime,
                 "resize_: other tensors are on this storage and cannot follow it when it grows from ", s->nbytes,
                 " bytes (resize before making views, or clone), got ", bytes);
    char* before = s->data;
    resize_storage(s, wanted);
    move_holders(*impls, before, s->data);
    return Py_NewRef(o);
  });
}

PyObject* storage_tolist(PyObject* o, PyObject*) {
  return with(o, [&](Storage* s) {
    cpu::check_room("tolist", static_cast<size_t>((Checked(static_cast<int64_t>(s->nbytes)) * 8).value_or(INT64_MAX)));
    Owned view(check(PyMemoryView_FromObject(o)));
    return check(call_python(PyObject_CallMethod, view.get(), "tolist", nullptr));
  });
}

// Methods written in Python, in facula/storage.py.

template <size_t N>
struct Text {
  constexpr Text(const char (&text)[N]) { std::copy_n(text, N, chars); }
  char chars[N];
};

PyObject* storage_function(const char* name) {
  Owned module(PyImport_ImportModule("facula.storage"));
  return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}

template <Text name>
PyObject* in_python(PyObject* o, PyObject* args, PyObject* kwargs) {
  Owned function(storage_function(name.chars));
  Owned self(function && o ? PyTuple_Pack(1, o) : nullptr);
  if (!function || (o && !self)) return nullptr;
  Owned all(o ? PySequence_Concat(self.get(), args) : Py_NewRef(args));
  return all ? call_python(PyObject_Call, function.get(), all.get(), kwargs) : nullptr;
}

PyObject* storage_reduce(PyObject* o, PyObject*) {
  Owned function(storage_function("reduce_untyped"));
  return function ? call_python(PyObject_CallOneArg, function.get(), o) : nullptr;
}

template <Text name>
PyObject* cast_to(PyObject* o, PyObject*) {
  Owned function(storage_function("_cast"));
  return function ? call_python(PyObject_CallFunction, function.get(), "Os", o, name.chars) : nullptr;
}

PyObject* storage_iter(PyObject* o) {
  Owned list(call_python(PyObject_CallMethod, o, "tolist", nullptr));
  return list ? PyObject_GetIter(list.get()) : nullptr;
}

// Each element's bytes in reverse order: what was written on a machine of the other order.
PyObject* storage_byteswap(PyObject* o, PyObject* dtype) {
  return with(o, [&](Storage* s) {
    FACULA_CHECK(is_dtype(dtype), ErrorKind::Type, "byteswap: expected a dtype, got ", Py_TYPE(dtype)->tp_name);
    const DType d = to_dtype_value(dtype);
    const size_t unit = static_cast<size_t>(item_size(d)) / (is_complex(d) ? 2 : 1);
    FACULA_CHECK(s->device.is_cpu(), ErrorKind::Runtime, "byteswap: expected memory of the CPU, got device ",
                 s->device);
    const WriteScope write(s, "byteswap");
    for (size_t at = 0; unit > 1 && at + unit <= s->nbytes; at += unit) std::reverse(s->data + at, s->data + at + unit);
    return Py_NewRef(Py_None);
  });
}

PyObject* storage_sizeof(PyObject* o, PyObject*) {
  return PyLong_FromSize_t(sizeof(PyStorage) + self_of(o)->storage->nbytes);
}

PyObject* get_device(PyObject* o, void*) { return wrap_device(self_of(o)->storage->device); }
PyObject* get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(self_of(o)->storage); }
PyObject* get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->storage->device.is_cuda()); }
PyObject* get_is_cpu(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->storage->device.is_cpu()); }
PyObject* get_no(PyObject*, void*) { Py_RETURN_FALSE; }

PyObject* storage_repr(PyObject* o) {
  Owned device(wrap_device(self_of(o)->storage->device));
  Owned text(PyObject_Str(device.get()));
  return PyUnicode_FromFormat("<torch.UntypedStorage of %zd bytes on %U>",
                              static_cast<Py_ssize_t>(self_of(o)->storage->nbytes), text.get());
}

Py_ssize_t storage_length(PyObject* o) { return static_cast<Py_ssize_t>(self_of(o)->storage->nbytes); }

Py_ssize_t checked_index(const Storage* s, PyObject* key) {
  int64_t i = to_int(key), n = static_cast<int64_t>(s->nbytes);
  FACULA_CHECK(i >= -n && i < n, ErrorKind::Index, "UntypedStorage: index out of range for ", n, " bytes, got ", i);
  return i < 0 ? i + n : i;
}

struct Range {
  Py_ssize_t start, count;
};
Range checked_slice(const Storage* s, PyObject* key) {
  Py_ssize_t start, stop, step;
  check(PySlice_Unpack(key, &start, &stop, &step));
  Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(s->nbytes), &start, &stop, step);
  FACULA_CHECK(step == 1, ErrorKind::Value, "UntypedStorage: slices have a step of 1, got ", step);
  return {start, count};
}

PyObject* storage_item(PyObject* o, PyObject* key) {
  return with(o, [&](Storage* s) {
    FACULA_CHECK(s->data || !s->nbytes, ErrorKind::NotImplemented, "UntypedStorage: a meta storage has no values, got ",
                 s->nbytes, " bytes");
    if (!PySlice_Check(key))
      return PyLong_FromLongLong(bytes_of(s, static_cast<size_t>(checked_index(s, key)), 1).item().to_int());
    Range r = checked_slice(s, key);
    retain(s);
    expose(s);
    Storage* part = borrow_storage(s->data + r.start, static_cast<size_t>(r.count), s->device, release_parent, s);
    part->asks = s->is_read_only() ? kReadOnly : 0;
    return adopt_storage(part);
  });
}

int storage_assign(PyObject* o, PyObject* key, PyObject* value) {
  try {
    Storage* s = self_of(o)->storage;
    FACULA_CHECK(value, ErrorKind::Type, "UntypedStorage: bytes cannot be deleted, got del");
    Range r = PySlice_Check(key) ? checked_slice(s, key) : Range{checked_index(s, key), 1};
    const auto byte = static_cast<uint8_t>(to_int(value));
    const WriteScope write(s, "UntypedStorage");
    fill_bytes(bytes_of(s, static_cast<size_t>(r.start), static_cast<size_t>(r.count)), byte);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

int storage_buffer(PyObject* o, Py_buffer* view, int flags) {
  Storage* s = self_of(o)->storage;
  if (!s->device.is_cpu()) {
    PyErr_SetString(PyExc_BufferError, "UntypedStorage: only memory of the CPU is a buffer");
    return -1;
  }
  static char nothing;
  const int rc = PyBuffer_FillInfo(view, o, s->data ? s->data : &nothing, static_cast<Py_ssize_t>(s->nbytes),
                                   s->is_read_only(), flags);
  if (rc == 0) view->internal = new Exposure(s);
  return rc;
}

void release_storage_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exposure*>(view->internal); }

PyObject* storage_compare(PyObject* a, PyObject* b, int op) {
  if (!is_storage(a) || !is_storage(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((self_of(a)->storage == self_of(b)->storage) == (op == Py_EQ));
}
Py_hash_t storage_hash(PyObject* o) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self_of(o)->storage) >> 4);
}

template <class F>
PyCFunction keywords(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyObject* storage_nothing(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* get_filename(PyObject* o, void*) {
  Owned function(storage_function("_filename_of"));
  return function ? call_python(PyObject_CallOneArg, function.get(), o) : nullptr;
}

PyMethodDef storage_methods[] = {
    {"nbytes", storage_nbytes, METH_NOARGS, docs::storage::kNbytes},
    {"size", storage_nbytes, METH_NOARGS, docs::storage::kSize},
    {"_use_count", storage_use_count, METH_NOARGS, "How many tensors and other storages hold the bytes."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, docs::storage::kDataPtr},
    {"element_size", storage_element_size, METH_NOARGS, docs::storage::kElementSize},
    {"get_device", storage_get_device, METH_NOARGS, docs::storage::kGetDevice},
    {"untyped", storage_same, METH_NOARGS, docs::storage::kUntyped},
    {"cpu", storage_cpu, METH_NOARGS, docs::storage::kCpu},
    {"cuda", keywords(storage_cuda), METH_VARARGS | METH_KEYWORDS, docs::storage::kCuda},
    {"to", keywords(storage_to), METH_VARARGS | METH_KEYWORDS, docs::storage::kTo},
    {"is_shared", storage_is_shared, METH_NOARGS, docs::storage::kIsShared},
    {"is_pinned", storage_is_pinned, METH_VARARGS, docs::storage::kIsPinned},
    {"pin_memory", storage_pin_memory, METH_VARARGS, docs::storage::kPinMemory},
    {"resizable", storage_resizable, METH_NOARGS, docs::storage::kResizable},
    {"share_memory_", storage_share_memory, METH_NOARGS, docs::storage::kShareMemory},
    {"clone", storage_clone, METH_NOARGS, docs::storage::kClone},
    {"__copy__", storage_clone, METH_NOARGS, nullptr},
    {"__deepcopy__", storage_deepcopy, METH_O, nullptr},
    {"copy_", keywords(storage_copy), METH_VARARGS | METH_KEYWORDS, docs::storage::kCopy},
    {"fill_", storage_fill, METH_O, docs::storage::kFill},
    {"resize_", storage_resize, METH_O, docs::storage::kResize},
    {"tolist", storage_tolist, METH_NOARGS, docs::storage::kTolist},
    {"from_buffer", keywords(in_python<"untyped_from_buffer">), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     docs::storage::kFromBuffer},
    {"from_file", keywords(in_python<"untyped_from_file">), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     docs::storage::kFromFile},
    {"_new_shared", keywords(in_python<"_new_shared">), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "A new storage of as many bytes in memory that other processes can map."},
    {"new", keywords(in_python<"_new_empty">), METH_VARARGS | METH_KEYWORDS, docs::storage::kNew},
    {"type", keywords(in_python<"_type_of">), METH_VARARGS | METH_KEYWORDS, docs::storage::kType},
    {"byteswap", storage_byteswap, METH_O, docs::storage::kByteswap},
    {"_fix_weakref", storage_nothing, METH_NOARGS, "Nothing: weak references are right."},
#define CAST(name, dtype) {name, cast_to<dtype>, METH_NOARGS, docs::storage::kCast},
    CAST("bfloat16", "bfloat16") CAST("bool", "bool") CAST("byte", "uint8") CAST("char", "int8")
        CAST("complex_double", "complex128") CAST("complex_float", "complex64") CAST("double", "float64")
            CAST("float", "float32") CAST("float8_e4m3fn", "float8_e4m3fn") CAST("float8_e4m3fnuz", "float8_e4m3fnuz")
                CAST("float8_e5m2", "float8_e5m2") CAST("float8_e5m2fnuz", "float8_e5m2fnuz") CAST("half", "float16")
                    CAST("int", "int32") CAST("long", "int64") CAST("short", "int16")
#undef CAST
                        {"__reduce__", storage_reduce, METH_NOARGS, nullptr},
    {"__sizeof__", storage_sizeof, METH_NOARGS, nullptr},
    {}};
PyGetSetDef storage_properties[] = {
    {"device", get_device, nullptr, "Where the bytes are.", nullptr},
    {"_cdata", get_cdata, nullptr, "What two objects share exactly when they are the same memory.", nullptr},
    {"is_cuda", get_is_cuda, nullptr, "On a CUDA device.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, "On the CPU.", nullptr},
    {"is_hpu", get_no, nullptr, "False.", nullptr},
    {"is_sparse", get_no, nullptr, "False.", nullptr},
    {"is_sparse_csr", get_no, nullptr, "False.", nullptr},
    {"filename", get_filename, nullptr, "The file that the bytes are mapped from, None where there is none.", nullptr},
    {}};
PyMappingMethods storage_mapping = {storage_length, storage_item, storage_assign};
PyBufferProcs storage_buffer_procs = {storage_buffer, release_storage_buffer};

}  // namespace

void init_storage(PyObject* module) {
  init_storage_object(module);
  StorageType.tp_doc = docs::storage::kUntypedStorage;
  StorageBaseType.tp_new = storage_new;
  StorageType.tp_new = storage_new;
  StorageType.tp_iter = storage_iter;
  StorageType.tp_repr = storage_repr;
  StorageType.tp_hash = storage_hash;
  StorageType.tp_richcompare = storage_compare;
  StorageType.tp_as_mapping = &storage_mapping;
  StorageType.tp_as_buffer = &storage_buffer_procs;
  StorageType.tp_methods = storage_methods;
  StorageType.tp_getset = storage_properties;
  check(PyType_Ready(&StorageBaseType));
  check(PyType_Ready(&StorageType));
  Py_INCREF(&StorageType);
  PyModule_AddObject(module, "UntypedStorage", reinterpret_cast<PyObject*>(&StorageType));
  init_storage_functions(module);
}

}  // namespace facula::python
