// facula.Tensor: the Python object, its identity, properties and operators.
//
// Identity. While a PyTensor lives, its tensor's `pyobj` points to it, so that the same tensor always comes back as the
// same object. When the last Python reference goes but C++ still holds the tensor, an object with state (attributes,
// weak references, a subclass) is not freed: the tensor takes it over (`owns_pyobj`) and gives it back when it is
// wrapped again. A plain object without state is freed at once: nobody can tell. An object that its tensor owns has no
// tensor and no references, so that weak references show nothing as long, and the garbage collector does not know it.
//
// Several threads may wrap a tensor while its object dies in another one: who has the only reference to a tensor needs
// no lock, all others look at `pyobj` under identity_lock().
#include <unordered_map>

#include "autograd/inplace.h"
#include "core/sparse.h"
#include "functions.h"
#include "op_ids_matmul.h"
#include "python/args.h"
#include "python/bindings.h"
#include "python/docs/properties.h"
#include "python/docs/tensor.h"
#include "python/docs/types.h"
#include "python/free_threading.h"
#include "python/node_object.h"
#include "python/record.h"

namespace facula::python {

PyObject* parameter_class = nullptr;

namespace {

PyTensor* self_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

// Objects without a tensor, for the next results.
constexpr int kFreeObjects = 256;
struct FreeObjects {
  PyTensor* list[kFreeObjects];
  int count = 0;
  int room = kFreeThreaded ? 0 : kFreeObjects;
};

#ifdef Py_GIL_DISABLED
FreeObjects no_objects;  // of threads that have not begun or have ended: always empty, always full
constinit thread_local FreeObjects* thread_objects __attribute__((tls_model("initial-exec"))) = &no_objects;
FreeObjects& free_objects() { return *thread_objects; }

// Those of threads that have ended: a thread cannot give memory back to Python when it ends.
ShortLock left_lock;
std::vector<PyTensor*>& left_objects() {
  static auto* list = new std::vector<PyTensor*>;  // threads may outlive static objects
  return *list;
}

struct EndOfThread {
  ~EndOfThread() {
    FreeObjects* own = std::exchange(thread_objects, &no_objects);
    if (own == &no_objects) return;
    Holding guard(left_lock);
    left_objects().insert(left_objects().end(), own->list, own->list + own->count);
    delete own;
  }
};

/// Before the first object of a thread: it gets a list, and a share of what others left.
void begin_free_objects() {
  static thread_local EndOfThread end;
  (void)&end;
  thread_objects = new FreeObjects{.room = kFreeObjects};
  Holding guard(left_lock);
  while (!left_objects().empty() && thread_objects->count < kFreeObjects / 2) {
    thread_objects->list[thread_objects->count++] = left_objects().back();
    left_objects().pop_back();
  }
}
#else
FreeObjects all_objects;
FreeObjects& free_objects() { return all_objects; }
#endif

PyObject* new_object() {
#ifdef Py_GIL_DISABLED
  if (__builtin_expect(thread_objects == &no_objects, 0)) begin_free_objects();
#endif
  if (FreeObjects& free = free_objects(); free.count > 0) {
    PyTensor* o = free.list[--free.count];
    PyObject_Init(reinterpret_cast<PyObject*>(o), &TensorType);
    allow_try_reference(reinterpret_cast<PyObject*>(o));
    return reinterpret_cast<PyObject*>(o);
  }
  auto* o = PyObject_GC_New(PyTensor, &TensorType);
  if (!o) throw PythonError{};
  new (&o->tensor) Tensor();
  o->dict = nullptr;
  o->weak_references = nullptr;
  allow_try_reference(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

ShortLock identity_locks[64];
ShortLock& identity_lock(const TensorImpl* impl) {
  return identity_locks[(reinterpret_cast<uintptr_t>(impl) >> 6) % std::size(identity_locks)];
}

void set_object(TensorImpl* impl, void* o) { std::atomic_ref<void*>(impl->pyobj).store(o, std::memory_order_relaxed); }
/// The object that `impl` points to may have been exchanged by another thread already.
void forget_object(TensorImpl* impl, PyTensor* self) {
  if (std::atomic_ref<void*>(impl->pyobj).load(std::memory_order_relaxed) == self) set_object(impl, nullptr);
}

/// True when the tensor took the object over, so that it must not be freed.
bool hand_over(PyObject* o) {
  PyTensor* self = self_of(o);
  TensorImpl* impl = self->tensor.impl();
  if (!impl || impl->refs.load() <= 1) return false;
  const bool has_state = self->dict || self->weak_references || Py_TYPE(o) != &TensorType;
  if (has_state) PyObject_GC_UnTrack(o);
  {
    Holding guard(identity_lock(impl));
    if (!has_state) {
      set_object(impl, nullptr);
      return false;
    }
    self->tensor.detach_impl();
    impl->owns_pyobj = true;
  }
  release(impl);  // C++ holds the others, or has let go of them now: then the object is gone, too
  return true;
}

/// The object that a tensor owns gets the tensor and one reference; tracked by the caller.
PyObject* take_back(Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  auto* o = static_cast<PyObject*>(impl->pyobj);
  impl->owns_pyobj = false;
  Py_SET_REFCNT(o, 1);
  self_of(o)->tensor = std::move(tensor);
  return o;
}

void clear_tensor(PyTensor* self) {
  if (TensorImpl* impl = self->tensor.impl()) {
    forget_object(impl, self);
    self->tensor = Tensor();
  }
}

void tensor_dealloc(PyObject* o) {
  if (hand_over(o)) return;
  PyTensor* self = self_of(o);
  PyObject_GC_UnTrack(o);
  if (self->weak_references) PyObject_ClearWeakRefs(o);
  Py_CLEAR(self->dict);
  clear_tensor(self);
  if (FreeObjects& free = free_objects(); Py_TYPE(o) == &TensorType && free.count < free.room) {
    free.list[free.count++] = self;
    return;
  }
  self->tensor.~Tensor();
  PyObject_GC_Del(o);
}

void clear_slots(PyTypeObject* type, PyObject* o) {
  for (; type && type != &TensorType; type = type->tp_base) {
    if (!type->tp_members) continue;
    for (PyMemberDef* m = type->tp_members; m->name; ++m) {
      if (m->type != T_OBJECT_EX || (m->flags & READONLY)) continue;
      PyObject** slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + m->offset);
      Py_CLEAR(*slot);
    }
  }
}

/// For Python subclasses; takes the place of the interpreter's own, which cannot be interrupted.
void subclass_dealloc(PyObject* o) {
  if (hand_over(o)) return;
  PyTypeObject* type = Py_TYPE(o);
  PyTensor* self = self_of(o);
  if (type->tp_finalize) {
    if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    if (PyObject_CallFinalizerFromDealloc(o) < 0) return;
  }
  PyObject_GC_UnTrack(o);
  if (self->weak_references) PyObject_ClearWeakRefs(o);
  clear_slots(type, o);
  Py_CLEAR(self->dict);
  clear_tensor(self);
  self->tensor.~Tensor();
  type->tp_free(o);
  Py_DECREF(type);
}

void release_shared(Storage* own) {
  auto* shared = static_cast<Storage*>(own->context);
  conceal(shared);
  release(shared);
}

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(self_of(o)->dict);
  if (Py_TYPE(o) != &TensorType) Py_VISIT(Py_TYPE(o));
  return self_of(o)->tensor.defined() ? visit_history(self_of(o)->tensor, visit, arg) : 0;
}

int tensor_clear(PyObject* o) {
  Py_CLEAR(self_of(o)->dict);
  if (self_of(o)->tensor.defined()) clear_python_history(self_of(o)->tensor);
  return 0;
}

void release_owned(void* pyobj) {
  WithLock lock;
  auto* o = static_cast<PyObject*>(pyobj);
  Py_SET_REFCNT(o, 1);
  Py_DECREF(o);
}

// Only an object that other objects can reach through attributes takes part in garbage collection.
int tensor_setattro(PyObject* o, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(o, name, value);
  if (status == 0 && self_of(o)->dict && !PyObject_GC_IsTracked(o)) track(o);
  return status;
}

PyObject* meta_new(PyTypeObject* meta, PyObject* args, PyObject* kwargs) {
  return PyType_Type.tp_new(meta, args, kwargs);
}

int meta_init(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  reinterpret_cast<PyTypeObject*>(cls)->tp_dealloc = subclass_dealloc;
  return 0;
}

// The interpreter calls these through slots, which a built-in type does not fill from its dict.
bool lives_in_a_slot(PyObject* name, PyObject* present) {
  if (present) return Py_TYPE(present) == &PyWrapperDescr_Type;
  for (const char* slot : {"__call__", "__next__", "__getattr__", "__getattribute__", "__del__", "__await__"})
    if (PyUnicode_CompareWithASCIIString(name, slot) == 0) return true;
  return false;
}

// Programs put methods of their own on Tensor, and replace its methods: PyTorch's is a Python class.
int meta_setattro(PyObject* cls, PyObject* name, PyObject* value) {
  if (cls != reinterpret_cast<PyObject*>(&TensorType)) return PyType_Type.tp_setattro(cls, name, value);
  Item present;
  try {
    present = dict_item(TensorType.tp_dict, name);
  } catch (const PythonError&) {
    return -1;
  }
  if (lives_in_a_slot(name, present)) {
    PyErr_Format(PyExc_TypeError, "Tensor: %U belongs to the core and can only be replaced in a subclass, got %s", name,
                 value ? Py_TYPE(value)->tp_name : "a deletion");
    return -1;
  }
  if (!value && !present) {
    PyErr_Format(PyExc_AttributeError, "type object 'Tensor' has no attribute '%U'", name);
    return -1;
  }
  const int failed = value ? PyDict_SetItem(TensorType.tp_dict, name, value) : PyDict_DelItem(TensorType.tp_dict, name);
  PyType_Modified(&TensorType);
  return failed;
}

}  // namespace

PyTypeObject TensorMetaType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject TensorType = {PyVarObject_HEAD_INIT(&TensorMetaType, 0)};

Storage* shared_storage(Storage* storage) {
  return storage->release_data == release_shared ? static_cast<Storage*>(storage->context) : storage;
}

namespace {

/// wrap() of a tensor that other threads know: null when it has no object yet and `made` is null.
PyObject* wrap_shared(Tensor& tensor, PyObject* made) {
  TensorImpl* impl = tensor.impl();
  for (;; std::this_thread::yield()) {
    PyObject* o = nullptr;
    {
      Holding guard(identity_lock(impl));
      auto* existing = static_cast<PyObject*>(impl->pyobj);
      if (!existing) {
        if (!made) return nullptr;
        set_object(impl, made);
        self_of(made)->tensor = std::move(tensor);
        return made;
      }
      if (impl->owns_pyobj) o = take_back(tensor);
      else if (try_reference(existing)) return existing;
    }
    if (!o) continue;  // it dies in another thread, which will say so
    track(o);
    return o;
  }
}

}  // namespace

PyObject* wrap(Tensor tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl) Py_RETURN_NONE;
  const bool shared = kFreeThreaded && impl->refs.load() != 1;
  if (shared) {
    if (PyObject* o = wrap_shared(tensor, nullptr)) return o;
  } else if (auto* existing = static_cast<PyObject*>(impl->pyobj)) {
    if (!impl->owns_pyobj) return Py_NewRef(existing);
    PyObject* o = take_back(tensor);
    track(o);
    return o;
  }
  if (__builtin_expect(impl->flags & kBatched, 0)) return wrap_as(std::move(tensor), batched_type());
  PyObject* o = new_object();
  if (shared) {
    PyObject* winner = wrap_shared(tensor, o);
    if (winner != o) Py_DECREF(o);
    return winner;
  }
  impl->pyobj = o;
  self_of(o)->tensor = std::move(tensor);
  return o;
}

