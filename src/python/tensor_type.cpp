// facula.Tensor: the Python object and its identity; the rest of it is in tensor_properties.cpp and
// tensor_operators.cpp.
//
// Identity. While a PyTensor lives, its tensor's `pyobj` points to it, so that the same tensor always comes back as the
// same object. When the last Python reference goes but C++ still holds the tensor, an object with state (attributes,
// weak references, a subclass) is not freed: the tensor takes it over (`owns_pyobj`) and gives it back when it is
// wrapped again. A plain object without state is freed at once: nobody can notice. An object that its tensor owns has
// no tensor and no references, so that weak references show nothing as long, and the garbage collector does not know
// it.
//
// Several threads may wrap a tensor while its object dies in another one: who has the only reference to a tensor needs
// no lock, all others look at `pyobj` under identity_lock().
#include "python/tensor_type.h"

#include "autograd/inplace.h"
#include "core/sparse.h"
#include "core/tensor_changes.h"
#include "functions.h"
#include "python/args.h"
#include "python/bindings.h"
#include "python/dispatch.h"
#include "python/docs/types.h"
#include "python/free_threading.h"
#include "python/node_object.h"

namespace facula::python {

PyObject* parameter_class = nullptr;

namespace {

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

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(self_of(o)->dict);
  // Not the type: the traversal of a class made in Python, which calls this one, has visited it. Seen twice, a class
  // that is alive would be cleared.
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
  try {
    if (stands_in_for_kernels(reinterpret_cast<PyTypeObject*>(cls))) leave_calls_to_kernels(cls);
  } catch (...) {
    translate_exception();
    return -1;
  }
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
    classes_stand_in.store(true, std::memory_order_relaxed);
  }
  return o;
}

namespace {

/// Reports a pass that reaches the leaf of a tensor which became another one after the graph was recorded.
struct Poison final : NodeHook {
  void call(std::vector<Tensor>&, std::vector<Tensor>&) override {
    throw_error(
        ErrorKind::Runtime,
        "swap_tensors: a leaf of the graph was exchanged after the graph was recorded; compute the forward pass "
        "again, got a backward pass of the old one");
  }
};

/// The node that writes the gradient of a leaf while a graph refers to it, which holds the leaf; null otherwise.
AccumulateGrad* live_accumulator(const TensorImpl* impl) {
  AutogradMeta* meta = autograd_meta(impl);
  AccumulateGrad* node = meta ? meta->accumulator.load() : nullptr;
  return node && node->refs.load() > 0 ? node : nullptr;
}

void check_exchange(PyObject* a, PyObject* b) {
  for (PyObject* o : {a, b}) {
    const TensorImpl* impl = tensor_of(o).impl();
    const int64_t others = static_cast<int64_t>(impl->refs.load()) - 1 - (live_accumulator(impl) ? 1 : 0);
    FACULA_CHECK(others <= 0, ErrorKind::Runtime,
                 "swap_tensors: nothing but its object may refer to a tensor (no view and no saved value of a graph), "
                 "got ",
                 others, " other references");
  }
  const PyTypeObject *x = Py_TYPE(a), *y = Py_TYPE(b);
  FACULA_CHECK(x->tp_basicsize == y->tp_basicsize && x->tp_itemsize == y->tp_itemsize, ErrorKind::Runtime,
               "swap_tensors: objects of one layout are expected, got classes ", x->tp_name, " and ", y->tp_name);
}

}  // namespace

PyObject* swap_tensors(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO:_swap_tensors", &a, &b)) return nullptr;
  return guarded([&] {
    for (PyObject* o : {a, b})
      FACULA_CHECK(is_tensor(o), ErrorKind::Type, "swap_tensors: expected Tensors, got ", Py_TYPE(o)->tp_name);
    if (a == b) return Py_NewRef(Py_None);
    check_exchange(a, b);
    for (PyObject* o : {a, b})
      if (AccumulateGrad* node = live_accumulator(tensor_of(o).impl()))
        node->extra().before.add(std::make_shared<Poison>());
    ShortLock *first = &identity_lock(tensor_of(a).impl()), *second = &identity_lock(tensor_of(b).impl());
    if (second < first) std::swap(first, second);
    {
      Holding<ShortLock> outer(*first);
      std::optional<Holding<ShortLock>> inner;
      if (second != first) inner.emplace(*second);
      std::swap(self_of(a)->tensor, self_of(b)->tensor);
      std::swap(self_of(a)->dict, self_of(b)->dict);
      PyTypeObject* type = Py_TYPE(a);  // each object's reference to its class goes along
      Py_SET_TYPE(a, Py_TYPE(b));
      Py_SET_TYPE(b, type);
      for (PyObject* o : {a, b}) set_object(self_of(o)->tensor.impl(), o);
    }
    for (PyObject* o : {a, b})
      if ((self_of(o)->dict || Py_TYPE(o) != &TensorType) && !PyObject_GC_IsTracked(o)) track(o);
    return Py_NewRef(Py_None);
  });
}

void exchange_storage(TensorImpl* impl, Storage* storage) {
  notify_tensor_changes(Tensor::share(impl));
  retain(storage);
  release(std::atomic_ref(impl->storage).exchange(storage, std::memory_order_acq_rel));
}

PyObject* wrap(const std::vector<Tensor>& tensors) {
  PyObject* tuple = check(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return tuple;
}

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
  TensorType.tp_getset = tensor_properties;
  TensorType.tp_methods = tensor_methods;
  TensorType.tp_new = tensor_new;
  set_tensor_operators(TensorType);
  check(PyType_Ready(&TensorType));
  Py_INCREF(&TensorType);
  PyModule_AddObject(module, "Tensor", reinterpret_cast<PyObject*>(&TensorType));
  host.release_object = release_owned;
}

}  // namespace facula::python
