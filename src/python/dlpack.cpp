// DLPack in both directions, memory of CUDA that another library describes, and the buffer protocol of tensors: other
// libraries see the same memory, at constant cost.
//
// The structures are DLPack's, version 1.1 and the unversioned form before it. The exporter is given the stream of who
// will use the memory, and makes it wait for what is queued.
#include <cstring>
#include <memory>

#include "core/checked.h"
#include "cuda/device.h"
#include "cuda/stream.h"
#include "functions.h"
#include "ops/kernel_table.h"
#include "ops/out.h"
#include "ops/pinned.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/free_threading.h"
#include "python/mismatch.h"

namespace facula::python {
namespace {

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

constexpr int kCPUDevice = 1, kCUDADevice = 2, kCUDAHost = 3;
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr uint32_t kMajor = 1, kMinor = 1;
constexpr const char *kPlain = "dltensor", *kVersioned = "dltensor_versioned";

struct TypeRow {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeRow kTypes[] = {
    {DType::Int8, 0, 8},        {DType::Int16, 0, 16},          {DType::Int32, 0, 32},
    {DType::Int64, 0, 64},      {DType::UInt8, 1, 8},           {DType::UInt16, 1, 16},
    {DType::UInt32, 1, 32},     {DType::UInt64, 1, 64},         {DType::Float16, 2, 16},
    {DType::Float32, 2, 32},    {DType::Float64, 2, 64},        {DType::BFloat16, 4, 16},
    {DType::Complex32, 5, 32},  {DType::Complex64, 5, 64},      {DType::Complex128, 5, 128},
    {DType::Bool, 6, 8},        {DType::Float8E4M3FN, 10, 8},   {DType::Float8E4M3FNUZ, 11, 8},
    {DType::Float8E5M2, 12, 8}, {DType::Float8E5M2FNUZ, 13, 8},
};

DLDataType to_dl(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return {row.code, row.bits, 1};
  }
  throw_error(ErrorKind::Buffer, "__dlpack__: DLPack has no such dtype, got ", dtype);
}

DType from_dl(DLDataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  throw_error(ErrorKind::Buffer, "from_dlpack: unsupported element type, got code ", int{type.code}, ", ",
              int{type.bits}, " bits, ", type.lanes, " lanes");
}

DLDevice to_dl(Device device) {
  FACULA_CHECK(!device.is_meta(), ErrorKind::Buffer, "__dlpack__: a meta tensor has no memory, got device ", device);
  FACULA_CHECK(device.is_cpu() || device.is_cuda(), ErrorKind::Buffer,
               "__dlpack__: expected a CPU or CUDA tensor, got device ", device);
  return {device.is_cuda() ? kCUDADevice : kCPUDevice, device.index < 0 ? 0 : device.index};
}

// Export

template <class Managed>
struct Export {
  Managed managed = {};
  Tensor tensor;
  Exposure exposure;
  Dims sizes, strides;
  explicit Export(const Tensor& t) : tensor(t), exposure(t.storage()), sizes(t.sizes()), strides(t.strides()) {}
};

template <class Managed>
Managed* export_tensor(const Tensor& t) {
  materialize_bytes(t);
  auto held = std::make_unique<Export<Managed>>(t);
  held->managed.tensor = {t.impl()->data,
                          to_dl(t.device()),
                          static_cast<int32_t>(t.dim()),
                          to_dl(t.dtype()),
                          held->sizes.data(),
                          held->strides.data(),
                          0};
  held->managed.context = held.get();
  held->managed.deleter = [](Managed* m) { delete static_cast<Export<Managed>*>(m->context); };
  return &held.release()->managed;
}

template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // consumed: renamed
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (m->deleter) m->deleter(m);
}
void destroy_plain(PyObject* capsule) { destroy_capsule<DLManagedTensor>(capsule, kPlain); }
void destroy_versioned(PyObject* capsule) { destroy_capsule<DLManagedTensorVersioned>(capsule, kVersioned); }

PyObject* to_capsule(const Tensor& t, bool versioned, bool copied) {
  if (!versioned) {
    FACULA_CHECK(!t.storage()->is_read_only(), ErrorKind::Buffer,
                 "__dlpack__: a read-only tensor needs max_version >= (1, 0), got shape ", t.sizes());
    return check(PyCapsule_New(export_tensor<DLManagedTensor>(t), kPlain, destroy_plain));
  }
  auto* m = export_tensor<DLManagedTensorVersioned>(t);
  m->major = kMajor;
  m->minor = kMinor;
  m->flags = (t.storage()->is_read_only() ? kReadOnly : 0) | (copied ? kCopied : 0);
  return check(PyCapsule_New(m, kVersioned, destroy_versioned));
}

void check_exportable(const Tensor& t) {
  FACULA_CHECK(!requires_grad(t), ErrorKind::Buffer,
               "__dlpack__: a tensor that requires grad cannot be exported (use detach()), got shape ", t.sizes());
  FACULA_CHECK(!t.is_conj(), ErrorKind::Buffer,
               "__dlpack__: the values are stored as conjugates (use resolve_conj()), got shape ", t.sizes());
}

/// Makes the stream that will use the tensor wait for what is queued on it. DLPack's numbers: -1 requires nothing, 1
/// and None are the default stream, others are handles.
void order_export(const Tensor& t, PyObject* given) {
  FACULA_CHECK(given == Py_None || (PyLong_Check(given) && !PyBool_Check(given)), ErrorKind::Type,
               "__dlpack__: stream must be an int or None, got ", Py_TYPE(given)->tp_name);
  const int64_t number = given == Py_None ? 1 : to_int(given);
  if (!t.device().is_cuda()) {
    FACULA_CHECK(given == Py_None || number == -1, ErrorKind::Assertion,
                 "__dlpack__: stream is None for a tensor on the CPU, got ", number);
    return;
  }
  if (number == -1) return;
  FACULA_CHECK(number != 2, ErrorKind::Buffer,
               "__dlpack__: a thread's own default stream is not supported, got stream 2");
  FACULA_CHECK(number != 0, ErrorKind::Assertion,
               "__dlpack__: stream 0 is ambiguous on CUDA (1 is the default one), got 0");
  materialize_bytes(t);
  const Stream own = cuda::current_stream(t.device().index);
  const Stream user{t.device(), number == 1 ? 0 : static_cast<uint64_t>(number)};
  if (own.id == user.id) return;
  cuda::Event ready;
  ready.record(own);
  ready.block(user);
}

Device from_dl(DLDevice d, const char* op) {
  if (d.type == kCPUDevice || d.type == kCUDAHost) return kCPU;
  FACULA_CHECK(d.type == kCUDADevice, ErrorKind::Buffer, op,
               ": memory of the CPU or of CUDA is expected, got device type ", d.type);
  FACULA_CHECK(d.id >= 0 && d.id < cuda::device_count(), ErrorKind::Buffer, op, ": a CUDA device of the ",
               cuda::device_count(), " that there are, got number ", d.id);
  return {DeviceType::CUDA, static_cast<int8_t>(d.id)};
}

/// The tensor, or a copy of it: where `dl_device` wants it, or because `copy` does.
Tensor tensor_to_export(const Tensor& t, PyObject* dl_device, PyObject* copy, bool& copied) {
  copied = copy == Py_True;
  if (dl_device != Py_None) {
    const Dims wanted = arg_ints(dl_device, 1).values;
    FACULA_CHECK(wanted.size() == 2, ErrorKind::Buffer, "__dlpack__: dl_device is a pair (type, id), got ", wanted);
    const Device to = from_dl({static_cast<int32_t>(wanted[0]), static_cast<int32_t>(wanted[1])}, "__dlpack__");
    if (to != t.device()) {
      FACULA_CHECK(copy != Py_False, ErrorKind::Buffer, "__dlpack__: copy=False, but the values have to move to ", to,
                   ", got a tensor on ", t.device());
      copied = true;
      Tensor moved = facula::empty(t.sizes(), t.dtype(), to);
      copy_elements(moved, t);
      return moved;
    }
  }
  return copied ? clone(t) : t;
}

// __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)
PyObject* method_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!parse_keywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy)) return nullptr;
  return guarded([&] {
    const Tensor& own = strided_tensor_of(self);
    check_exportable(own);
    bool copied = false;
    const Tensor t = tensor_to_export(own, device, copy, copied);
    order_export(t, stream);
    bool versioned = version != Py_None && to_int(Owned(check(PySequence_GetItem(version, 0))).get()) >= 1;
    return to_capsule(t, versioned, copied);
  });
}