PyObject* wrap_as(Tensor tensor, PyTypeObject* type) {
  if (type == &TensorType) return wrap(std::move(tensor));
  if (tensor.impl()->pyobj) tensor = make_view(tensor, tensor.sizes(), tensor.strides(), 0, false);
  PyObject* o = check(type->tp_alloc(type, 0));
  PyTensor* self = self_of(o);
  new (&self->tensor) Tensor(std::move(tensor));
  allow_try_reference(o);
  self->tensor.impl()->pyobj = o;
  if (reinterpret_cast<PyObject*>(type) != parameter_class && stands_in_for_kernels(type)) {
    self->tensor.impl()->flags |= kPythonDispatch;
  }
  return o;
}

void exchange_storage(TensorImpl* impl, Storage* storage) {
  retain(storage);
  release(std::atomic_ref(impl->storage).exchange(storage, std::memory_order_acq_rel));
}

PyObject* wrap(const std::vector<Tensor>& tensors) {
  PyObject* tuple = check(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return tuple;
}

// properties

namespace {

template <class F>
PyObject* property(PyObject* o, F&& f) {
  return guarded([&] { return f(settled_tensor_of(o)); });
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
      if (PyErr_WarnEx(PyExc_UserWarning, kText, 1) < 0) return nullptr;
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
    set_requires_grad(tensor_of(o), to_bool(value ? value : Py_False));
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
  own->read_only = shared->read_only;
  release(impl->storage);
  impl->storage = own;
}
PyObject* get_data(PyObject* o, void*) {
  return property(o, [](const Tensor& t) {
    Tensor data = alias(t);
    if (!(t.flags() & kBatched)) count_apart(data.impl());
    return wrap(std::move(data));
  });
}
int set_data(PyObject* o, PyObject* value, void*) {
  try {
    FACULA_CHECK(value && is_tensor(value), ErrorKind::Type, "data: expected a Tensor, got ",
                 value ? Py_TYPE(value)->tp_name : "nothing");
    TensorImpl* impl = settled_tensor_of(o).impl();
    const Tensor& source = settled_tensor_of(value);
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
    Owned view(wrap(part(settled_tensor_of(o))));
    Owned done(PyObject_CallMethod(view.get(), is_tensor(value) ? "copy_" : "fill_", "O", value));
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
  FACULA_CHECK(t.dim() >= 2 || (t.dim() == 0 && what[0] != 'm'), ErrorKind::Runtime, what,
               ": a tensor of at least two dimensions, got ", t.dim(), "-D");
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
    FACULA_CHECK(t.dim() == 2 || t.dim() == 0, ErrorKind::Runtime, "H: a matrix, got a tensor of ", t.dim(),
                 " dimensions");
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
PyObject* get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(tensor_of(o).device().is_cuda()); }
PyObject* get_is_cpu(PyObject* o, void*) { return PyBool_FromLong(tensor_of(o).is_cpu()); }
PyObject* get_is_meta(PyObject* o, void*) { return PyBool_FromLong(tensor_of(o).is_meta()); }
PyObject* get_dict(PyObject* o, void* context) {
  PyObject* dict = PyObject_GenericGetDict(o, context);
  if (dict) track(o);
  return dict;
}
int set_dict(PyObject* o, PyObject* value, void* context) {
  if (!value || !PyDict_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "__dict__: expected a dict");
    return -1;
  }
  if (PyObject_GenericSetDict(o, value, context) < 0) return -1;
  track(o);
  return 0;
}

PyGetSetDef properties[] = {
    {"shape", fact<get_shape>, nullptr, docs::properties::kShape, const_cast<char*>("shape.__get__")},
    {"dtype", fact<get_dtype>, nullptr, docs::properties::kDtype, const_cast<char*>("dtype.__get__")},
    {"device", fact<get_device>, nullptr, docs::properties::kDevice, const_cast<char*>("device.__get__")},
    {"layout", fact<get_layout>, nullptr, docs::properties::kLayout, const_cast<char*>("layout.__get__")},
    {"ndim", fact<get_ndim>, nullptr, docs::properties::kNdim, const_cast<char*>("ndim.__get__")},
    {"itemsize", get_itemsize, nullptr, docs::properties::kItemsize, nullptr},
    {"nbytes", get_nbytes, nullptr, docs::properties::kNbytes, nullptr},
    {"_version", get_version, nullptr, "How often the storage was written in place.", nullptr},
    {"requires_grad", fact<get_requires_grad>, set_requires_grad_property, docs::properties::kRequiresGrad,
     const_cast<char*>("requires_grad.__get__")},
    {"is_leaf", fact<get_is_leaf>, nullptr, docs::properties::kIsLeaf, const_cast<char*>("is_leaf.__get__")},
    {"_base", get_base, nullptr, "The tensor it is a view of, or None.", nullptr},
    {"grad", fact<get_grad>, set_grad, docs::properties::kGrad, const_cast<char*>("grad.__get__")},
    {"_grad", get_grad_quietly, set_grad, "As grad, without a warning where it is not kept.", nullptr},
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

// methods that are not ops

/// The one argument of a method, by place or by name; null where it is left out or None.
PyObject* only_argument(const char* method, const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t given = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const bool known = given == n || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) == 0;
  FACULA_CHECK(given <= 1, ErrorKind::Type, method, "(): expected at most ", name, ", got ", given, " arguments");
  FACULA_CHECK(known, ErrorKind::Type, method, "(): expected ", name, ", got ", utf8(PyTuple_GET_ITEM(kwnames, 0)));
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
    expose_address(shared_storage(t.storage()));
    return PyLong_FromVoidPtr(t.impl()->data);
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
PyObject* method_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    PyObject* format = only_argument("is_contiguous", "memory_format", args, n, kwnames);
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
PyObject* method_is_conj(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).is_conj()); }
PyObject* method_is_neg(PyObject*, PyObject*) { Py_RETURN_FALSE; }
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
  tensor_of(self).storage()->bump_version(0);
  Py_RETURN_NONE;
}

PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"cls", "data", "require_grad", nullptr};
  PyObject *cls = nullptr, *data = nullptr;
  int requires_grad = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p:_make_subclass", const_cast<char**>(names), &cls, &data,
                                   &requires_grad))
    return nullptr;
  return guarded([&] {
    FACULA_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType),
                 ErrorKind::Type, "_make_subclass: cls is a subclass of Tensor, got ", Py_TYPE(cls)->tp_name);
    FACULA_CHECK(is_tensor(data), ErrorKind::Type, "_make_subclass: data is a Tensor, got ", Py_TYPE(data)->tp_name);
    Tensor made = alias(settled_tensor_of(data));
    if (requires_grad) set_requires_grad(made, true);
    return wrap_as(std::move(made), reinterpret_cast<PyTypeObject*>(cls));
  });
}

PyObject* as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&] {
    FACULA_CHECK(PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType),
                 ErrorKind::Type, "as_subclass: cls is a subclass of Tensor, got ", Py_TYPE(cls)->tp_name);
    return wrap_as(view_as(settled_tensor_of(self), settled_tensor_of(self)), reinterpret_cast<PyTypeObject*>(cls));
  });
}

PyMethodDef methods[] = {
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

// operators

using BinaryOp = Tensor (*)(const Operand&, const Operand&);
using InplaceOp = const Tensor& (*)(const Tensor&, const Operand&);

bool plain_operand(PyObject* o) {
  return is_plain_tensor(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
}

// An operator that takes no such operands leaves them to the other one's class.
PyObject* or_not_implemented(PyObject* result) {
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

// `a + b` is the method of `a` when that is a tensor, else the reflected method of `b`.
PyObject* override_operator(const char* name, PyObject* a, PyObject* b) {
  if (is_tensor(a)) return or_not_implemented(call_override(name, true, a, &b, 1, nullptr));
  static const std::unordered_map<std::string_view, const char*> reflected = {{"add", "__radd__"},
                                                                              {"sub", "__rsub__"},
                                                                              {"mul", "__rmul__"},
                                                                              {"div", "__rtruediv__"},
                                                                              {"floor_divide", "__rfloordiv__"},
                                                                              {"remainder", "__rmod__"},
                                                                              {"bitwise_and", "__rand__"},
                                                                              {"bitwise_or", "__ror__"},
                                                                              {"bitwise_xor", "__rxor__"},
                                                                              {"bitwise_left_shift", "__rlshift__"},
                                                                              {"bitwise_right_shift", "__rrshift__"},
                                                                              {"pow", "__rpow__"},
                                                                              {"matmul", "__rmatmul__"}};
  auto found = reflected.find(name);
  if (found == reflected.end() || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return or_not_implemented(call_override(found->second, true, b, &a, 1, nullptr));
}

PyObject* binary_operator(const char* name, BinaryOp op, PyObject* a, PyObject* b) {
  bool plain = plain_operand(a) && plain_operand(b) && !(thread_state.modes & kModePython);
  if (__builtin_expect(!plain, 0)) {
    bool known_a = is_tensor(a) || is_number(a), known_b = is_tensor(b) || is_number(b);
    bool overrides_a = !is_plain_tensor(a) && has_override(a), overrides_b = !is_plain_tensor(b) && has_override(b);
    if ((!known_a && !overrides_a) || (!known_b && !overrides_b)) Py_RETURN_NOTIMPLEMENTED;
    bool overridden = overrides_a || overrides_b || (thread_state.modes & kModePython);
    if (overridden && !overrides_disabled()) return override_operator(name, a, b);
    if (!known_a || !known_b) Py_RETURN_NOTIMPLEMENTED;
  }
  return guarded([&] { return wrap(op(arg_operand<Layouts::Keep>(a), arg_operand<Layouts::Keep>(b))); });
}

PyObject* inplace_operator(const char* name, InplaceOp op, PyObject* a, PyObject* b) {
  if (!is_tensor(a)) Py_RETURN_NOTIMPLEMENTED;
  bool overridden = ((!is_plain_tensor(a) && has_override(a)) || (!is_plain_tensor(b) && has_override(b)) ||
                     (thread_state.modes & kModePython)) &&
                    !overrides_disabled();
  if (overridden) {
    return or_not_implemented(call_override(name, true, a, &b, 1, nullptr));
  }
  if (!is_tensor(b) && !is_number(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    op(tensor_of(a), arg_operand<Layouts::Keep>(b));
    return Py_NewRef(a);
  });
}

#define BINARY(slot, name, expression)                                                                           \
  PyObject* slot(PyObject* a, PyObject* b) {                                                                     \
    return binary_operator(name, [](const Operand& x, const Operand& y) -> Tensor { return expression; }, a, b); \
  }
#define INPLACE(slot, name, expression)                                                             \
  PyObject* slot(PyObject* a, PyObject* b) {                                                        \
    return inplace_operator(                                                                        \
        name, [](const Tensor& x, const Operand& y) -> const Tensor& { return expression; }, a, b); \
  }

const Scalar kOne(1);
BINARY(nb_add, "add", add(x, y, kOne))
BINARY(nb_subtract, "sub", sub(x, y, kOne))
BINARY(nb_multiply, "mul", mul(x, y))
BINARY(nb_true_divide, "div", div(x, y))
BINARY(nb_floor_divide, "floor_divide", floor_divide(x, y))
BINARY(nb_remainder, "remainder", remainder(x, y))
BINARY(nb_and, "bitwise_and", bitwise_and(x, y))
BINARY(nb_or, "bitwise_or", bitwise_or(x, y))
BINARY(nb_xor, "bitwise_xor", bitwise_xor(x, y))
BINARY(nb_lshift, "bitwise_left_shift", bitwise_left_shift(x, y))
BINARY(nb_rshift, "bitwise_right_shift", bitwise_right_shift(x, y))
BINARY(power, "pow", pow(x, y))
INPLACE(nb_inplace_add, "add_", add_(x, y, kOne))
INPLACE(nb_inplace_subtract, "sub_", sub_(x, y, kOne))
INPLACE(nb_inplace_multiply, "mul_", mul_(x, y))
INPLACE(nb_inplace_true_divide, "div_", div_(x, y))
INPLACE(nb_inplace_floor_divide, "floor_divide_", floor_divide_(x, y))
INPLACE(nb_inplace_remainder, "remainder_", remainder_(x, y))
INPLACE(nb_inplace_and, "bitwise_and_", bitwise_and_(x, y))
INPLACE(nb_inplace_or, "bitwise_or_", bitwise_or_(x, y))
INPLACE(nb_inplace_xor, "bitwise_xor_", bitwise_xor_(x, y))
INPLACE(nb_inplace_lshift, "bitwise_left_shift_", bitwise_left_shift_(x, y))
INPLACE(nb_inplace_rshift, "bitwise_right_shift_", bitwise_right_shift_(x, y))
INPLACE(inplace_power, "pow_", pow_(x, y))
PyObject* nb_power(PyObject* a, PyObject* b, PyObject*) { return power(a, b); }
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace_power(a, b); }

PyObject* nb_matrix_multiply(PyObject* a, PyObject* b) {
  bool tensors = is_tensor(a) && is_tensor(b);
  bool overridden = ((!is_plain_tensor(a) && has_override(a)) || (!is_plain_tensor(b) && has_override(b)) ||
                     (thread_state.modes & kModePython)) &&
                    !overrides_disabled();
  if (overridden) return override_operator("matmul", a, b);
  if (!tensors) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    PyObject* operands[] = {a, b};
    CompositeScope scope(op_id::matmul, operands, 2);
    return wrap(matmul(settled_tensor_of(a), settled_tensor_of(b)));
  });
}

template <class F>
PyObject* unary_operator(const char* name, PyObject* a, F&& f) {
  bool overridden =
      ((!is_plain_tensor(a) && has_override(a)) || (thread_state.modes & kModePython)) && !overrides_disabled();
  if (overridden) return call_override(name, true, a, nullptr, 0, nullptr);
  return guarded([&] { return wrap(f(tensor_of(a))); });
}
PyObject* nb_negative(PyObject* a) {
  return unary_operator("neg", a, [](const Tensor& t) { return neg(t); });
}
PyObject* nb_positive(PyObject* a) {
  return unary_operator("positive", a, [](const Tensor& t) { return positive(t); });
}
PyObject* nb_absolute(PyObject* a) {
  return unary_operator("abs", a, [](const Tensor& t) { return abs(t); });
}
PyObject* nb_invert(PyObject* a) {
  return unary_operator("bitwise_not", a, [](const Tensor& t) { return bitwise_not(t); });
}

int nb_bool(PyObject* a) {
  try {
    const Tensor& t = tensor_of(a);
    value_needed(t, "bool()");
    FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime, "bool: the truth of a Tensor with ",
                 t.numel() == 0 ? "no" : "more than one", " value is ambiguous, got shape ", t.sizes());
    return t.item().to_bool();
  } catch (...) {
    translate_exception();
    return -1;
  }
}

