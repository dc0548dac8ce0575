// Properties and methods of facula.Tensor that describe it, or change what it is, and compute nothing.
#include "autograd/inplace.h"
#include "core/sparse.h"
#include "functions.h"
#include "python/args.h"
#include "python/docs/properties.h"
#include "python/docs/tensor.h"
#include "python/free_threading.h"
#include "python/mismatch.h"
#include "python/node_object.h"
#include "python/record.h"
#include "python/replay.h"
#include "python/tensor_type.h"

namespace facula::python {
namespace {

void release_shared(Storage* own) {
  auto* shared = static_cast<Storage*>(own->context);
  conceal(shared);
  release(shared);
}

}  // namespace

Storage* shared_storage(Storage* storage) {
  return storage->release_data == release_shared ? static_cast<Storage*>(storage->context) : storage;
}

namespace {

template <class F>
PyObject* property(PyObject* o, F&& f) {
  return guarded([&] { return f(operand_tensor_of(o)); });
}

// Properties go through overrides as `Tensor.<name>.__get__`: those that are tensors for every subclass, the others for
// classes with an override of their own.
template <PyObject* (*F)(PyObject*, void*)>
PyObject* fact(PyObject* o, void* name) {
  if (!is_plain_tensor(o) && has_own_override(o) && !overrides_disabled())
    return call_override(static_cast<const char*>(name), true, o, nullptr, 0, nullptr);
  return F(o, nullptr);
}
template <PyObject* (*F)(PyObject*, void*)>
PyObject* result(PyObject* o, void* name) {
  if (is_overridden(o)) return call_override(static_cast<const char*>(name), true, o, nullptr, 0, nullptr);
  return F(o, nullptr);
}

PyObject* get_shape(PyObject* o, void*) {
  return guarded([&] {
    Owned recorded = recorded_sizes(o);
    return recorded ? recorded.release() : wrap_size(tensor_of(o).sizes());
  });
}
PyObject* get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(tensor_of(o).impl()); }
PyObject* get_dtype(PyObject* o, void*) { return wrap_dtype(tensor_of(o).dtype()); }
// A tensor that only wraps others has a device that its class gives out as its own.
PyObject* get_device(PyObject* o, void*) {
  static std::atomic<PyObject*> reported;
  if (__builtin_expect(tensor_of(o).flags() & kPythonDispatch, 0) && self_of(o)->dict) {
    return guarded([&] {
      PyObject* name = made_once(reported, [] { return PyUnicode_InternFromString("_reported_device"); });
      const Item device = dict_item(self_of(o)->dict, name);
      return device.get() ? device.new_reference() : wrap_device(tensor_of(o).device());
    });
  }
  return wrap_device(tensor_of(o).device());
}
PyObject* get_layout(PyObject* o, void*) { return wrap_layout(layout_of(tensor_of(o))); }
template <Layout layout>
PyObject* has_layout(PyObject* o, void*) {
  return PyBool_FromLong(layout_of(tensor_of(o)) == layout);
}
PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLongLong(tensor_of(o).dim()); }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(tensor_of(o).item_size()); }
PyObject* get_nbytes(PyObject* o, void*) {
  Owned count(PyLong_FromLongLong(tensor_of(o).numel())), item(PyLong_FromLongLong(tensor_of(o).item_size()));
  return count && item ? PyNumber_Multiply(count.get(), item.get()) : nullptr;  // an expanded tensor's may be large
}
PyObject* get_version(PyObject* o, void*) {
  return property(o, [](const Tensor& t) {
    FACULA_CHECK(!(t.flags() & kInference), ErrorKind::Runtime,
                 "_version: Inference tensors do not track version counter, got shape ", t.sizes());
    return PyLong_FromLong(t.storage()->current_version());
  });
}
PyObject* get_requires_grad(PyObject* o, void*) {
  return PyBool_FromLong((live_flags(tensor_of(o).impl()) & kRequiresGrad) != 0);
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return property(o, [](const Tensor& t) {
    return PyBool_FromLong(!(live_flags(t.impl()) & kRequiresGrad) || !grad_fn(t.impl()));
  });
}
PyObject* get_base(PyObject* o, void*) {
  TensorImpl* base = tensor_of(o).impl()->base;
  return guarded([&] { return wrap(base ? Tensor::share(base) : Tensor()); });
}
PyObject* get_grad(PyObject* o, void*) {
  return property(o, [](const Tensor& t) -> PyObject* {
    AutogradMeta* meta = autograd_meta(t.impl());
    if (meta && meta->grad_fn && !meta->retains_grad && requires_grad(t) && !grad_of(t).defined()) {
      constexpr const char* kText =
          "grad: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Backward does not fill "
          "it: use "
          "retain_grad() before, or the leaf it was computed from";
      if (replay_left_for_warning() || PyErr_WarnEx(PyExc_UserWarning, kText, 1) < 0) return nullptr;
    }
    return wrap(grad_of(t));
  });
}
PyObject* get_grad_quietly(PyObject* o, void*) {
  return property(o, [](const Tensor& t) { return wrap(grad_of(t)); });
}
int set_grad(PyObject* o, PyObject* value, void*) {
  try {
    const Tensor& t = tensor_of(o);
    if (!value || value == Py_None) {
      set_grad_of(t, Tensor());
      return 0;
    }
    FACULA_CHECK(is_tensor(value), ErrorKind::Type, "grad: expected a Tensor or None, got ", Py_TYPE(value)->tp_name);
    const Tensor& grad = tensor_of(value);
    FACULA_CHECK(grad.sizes() == t.sizes(), ErrorKind::Runtime, "grad: the gradient must have the tensor's shape ",
                 t.sizes(), ", got ", grad.sizes());
    FACULA_CHECK(grad.dtype() == t.dtype(), ErrorKind::Runtime, "grad: the gradient must have the tensor's dtype ",
                 t.dtype(), ", got ", grad.dtype());
    FACULA_CHECK(grad.device() == t.device(), ErrorKind::Runtime, "grad: the gradient must be on ", t.device(),
                 ", got ", grad.device());
    FACULA_CHECK(!grad.is_same(t), ErrorKind::Runtime, "grad: a tensor cannot be its own gradient, got shape ",
                 t.sizes());
    set_grad_of(t, grad);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
int set_requires_grad_property(PyObject* o, PyObject* value, void*) {
  try {
    FACULA_CHECK(value, ErrorKind::Runtime, "requires_grad: it cannot be deleted, set it to False");
    const AutogradMeta* meta = autograd_meta(tensor_of(o).impl());
    FACULA_CHECK(!meta || !meta->grad_fn, ErrorKind::Runtime,
                 "requires_grad: only of leaf variables the flag can be set (detach() gives one), got the result of ",
                 meta->grad_fn->name());
    set_requires_grad(tensor_of(o), to_bool(value));
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
// `.data` counts its writes apart: autograd does not see them. So it gets a storage of its own over the same bytes.
void count_apart(TensorImpl* impl) {
  Storage* shared = shared_storage(impl->storage);
  retain(shared);
  expose(shared);
  Storage* own = borrow_storage(shared->data, shared->nbytes, shared->device, release_shared, shared);
  own->asks = shared->is_read_only() ? kReadOnly : 0;
  release(impl->storage);
  impl->storage = own;
}
PyObject* get_data(PyObject* o, void*) {
  return property(o, [](const Tensor& t) {
    materialize_bytes(t);
    Tensor data = alias(t);
    if (!(t.flags() & (kBatched | kSparse))) count_apart(data.impl());  // a sparse storage is its parts
    return wrap(std::move(data));
  });
}
int set_data(PyObject* o, PyObject* value, void*) {
  try {
    FACULA_CHECK(value, ErrorKind::Runtime, "data: it cannot be deleted, delete the tensor instead");
    FACULA_CHECK(is_tensor(value), ErrorKind::Type, "data: expected a Tensor, got ", Py_TYPE(value)->tp_name);
    TensorImpl* impl = operand_tensor_of(o).impl();
    const Tensor& source = operand_tensor_of(value);
    FACULA_CHECK(!requires_grad(tensor_of(o)) || is_inexact(source.dtype()), ErrorKind::Runtime,
                 "data: a tensor that requires a gradient takes floating-point or complex values, got ",
                 source.dtype());
    materialize_bytes(tensor_of(o));
    materialize_bytes(source);
    FACULA_CHECK(layout_of(tensor_of(o)) == layout_of(source), ErrorKind::Runtime,
                 "data: the layout of the tensor, which is ", layout_of(tensor_of(o)), ", got ", layout_of(source));
    exchange_storage(impl, shared_storage(source.storage()));
    impl->data = source.impl()->data;
    impl->dtype = source.dtype();
    impl->flags = (impl->flags & ~kConjugate) | (source.flags() & kConjugate);
    if (AutogradMeta* meta = autograd_meta(impl)) {
      if (AccumulateGrad* node = meta->accumulator.load()) node->set_output(0, source);
    }
    impl->flags = (impl->flags & ~kConjugate) | (source.flags() & kConjugate);
    set_sizes(impl, source.sizes(), source.strides());
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
PyObject* get_real(PyObject* o, void*) {
  return property(o, [](const Tensor& t) { return wrap(real(t)); });
}
PyObject* get_imag(PyObject* o, void*) {
  return property(o, [](const Tensor& t) { return wrap(imag(t)); });
}
int set_part(PyObject* o, PyObject* value, Tensor (*part)(const Tensor&)) {
  try {
    FACULA_CHECK(value, ErrorKind::Runtime, "real, imag: a part of a tensor cannot be deleted");
    Owned view(wrap(part(operand_tensor_of(o))));
    Owned done(call_python(PyObject_CallMethod, view.get(), is_tensor(value) ? "copy_" : "fill_", "O", value));
    return done ? 0 : -1;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
int set_real(PyObject* o, PyObject* value, void*) { return set_part(o, value, real); }
int set_imag(PyObject* o, PyObject* value, void*) { return set_part(o, value, imag); }

Tensor reversed_dims(const Tensor& t) {
  Dims order;
  for (int64_t d = t.dim() - 1; d >= 0; --d) order.push_back(d);
  return permute(t, order);
}
Tensor swapped_last(const Tensor& t, const char* what) {
  FACULA_CHECK(t.dim() >= 2 || t.dim() == 0, ErrorKind::Runtime, what,
               ": only supported on matrices or batches of them, got ", t.dim(), "-D");
  return t.dim() == 0 ? t : transpose(t, -2, -1);
}
PyObject* get_T(PyObject* o, void*) {
  return property(o, [](const Tensor& t) { return wrap(reversed_dims(t)); });
}
PyObject* get_mT(PyObject* o, void*) {
  return property(o, [](const Tensor& t) { return wrap(swapped_last(t, "mT")); });
}
PyObject* get_H(PyObject* o, void*) {
  return property(o, [](const Tensor& t) {
    FACULA_CHECK(t.dim() == 2 || t.dim() == 0, ErrorKind::Runtime,
                 "H: only supported on matrices (2-D tensors) or 0-d ones, got a tensor of ", t.dim(), " dimensions");
    return wrap(t.is_complex() ? conj(swapped_last(t, "H")) : swapped_last(t, "H"));
  });
}
PyObject* get_mH(PyObject* o, void*) {
  return property(
      o, [](const Tensor& t) { return wrap(t.is_complex() ? conj(swapped_last(t, "mH")) : swapped_last(t, "mH")); });
}
template <bool Answer>
PyObject* get_constant(PyObject*, void*) {
  return PyBool_FromLong(Answer);
}
// Of the device that `device` gives.
template <bool (Device::*F)() const>
PyObject* is_on(PyObject* o) {
  if (!(tensor_of(o).flags() & kPythonDispatch)) return PyBool_FromLong((tensor_of(o).device().*F)());
  return guarded([&] {
    Owned shown(check(get_device(o, nullptr)));
    return PyBool_FromLong((to_device_value(shown.get()).*F)());
  });
}
PyObject* get_is_cuda(PyObject* o, void*) { return is_on<&Device::is_cuda>(o); }
PyObject* get_is_cpu(PyObject* o, void*) { return is_on<&Device::is_cpu>(o); }
PyObject* get_is_meta(PyObject* o, void*) { return PyBool_FromLong(tensor_of(o).is_meta()); }
PyObject* get_dict(PyObject* o, void* context) {
  PyObject* dict = PyObject_GenericGetDict(o, context);
  if (dict) track(o);
  return dict;
}
int set_dict(PyObject* o, PyObject* value, void* context) {
  if (!value || !PyDict_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "__dict__: expected a dict, got something else");
    return -1;
  }
  if (PyObject_GenericSetDict(o, value, context) < 0) return -1;
  track(o);
  return 0;
}

}  // namespace

PyGetSetDef tensor_properties[] = {
    {"shape", fact<get_shape>, nullptr, docs::properties::kShape, const_cast<char*>("shape.__get__")},
    {"dtype", fact<get_dtype>, nullptr, docs::properties::kDtype, const_cast<char*>("dtype.__get__")},
    {"device", fact<get_device>, nullptr, docs::properties::kDevice, const_cast<char*>("device.__get__")},
    {"layout", fact<get_layout>, nullptr, docs::properties::kLayout, const_cast<char*>("layout.__get__")},
    {"ndim", fact<get_ndim>, nullptr, docs::properties::kNdim, const_cast<char*>("ndim.__get__")},
    {"itemsize", get_itemsize, nullptr, docs::properties::kItemsize, nullptr},
    {"nbytes", get_nbytes, nullptr, docs::properties::kNbytes, nullptr},
    {"_cdata", get_cdata, nullptr, "What identifies the tensor behind the object.", nullptr},
    {"_version", get_version, nullptr, "How often the storage was written in place.", nullptr},
    {"requires_grad", fact<get_requires_grad>, set_requires_grad_property, docs::properties::kRequiresGrad,
     const_cast<char*>("requires_grad.__get__")},
    {"is_leaf", fact<get_is_leaf>, nullptr, docs::properties::kIsLeaf, const_cast<char*>("is_leaf.__get__")},
    {"_base", get_base, nullptr, "The tensor it is a view of, or None.", nullptr},
    {"grad", fact<get_grad>, set_grad, docs::properties::kGrad, const_cast<char*>("grad.__get__")},
    {"_grad", get_grad_quietly, set_grad, "As grad, without a warning where it is not retained.", nullptr},
    {"data", result<get_data>, set_data, docs::properties::kData, const_cast<char*>("data.__get__")},
    {"real", result<get_real>, set_real, docs::properties::kReal, const_cast<char*>("real.__get__")},
    {"imag", result<get_imag>, set_imag, docs::properties::kImag, const_cast<char*>("imag.__get__")},
    {"T", result<get_T>, nullptr, docs::properties::kT, const_cast<char*>("T.__get__")},
    {"mT", result<get_mT>, nullptr, docs::properties::kMT, const_cast<char*>("mT.__get__")},
    {"H", result<get_H>, nullptr, docs::properties::kH, const_cast<char*>("H.__get__")},
    {"mH", result<get_mH>, nullptr, docs::properties::kMH, const_cast<char*>("mH.__get__")},
    {"is_cuda", fact<get_is_cuda>, nullptr, docs::properties::kIsCuda, const_cast<char*>("is_cuda.__get__")},
    {"is_cpu", fact<get_is_cpu>, nullptr, docs::properties::kIsCpu, const_cast<char*>("is_cpu.__get__")},
    {"is_meta", fact<get_is_meta>, nullptr, docs::properties::kIsMeta, const_cast<char*>("is_meta.__get__")},
    {"is_sparse", has_layout<Layout::SparseCoo>, nullptr, docs::properties::kIsSparse, nullptr},
    {"is_sparse_csr", has_layout<Layout::SparseCsr>, nullptr, docs::properties::kIsSparseCsr, nullptr},
    {"is_quantized", get_constant<false>, nullptr, docs::properties::kIsQuantized, nullptr},
    {"is_nested", get_constant<false>, nullptr, docs::properties::kIsNested, nullptr},
    {"is_mkldnn", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_mps", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_xpu", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_xla", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_ipu", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_vulkan", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_maia", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_mtia", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"is_ort", get_constant<false>, nullptr, "False: there are no tensors of this kind.", nullptr},
    {"__dict__", get_dict, set_dict, nullptr, nullptr},
    {}};

namespace {

// methods that are not ops

/// The one argument of a method, by place or by name; null where it is left out or None.
PyObject* only_argument(const char* method, const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t given = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const bool known = given == n || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) == 0;
  FACULA_CHECK(given <= 1, ErrorKind::Type, method, ": expected at most ", name, ", got ", given, " arguments");
  FACULA_CHECK(known, ErrorKind::Type, method, ": expected ", name, ", got ", utf8(PyTuple_GET_ITEM(kwnames, 0)));
  return given && args[0] != Py_None ? args[0] : nullptr;
}

PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    PyObject* arg = only_argument("size", "dim", args, n, kwnames);
    if (!arg) return get_shape(self, nullptr);
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(is_int(arg), ErrorKind::Type, "size: dim is an int, got ", Py_TYPE(arg)->tp_name);
    FACULA_CHECK(t.dim() > 0, ErrorKind::Index, "size: a 0-d tensor has no dimension, got dim ", to_int(arg));
    const int64_t dim = wrap_dim(to_int(arg), t.dim(), "size");
    if (Owned recorded = recorded_sizes(self)) return check(PySequence_GetItem(recorded.get(), dim));
    return PyLong_FromLongLong(t.size(dim));
  });
}
PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    PyObject* arg = only_argument("stride", "dim", args, n, kwnames);
    const Tensor& t = strided_tensor_of(self);
    if (!arg) return wrap_ints(t.strides());
    FACULA_CHECK(is_int(arg), ErrorKind::Type, "stride: dim is an int, got ", Py_TYPE(arg)->tp_name);
    FACULA_CHECK(t.dim() > 0, ErrorKind::Index, "stride: a 0-d tensor has no dimension, got dim ", to_int(arg));
    return PyLong_FromLongLong(t.stride(wrap_dim(to_int(arg), t.dim(), "stride")));
  });
}
PyObject* method_dim(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).dim()); }
PyObject* method_numel(PyObject* self, PyObject*) {
  return guarded([&] {
    Owned recorded = recorded_sizes(self);
    if (!recorded) return PyLong_FromLongLong(tensor_of(self).numel());
    Owned total(wrap(int64_t{1}));
    for (Py_ssize_t d = 0; d < PySequence_Size(recorded.get()); ++d) {
      Owned size(check(PySequence_GetItem(recorded.get(), d)));
      total = Owned(check(PyNumber_Multiply(total.get(), size.get())));
    }
    return total.release();
  });
}
PyObject* method_storage_offset(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromLongLong(strided_tensor_of(self).storage_offset()); });
}
PyObject* method_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = strided_tensor_of(self);
    Storage* storage = shared_storage(t.storage());
    expose_address(storage);
    return PyLong_FromVoidPtr(t.numel() && storage->nbytes ? t.impl()->data : nullptr);
  });
}
PyObject* method_element_size(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).item_size()); }
PyObject* method_get_device(PyObject* self, PyObject*) { return PyLong_FromLong(tensor_of(self).device().index); }
PyObject* method_is_view(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).impl()->base != nullptr); }
PyObject* method_item(PyObject* self, PyObject*) {
  return guarded([&] {
    value_needed(tensor_of(self), "item()");
    return wrap(tensor_of(self).item());
  });
}
/// Whether a class changes what a tensor says of itself; modes do not.
bool tells_otherwise(PyObject* o) { return !is_plain_tensor(o) && has_own_override(o) && !overrides_disabled(); }