PyObject* method_dlpack_device(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    DLDevice d = to_dl(t.device());
    if (t.is_cpu() && ops::is_pinned(t.storage())) d.type = kCUDAHost;
    return Py_BuildValue("(ii)", d.type, d.id);
  });
}

PyObject* function_to_dlpack(PyObject*, PyObject* tensor) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(tensor), ErrorKind::Type, "to_dlpack: expected a Tensor, got ", Py_TYPE(tensor)->tp_name);
    check_exportable(strided_tensor_of(tensor));
    return to_capsule(tensor_of(tensor), false, false);
  });
}

// Import

template <class Managed>
void release_managed(Storage* s) {
  auto* m = static_cast<Managed*>(s->context);
  if (!m->deleter || !Py_IsInitialized()) return;
  WithLock lock;  // the owner may be a Python object
  m->deleter(m);
}

/// A tensor on memory that somebody else owns, which `release` gives back.
Tensor borrowed_tensor(char* data, DType dtype, const Dims& sizes, const Dims& strides, Device device,
                       void (*release)(Storage*), void* context, bool read_only, const char* op) {
  const bool some = count_elements(sizes, op) > 0;
  const Places reach = places_of(sizes, strides, 0);
  const int64_t item = item_size(dtype);
  const size_t bytes = byte_count(some ? reach.high - reach.low + 1 : Checked(0), item, op, sizes);
  const int64_t low = (reach.low * item).get(op, "the lowest place", "strides ", strides);
  Storage* s = borrow_storage(data + low, bytes, device, release, context);
  s->asks = read_only ? kReadOnly : 0;
  TensorImpl* impl = new_impl();
  impl->storage = s;
  impl->data = data;
  impl->dtype = dtype;
  set_sizes(impl, sizes, strides);
  return Tensor::adopt(impl);
}

