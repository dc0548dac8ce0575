// NumPy's arrays by NumPy's C interface, whose table of functions and whose first members of arrays keep their places
// in all versions since 1.7. It is looked up when the first array is seen: NumPy is loaded by then.
#include "python/numpy_arrays.h"

#include <atomic>

#include "core/checked.h"
#include "core/storage.h"
#include "python/bindings.h"
#include "python/docs/tensor.h"
#include "python/free_threading.h"

namespace facula::python {
namespace {

/// The first members of NumPy's element types.
struct ArrayDescription {
  PyObject_HEAD PyTypeObject* scalar;
  char kind, code, byte_order, flags;
  int number;
};

/// The first members of NumPy's arrays.
struct ArrayObject {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t *sizes, *strides;
  PyObject* base;
  ArrayDescription* description;
  int flags;
};

constexpr int kWritable = 0x400;

struct NumberRow {
  DType dtype;
  int number;
};
constexpr int kLong = sizeof(long) == 8 ? 7 : 9, kUnsignedLong = kLong + 1;
constexpr NumberRow kNumbers[] = {
    {DType::Bool, 0},
    {DType::Int8, 1},
    {DType::UInt8, 2},
    {DType::Int16, 3},
    {DType::UInt16, 4},
    {DType::Int32, 5},
    {DType::UInt32, 6},
    {DType::Int64, kLong},
    {DType::Float32, 11},
    {DType::Float64, 12},
    {DType::Complex64, 14},
    {DType::Complex128, 15},
    {DType::UInt64, kUnsignedLong},
    {DType::Float16, 23},
};

int number_of(DType dtype) {
  for (const NumberRow& row : kNumbers)
    if (row.dtype == dtype) return row.number;
  return -1;
}

// The table of functions, or null where this NumPy shows none.
void** load_table() {
  for (const char* name : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) {
    const Owned module(PyImport_ImportModule(name));
    const Owned capsule(module ? PyObject_GetAttrString(module.get(), "_ARRAY_API") : nullptr);
    if (capsule && PyCapsule_CheckExact(capsule.get()))
      return static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr));
    PyErr_Clear();
  }
  return nullptr;
}

void** table() {
  static std::atomic<void**> known{nullptr};
  static std::atomic<bool> is_known{false};
  if (!is_known.load(std::memory_order_acquire)) {
    known.store(load_table(), std::memory_order_relaxed);
    is_known.store(true, std::memory_order_release);
  }
  return known.load(std::memory_order_relaxed);
}

PyTypeObject* array_type(void** functions) { return static_cast<PyTypeObject*>(functions[2]); }

using MakeArray = PyObject* (*)(PyTypeObject* type, int dimensions, const Py_ssize_t* sizes, int number,
                                const Py_ssize_t* strides, void* data, int item, int flags, PyObject* like);
using SetBase = int (*)(PyObject* array, PyObject* base);

// ---- who keeps the memory of an array alive, and exposes it as long

struct MemoryOwner {
  PyObject_HEAD Storage* storage;
};

void destroy_owner(PyObject* o) {
  Storage* storage = reinterpret_cast<MemoryOwner*>(o)->storage;
  PyTypeObject* type = Py_TYPE(o);
  conceal(storage);
  release(storage);
  type->tp_free(o);
}

PyTypeObject OwnerType = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "facula._MemoryOwner";
  type.tp_doc = "Keeps the memory of a tensor for the NumPy array that shows it.";
  type.tp_basicsize = sizeof(MemoryOwner);
  type.tp_dealloc = destroy_owner;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  return type;
}();

PyObject* make_owner(Storage* storage) {
  auto* owner = PyObject_New(MemoryOwner, &OwnerType);
  if (!owner) throw PythonError{};
  owner->storage = storage;
  retain(storage);
  expose(storage);
  return reinterpret_cast<PyObject*>(owner);
}

}  // namespace

bool is_array_exact(PyObject* o) {
  void** functions = table();
  return functions && Py_TYPE(o) == array_type(functions);
}

std::optional<ArrayMemory> memory_of_array(PyObject* o) {
  if (!is_array_exact(o)) return std::nullopt;
  const auto* array = reinterpret_cast<const ArrayObject*>(o);
  const ArrayDescription* description = array->description;
  if (description->byte_order != '=' && description->byte_order != '|') return std::nullopt;
  for (const NumberRow& row : kNumbers) {
    if (row.number != description->number) continue;
    ArrayMemory memory{row.dtype, Dims(static_cast<size_t>(array->dimensions)),
                       Dims(static_cast<size_t>(array->dimensions)), array->data, !(array->flags & kWritable)};
    const int64_t item = item_size(row.dtype);
    for (size_t d = 0; d < memory.sizes.size(); ++d) {
      if (array->strides[d] % item != 0) return std::nullopt;
      memory.sizes[d] = array->sizes[d];
      memory.steps[d] = array->strides[d] / item;
    }
    return memory;
  }
  return std::nullopt;
}

PyObject* array_on(const Tensor& t) {
  materialize_bytes(t);
  constexpr int64_t kMostDimensions = 32;  // of NumPy before 2.0
  void** functions = table();
  const int number = number_of(t.dtype());
  if (!functions || number < 0 || t.dim() > kMostDimensions) return nullptr;
  const auto rank = static_cast<size_t>(t.dim());
  Py_ssize_t sizes[kMostDimensions], strides[kMostDimensions];
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = static_cast<Py_ssize_t>(t.sizes()[d]);
    strides[d] = static_cast<Py_ssize_t>(wrapping_mul(t.strides()[d], t.item_size()));
  }
  static char nothing[16];
  void* data = t.impl()->data ? t.impl()->data : nothing;
  Storage* storage = t.storage();
  Owned owner(make_owner(storage));
  Owned array(check(reinterpret_cast<MakeArray>(functions[93])(array_type(functions), static_cast<int>(rank), sizes,
                                                               number, strides, data, 0,
                                                               storage->is_read_only() ? 0 : kWritable, nullptr)));
  if (reinterpret_cast<SetBase>(functions[282])(array.get(), owner.release()) < 0) throw PythonError{};
  return array.release();
}

namespace {

/// Nothing else may have a say in it, and nothing may be in the way: the rest is in facula/_tensor.
bool shows_memory(PyObject* self) {
  if (Py_TYPE(self) != &TensorType || (thread_state.modes & kModePython)) return false;
  const Tensor& t = tensor_of(self);
  constexpr uint32_t kInTheWay = kSlowFlags & ~(kWatchBase | kRequiresGrad);
  return t.is_cpu() && (t.flags() & kInTheWay) == 0 && !requires_grad(t);
}

// numpy(*, force=False)
PyObject* method_numpy(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    if (count == 0 && !names && shows_memory(self)) {
      if (PyObject* array = array_on(tensor_of(self))) return array;
    }
    static std::atomic<PyObject*> name;
    PyObject* found = made_once(name, [] { return PyUnicode_InternFromString("_numpy"); });
    const Owned method(check(PyObject_GetAttr(self, found)));
    return check(call_python(PyObject_Vectorcall, method.get(), args, static_cast<size_t>(count), names));
  });
}

PyMethodDef methods[] = {{"numpy", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_numpy)),
                          METH_FASTCALL | METH_KEYWORDS, docs::tensor::kNumpy},
                         {}};

}  // namespace

void init_numpy_arrays() {
  if (PyType_Ready(&OwnerType) < 0) throw PythonError{};
  add_tensor_methods(methods);
}

}  // namespace facula::python