// int(t), float(t), complex(t): a ValueError where item() itself raises RuntimeError, as users' handlers expect.
Scalar real_item(const Tensor& t, const char* op) {
  value_needed(t, op);
  FACULA_CHECK(t.numel() == 1, ErrorKind::Value, op,
               ": only one element tensors can be converted to Python scalars, got shape ", t.sizes());
  Scalar value = t.item();
  FACULA_CHECK(!value.is_complex(), ErrorKind::Runtime, op, ": a real number, got a complex one");
  return value;
}

PyObject* nb_int(PyObject* a) {
  return guarded([&]() -> PyObject* {
    Scalar value = real_item(tensor_of(a), "int");
    if (value.is_floating()) return PyLong_FromDouble(value.to_double());
    if (value.is_bool()) return PyLong_FromLong(value.to_bool());
    return wrap(value);
  });
}
PyObject* nb_float(PyObject* a) {
  return guarded([&] { return PyFloat_FromDouble(real_item(tensor_of(a), "float").to_double()); });
}
PyObject* nb_index(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(a);
    value_needed(t, "int()");
    FACULA_CHECK(is_bits(t.dtype()) && t.numel() == 1, ErrorKind::Type,
                 "index: only integer tensors of a single element can be converted to an index, got ", t.dtype(), " ",
                 t.sizes());
    Scalar value = t.item();
    return value.is_bool() ? PyLong_FromLong(value.to_bool()) : wrap(value);
  });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      return binary_operator(
          "__eq__", [](const Operand& x, const Operand& y) -> Tensor { return eq(x.tensor(), y); }, a, b);
    case Py_NE:
      return binary_operator(
          "__ne__", [](const Operand& x, const Operand& y) -> Tensor { return ne(x.tensor(), y); }, a, b);
    case Py_LT:
      return binary_operator(
          "__lt__", [](const Operand& x, const Operand& y) -> Tensor { return lt(x.tensor(), y); }, a, b);
    case Py_LE:
      return binary_operator(
          "__le__", [](const Operand& x, const Operand& y) -> Tensor { return le(x.tensor(), y); }, a, b);
    case Py_GT:
      return binary_operator(
          "__gt__", [](const Operand& x, const Operand& y) -> Tensor { return gt(x.tensor(), y); }, a, b);
    default:
      return binary_operator(
          "__ge__", [](const Operand& x, const Operand& y) -> Tensor { return ge(x.tensor(), y); }, a, b);
  }
}