template <class Managed>
Tensor import_managed(Managed* m, bool read_only) {
  const DLTensor& dl = m->tensor;
  FACULA_CHECK(dl.ndim >= 0 && dl.ndim <= 64, ErrorKind::Buffer, "from_dlpack: expected at most 64 dimensions, got ",
               dl.ndim);
  DType dtype = from_dl(dl.dtype);
  Dims sizes(IntList(dl.shape, static_cast<size_t>(dl.ndim)));
  Dims strides = dl.strides ? Dims(IntList(dl.strides, static_cast<size_t>(dl.ndim))) : contiguous_strides(sizes);
  return borrowed_tensor(static_cast<char*>(dl.data) + dl.byte_offset, dtype, sizes, strides,
                         from_dl(dl.device, "from_dlpack"), release_managed<Managed>, m, read_only, "from_dlpack");
}

// _from_dlpack(capsule): takes the capsule's tensor over
PyObject* function_from_dlpack(PyObject*, PyObject* capsule) {
  static Mutex consuming;
  return guarded([&] {
    Holding guard(consuming);
    if (PyCapsule_IsValid(capsule, kVersioned)) {
      auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
      FACULA_CHECK(m->major <= kMajor, ErrorKind::Buffer, "from_dlpack: DLPack versions up to ", kMajor,
                   ".x are understood, got ", m->major, ".", m->minor);
      Tensor t = import_managed(m, (m->flags & kReadOnly) != 0);
      check(PyCapsule_SetName(capsule, "used_dltensor_versioned"));
      return wrap(std::move(t));
    }
    FACULA_CHECK(PyCapsule_IsValid(capsule, kPlain), ErrorKind::Runtime,
                 "from_dlpack: expected an unused DLPack capsule (each can be consumed once), got ",
                 Py_TYPE(capsule)->tp_name);
    Tensor t = import_managed(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kPlain)), false);
    check(PyCapsule_SetName(capsule, "used_dltensor"));
    return wrap(std::move(t));
  });
}