PyObject* method_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  if (tells_otherwise(self)) return call_override("is_contiguous", true, self, args, n, kwnames);
  return guarded([&] {
    PyObject* format = only_argument("is_contiguous", "memory_format", args, n, kwnames);
    if (is_coo(tensor_of(self))) return Py_NewRef(Py_False);
    const Tensor& t = strided_tensor_of(self);
    if (!format) return PyBool_FromLong(t.is_contiguous());
    FACULA_CHECK(PyObject_TypeCheck(format, &MemoryFormatType), ErrorKind::Type,
                 "is_contiguous: memory_format is a facula.memory_format, got ", Py_TYPE(format)->tp_name);
    return PyBool_FromLong(t.is_contiguous(to_memory_format(format)));
  });
}
PyObject* method_is_floating_point(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).is_floating()); }
PyObject* method_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).is_complex()); }
PyObject* method_is_signed(PyObject* self, PyObject*) { return PyBool_FromLong(is_signed(tensor_of(self).dtype())); }
PyObject* method_is_conj(PyObject* self, PyObject*) {
  if (tells_otherwise(self)) return call_override("is_conj", true, self, nullptr, 0, nullptr);
  return PyBool_FromLong(tensor_of(self).is_conj());
}
PyObject* method_is_neg(PyObject* self, PyObject*) {
  if (tells_otherwise(self)) return call_override("is_neg", true, self, nullptr, 0, nullptr);
  Py_RETURN_FALSE;
}
PyObject* method_is_inference(PyObject* self, PyObject*) {
  return PyBool_FromLong((tensor_of(self).flags() & kInference) != 0);
}
PyObject* method_requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    PyObject* wanted = only_argument("requires_grad_", "requires_grad", args, n, kwnames);
    FACULA_CHECK(wanted || n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) == 0, ErrorKind::Type,
                 "requires_grad_: requires_grad is a bool, got None");
    set_requires_grad(tensor_of(self), !wanted || to_bool(wanted));
    return Py_NewRef(self);
  });
}
PyObject* method_bump_version(PyObject* self, PyObject*) {
  count_write(tensor_of(self));
  Py_RETURN_NONE;
}

PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"cls", "data", "require_grad", nullptr};
  PyObject *cls = nullptr, *data = nullptr;
  int requires_grad = 0;
  if (!parse_keywords(args, kwargs, "OO|p:_make_subclass", names, &cls, &data, &requires_grad)) return nullptr;
  return guarded([&] {
    FACULA_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType),
                 ErrorKind::Type, "_make_subclass: cls is a subclass of Tensor, got ", Py_TYPE(cls)->tp_name);
    FACULA_CHECK(is_tensor(data), ErrorKind::Type, "_make_subclass: data is a Tensor, got ", Py_TYPE(data)->tp_name);
    Tensor made = alias(operand_tensor_of(data));
    if (requires_grad) set_requires_grad(made, true);
    return wrap_as(std::move(made), reinterpret_cast<PyTypeObject*>(cls));
  });
}

PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&] {
    FACULA_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType),
                 ErrorKind::Type, "as_subclass: cls is a subclass of Tensor, got ", Py_TYPE(cls)->tp_name);
    return wrap_as(view_as(operand_tensor_of(self), operand_tensor_of(self)), reinterpret_cast<PyTypeObject*>(cls));
  });
}

}  // namespace

PyMethodDef tensor_methods[] = {
    {"size", as_function(method_size), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kSize},
    {"stride", as_function(method_stride), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kStride},
    {"dim", method_dim, METH_NOARGS, docs::tensor::kDim},
    {"ndimension", method_dim, METH_NOARGS, docs::tensor::kNdimension},
    {"numel", method_numel, METH_NOARGS, docs::tensor::kNumel},
    {"nelement", method_numel, METH_NOARGS, docs::tensor::kNelement},
    {"storage_offset", method_storage_offset, METH_NOARGS, docs::tensor::kStorageOffset},
    {"data_ptr", method_data_ptr, METH_NOARGS, docs::tensor::kDataPtr},
    {"element_size", method_element_size, METH_NOARGS, docs::tensor::kElementSize},
    {"get_device", method_get_device, METH_NOARGS, docs::tensor::kGetDevice},
    {"_is_view", method_is_view, METH_NOARGS, "Whether it is a view."},
    {"item", method_item, METH_NOARGS, docs::tensor::kItem},
    {"is_contiguous", as_function(method_is_contiguous), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kIsContiguous},
    {"is_floating_point", method_is_floating_point, METH_NOARGS, docs::tensor::kIsFloatingPoint},
    {"is_complex", method_is_complex, METH_NOARGS, docs::tensor::kIsComplex},
    {"is_signed", method_is_signed, METH_NOARGS, docs::tensor::kIsSigned},
    {"is_conj", method_is_conj, METH_NOARGS, docs::tensor::kIsConj},
    {"is_neg", method_is_neg, METH_NOARGS, docs::tensor::kIsNeg},
    {"is_inference", method_is_inference, METH_NOARGS, docs::tensor::kIsInference},
    {"requires_grad_", as_function(method_requires_grad_), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kRequiresGrad},
    {"_bump_version", method_bump_version, METH_NOARGS, "Counts a write made behind autograd's back."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False): the data, without history, as an object of cls."},
    {"as_subclass", as_subclass, METH_O, docs::tensor::kAsSubclass},
    {}};

}  // namespace facula::python