Py_hash_t identity_hash(PyObject* self) {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_HashPointer(self);
#else
  return _Py_HashPointer(self);
#endif
}

Py_ssize_t length(PyObject* self) {
  const Tensor& t = tensor_of(self);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len: a 0-d tensor has no length");
    return -1;
  }
  return static_cast<Py_ssize_t>(t.size(0));
}

PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(t.dim() > 0 && i >= 0 && i < t.size(0), ErrorKind::Index, "index: out of range for length ",
                 t.dim() ? t.size(0) : 0, ", got ", i);
    return wrap(select(t, 0, i));
  });
}

// Slots that facula/_tensor.py implements: a built-in type does not notice methods put into its dict.
PyObject* call_method_in_python(PyObject* self, const char* name, PyObject* arg = nullptr) {
  return guarded([&] {
    const Owned key(check(PyUnicode_FromString(name)));
    const Item function = dict_item(TensorType.tp_dict, key.get());
    if (!function.get())
      return PyErr_Format(PyExc_NotImplementedError, "Tensor.%s: the Python half of facula is not loaded", name);
    const Owned kept(function.new_reference());
    return PyObject_CallFunctionObjArgs(kept.get(), self, arg, nullptr);
  });
}
PyObject* repr_slot(PyObject* self) { return call_method_in_python(self, "__repr__"); }
PyObject* iter_slot(PyObject* self) { return call_method_in_python(self, "__iter__"); }
int contains_slot(PyObject* self, PyObject* element) {
  Owned answer(call_method_in_python(self, "__contains__", element));
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

PyNumberMethods number;
PyMappingMethods mapping = {length, getitem, setitem};
PySequenceMethods sequence;
PyBufferProcs buffer = {tensor_buffer, release_tensor_buffer};

}  // namespace