void release_owner(Storage* s) {
  if (!Py_IsInitialized()) return;
  WithLock lock;
  Py_DECREF(static_cast<PyObject*>(s->context));
}

// _cuda_device_of(address): the number of the device whose memory it is
PyObject* cuda_device_of(PyObject*, PyObject* address) {
  return guarded([&] {
    int device = -1;
    const unsigned long long place = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred()) throw PythonError{};
    const CUresult result = cuda::driver().cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, place);
    FACULA_CHECK(result == CUDA_SUCCESS && device >= 0, ErrorKind::Value,
                 "__cuda_array_interface__: an address of a CUDA device's memory, got ", place);
    return PyLong_FromLong(device);
  });
}

// _cuda_tensor_at(owner, address, dtype, sizes, strides in elements, device, read only)
PyObject* cuda_tensor_at(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    FACULA_CHECK(nargs == 7 && is_dtype(args[2]), ErrorKind::Type, "_cuda_tensor_at: expected 7 arguments, got ",
                 nargs);
    const Device device = from_dl({kCUDADevice, static_cast<int32_t>(to_int(args[5]))}, "__cuda_array_interface__");
    const Dims sizes = arg_ints(args[3], 0).values, strides = arg_ints(args[4], 0).values;
    FACULA_CHECK(sizes.size() == strides.size(), ErrorKind::Value,
                 "__cuda_array_interface__: as many strides as sizes, got ", sizes, " and ", strides);
    Tensor t =
        borrowed_tensor(static_cast<char*>(PyLong_AsVoidPtr(args[1])), to_dtype_value(args[2]), sizes, strides, device,
                        release_owner, args[0], PyObject_IsTrue(args[6]) == 1, "__cuda_array_interface__");
    Py_INCREF(args[0]);
    return wrap(std::move(t));
  });
}

const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "?";
    case DType::UInt8: return "B";
    case DType::Int8: return "b";
    case DType::Int16: return "h";
    case DType::Int32: return "i";
    case DType::Int64: return sizeof(long) == 8 ? "l" : "q";  // as NumPy names its int64
    case DType::UInt16: return "H";
    case DType::UInt32: return "I";
    case DType::UInt64: return sizeof(long) == 8 ? "L" : "Q";
    case DType::Float16: return "e";
    case DType::Float32: return "f";
    case DType::Float64: return "d";
    case DType::Complex64: return "Zf";
    case DType::Complex128: return "Zd";
    default:
      throw_error(ErrorKind::Buffer, "buffer: the buffer protocol has no format for ", dtype,
                  " (convert the tensor first), got ", dtype);
  }
}

struct View {
  Tensor tensor;
  Exposure exposure;
  std::vector<Py_ssize_t> shape, strides;
  explicit View(const Tensor& t) : tensor(t), exposure(t.storage()) {}
};

void fill_view(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = strided_tensor_of(self);
  FACULA_CHECK(t.is_cpu(), ErrorKind::Buffer, "buffer: only memory of the CPU is a buffer, got device ", t.device());
  FACULA_CHECK(!requires_grad(t) && !t.is_conj(), ErrorKind::Buffer,
               "buffer: use detach() or resolve_conj() first, got shape ", t.sizes());
  FACULA_CHECK(!(flags & PyBUF_WRITABLE) || !t.storage()->is_read_only(), ErrorKind::Buffer,
               "buffer: the tensor is on read-only memory, got shape ", t.sizes());
  bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  bool wants_c =
      (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  FACULA_CHECK(t.is_contiguous() || (strided && !wants_c), ErrorKind::Buffer,
               "buffer: a contiguous tensor is expected, got strides ", t.strides());
  FACULA_CHECK((flags & PyBUF_F_CONTIGUOUS) != PyBUF_F_CONTIGUOUS || t.dim() < 2, ErrorKind::Buffer,
               "buffer: a tensor in Fortran order is expected, as requested, got shape ", t.sizes());
  const char* format = format_of(t.dtype());
  auto held = std::make_unique<View>(t);
  for (int64_t i = 0; i < t.dim(); ++i) {
    held->shape.push_back(static_cast<Py_ssize_t>(t.size(i)));
    held->strides.push_back(static_cast<Py_ssize_t>(t.stride(i) * t.item_size()));
  }
  static char nothing;
  view->buf = t.impl()->data ? t.impl()->data : &nothing;
  view->len = static_cast<Py_ssize_t>(t.numel() * t.item_size());
  view->itemsize = static_cast<Py_ssize_t>(t.item_size());
  view->readonly = t.storage()->is_read_only();
  view->ndim = flags & PyBUF_ND ? static_cast<int>(t.dim()) : 1;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? held->shape.data() : nullptr;
  view->strides = strided ? held->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = held.release();
  view->obj = Py_NewRef(self);
}

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_dlpack)), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None): a DLPack capsule of the tensor."},
    {"__dlpack_device__", method_dlpack_device, METH_NOARGS, "DLPack's (device type, device id)."},
    {}};
PyMethodDef functions[] = {
    {"to_dlpack", function_to_dlpack, METH_O, docs::functions::kToDlpack},
    {"_from_dlpack", function_from_dlpack, METH_O, "The tensor of a DLPack capsule."},
    {"_cuda_device_of", cuda_device_of, METH_O, "The number of the device whose memory an address is."},
    {"_cuda_tensor_at", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(cuda_tensor_at)), METH_FASTCALL,
     "(owner, address, dtype, sizes, strides, device, read only): a tensor on the owner's memory."},
    {}};

}  // namespace

int tensor_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    fill_view(self, view, flags);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

void release_tensor_buffer(PyObject*, Py_buffer* view) { delete static_cast<View*>(view->internal); }

void init_dlpack(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  add_tensor_methods(methods);
}

namespace {

struct Buffer {
  Py_buffer view;
  bool shared;  // in memory that other processes map too
};

void release_buffer(Storage* s) {
  auto* buffer = static_cast<Buffer*>(s->context);
  if (Py_IsInitialized()) {
    WithLock lock;
    PyBuffer_Release(&buffer->view);
  }
  delete buffer;
}

Storage* make_storage_on(PyObject* object, bool shared) {
  auto buffer = std::make_unique<Buffer>();
  buffer->shared = shared;
  Py_buffer& view = buffer->view;
  if (PyObject_GetBuffer(object, &view, PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    check(PyObject_GetBuffer(object, &view, PyBUF_SIMPLE));
  }
  Storage* s = borrow_storage(view.buf, static_cast<size_t>(view.len), kCPU, release_buffer, nullptr);
  s->asks = view.readonly ? kReadOnly : 0;
  s->context = buffer.release();
  return s;
}

}  // namespace

Storage* storage_on_buffer(PyObject* buffer) { return make_storage_on(buffer, false); }
Storage* storage_on_shared_buffer(PyObject* buffer) { return make_storage_on(buffer, true); }
bool is_on_shared_buffer(const Storage* s) {
  return s->release_data == release_buffer && static_cast<const Buffer*>(s->context)->shared;
}

}  // namespace facula::python