void init_tensor_type(PyObject* module) {
  TensorMetaType.tp_name = "facula._C._TensorMeta";
  TensorMetaType.tp_base = &PyType_Type;
  TensorMetaType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  TensorMetaType.tp_new = meta_new;
  TensorMetaType.tp_init = meta_init;
  TensorMetaType.tp_setattro = meta_setattro;
  check(PyType_Ready(&TensorMetaType));
  Py_INCREF(&TensorMetaType);
  PyModule_AddObject(module, "_TensorMeta", reinterpret_cast<PyObject*>(&TensorMetaType));

  number.nb_add = nb_add;
  number.nb_subtract = nb_subtract;
  number.nb_multiply = nb_multiply;
  number.nb_true_divide = nb_true_divide;
  number.nb_floor_divide = nb_floor_divide;
  number.nb_remainder = nb_remainder;
  number.nb_power = nb_power;
  number.nb_and = nb_and;
  number.nb_or = nb_or;
  number.nb_xor = nb_xor;
  number.nb_lshift = nb_lshift;
  number.nb_rshift = nb_rshift;
  number.nb_matrix_multiply = nb_matrix_multiply;
  number.nb_inplace_add = nb_inplace_add;
  number.nb_inplace_subtract = nb_inplace_subtract;
  number.nb_inplace_multiply = nb_inplace_multiply;
  number.nb_inplace_true_divide = nb_inplace_true_divide;
  number.nb_inplace_floor_divide = nb_inplace_floor_divide;
  number.nb_inplace_remainder = nb_inplace_remainder;
  number.nb_inplace_power = nb_inplace_power;
  number.nb_inplace_and = nb_inplace_and;
  number.nb_inplace_or = nb_inplace_or;
  number.nb_inplace_xor = nb_inplace_xor;
  number.nb_inplace_lshift = nb_inplace_lshift;
  number.nb_inplace_rshift = nb_inplace_rshift;
  number.nb_negative = nb_negative;
  number.nb_positive = nb_positive;
  number.nb_absolute = nb_absolute;
  number.nb_invert = nb_invert;
  number.nb_bool = nb_bool;
  number.nb_int = nb_int;
  number.nb_float = nb_float;
  number.nb_index = nb_index;
  sequence.sq_length = length;
  sequence.sq_item = sequence_item;
  sequence.sq_contains = contains_slot;

  TensorType.tp_name = "torch.Tensor";
  TensorType.tp_basicsize = sizeof(PyTensor);
  TensorType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  TensorType.tp_doc = docs::types::kTensor;
  TensorType.tp_dealloc = tensor_dealloc;
  TensorType.tp_traverse = tensor_traverse;
  TensorType.tp_clear = tensor_clear;
  TensorType.tp_dictoffset = offsetof(PyTensor, dict);
  TensorType.tp_weaklistoffset = offsetof(PyTensor, weak_references);
  TensorType.tp_setattro = tensor_setattro;
  TensorType.tp_getset = properties;
  TensorType.tp_methods = methods;
  TensorType.tp_as_number = &number;
  TensorType.tp_as_mapping = &mapping;
  TensorType.tp_as_sequence = &sequence;
  TensorType.tp_as_buffer = &buffer;
  TensorType.tp_new = tensor_new;
  TensorType.tp_richcompare = compare;
  TensorType.tp_hash = identity_hash;
  TensorType.tp_repr = repr_slot;
  TensorType.tp_iter = iter_slot;
  check(PyType_Ready(&TensorType));
  Py_INCREF(&TensorType);
  PyModule_AddObject(module, "Tensor", reinterpret_cast<PyObject*>(&TensorType));
  host.release_object = release_owned;
}

}  // namespace facula::python
