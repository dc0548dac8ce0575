// Identity. The object of a storage is found in a map, so that a storage always comes back as the same object. When the
// last Python reference goes but tensors still hold the bytes, an object with state (attributes, weak references, a
// subclass) is not freed: the storage takes it over, with the one reference that is left, and lets go of it when it
// dies. A program that comes back to the object through a weak reference meanwhile makes the storage outlive its
// tensors. A plain object without state is freed at once: nobody can notice.
#include "python/storage_object.h"

#include <unistd.h>

#include <unordered_map>

#include "core/host.h"
#include "core/storage_owner.h"
#include "python/bindings.h"
#include "python/docs/storage.h"
#include "python/free_threading.h"

namespace facula::python {

PyTypeObject StorageBaseType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject StorageType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyTypeObject StorageMetaType = {PyVarObject_HEAD_INIT(nullptr, 0)};

struct Entry {
  PyObject* object;
  bool owned;  // by the storage: the object holds no reference to it
};

ShortLock objects_lock;
std::unordered_map<Storage*, Entry>& objects() {
  static auto* map = new std::unordered_map<Storage*, Entry>;  // outlives the interpreter's teardown
  return *map;
}

/// Objects that hold the storage.
size_t count_objects(Storage* storage) {
  Holding guard(objects_lock);
  const auto found = objects().find(storage);
  return found != objects().end() && !found->second.owned;
}

/// The object that a storage has already; with `from`, the tensor that it is taken from now.
PyObject* present_object(Storage* storage, Tensor& from) {
  const auto found = objects().find(storage);
  if (found == objects().end()) return nullptr;
  Entry& entry = found->second;
  if (entry.owned) {  // the storage's reference becomes the caller's
    entry.owned = false;
    storages_with_objects.fetch_sub(1);
    retain(storage);
  } else if (!try_reference(entry.object)) {
    return nullptr;  // one that dies is replaced
  }
  if (from.defined()) std::swap(storage_object(entry.object)->origin, from);
  return entry.object;
}

PyObject* new_object(Storage* storage, PyTypeObject* type) {
  PyObject* o = check(type->tp_alloc(type, 0));
  allow_try_reference(o);
  retain(storage);
  PyStorage* self = storage_object(o);
  self->storage = storage;
  new (&self->origin) Tensor();
  self->copy_fd = -1;
  return o;
}

/// True when the storage took the object over, so that it must not be freed.
bool hand_over(PyObject* o) {
  PyStorage* self = storage_object(o);
  Storage* storage = self->storage;
  self->origin = Tensor();
  const bool has_state = self->dict || self->weak_references || Py_TYPE(o) != &StorageType;
  if (!storage || !has_state || storage->refs.load() <= 1) return false;
  {
    Holding guard(objects_lock);
    const auto found = objects().find(storage);
    if (found == objects().end() || found->second.object != o) return false;  // there is another object now
    found->second.owned = true;
    storages_with_objects.fetch_add(1);
  }
  watch_end(storage);
  Py_SET_REFCNT(o, 1);
  release(storage);  // tensors hold it, or have let go of it now: then the object is gone, too
  return true;
}

bool release_owned(Storage* storage) {
  if (!Py_IsInitialized()) return true;
  WithLock lock;
  PyObject* o;
  {
    Holding guard(objects_lock);
    const auto found = objects().find(storage);
    if (found == objects().end() || !found->second.owned) return true;
    o = found->second.object;
    storages_with_objects.fetch_sub(1);
    if (Py_REFCNT(o) > 1) {  // through a weak reference: the object keeps the storage from now on
      storage->refs.set(1);
      found->second.owned = false;
    } else {
      objects().erase(found);
      // a thread that finds the object in this moment must find a storage in it
      storage_object(o)->storage = kFreeThreaded ? make_storage(0, kCPU) : nullptr;
      storage = nullptr;
    }
  }
  Py_DECREF(o);
  return storage == nullptr;
}

void free_parts(PyObject* o) {
  PyStorage* self = storage_object(o);
  if (Storage* storage = self->storage) {
    {
      Holding guard(objects_lock);
      const auto found = objects().find(storage);
      if (found != objects().end() && found->second.object == o) objects().erase(found);
    }
    self->storage = nullptr;
    self->origin.~Tensor();
    release(storage);
  } else {
    self->origin.~Tensor();
  }
  if (self->copy_fd >= 0) close(self->copy_fd);
}

void clear_slots(PyTypeObject* type, PyObject* o) {
  for (; type && type != &StorageType && type != &StorageBaseType; type = type->tp_base) {
    if (!type->tp_members) continue;
    for (PyMemberDef* m = type->tp_members; m->name; ++m) {
      if (m->type != T_OBJECT_EX || (m->flags & READONLY)) continue;
      Py_CLEAR(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + m->offset));
    }
  }
}

/// Of all classes: subclasses' own would have let go of attributes before anybody could take the object over.
void storage_dealloc(PyObject* o) {
  if (hand_over(o)) return;
  PyTypeObject* type = Py_TYPE(o);
  const bool derived = type->tp_flags & Py_TPFLAGS_HEAPTYPE;
  if (derived && type->tp_finalize) {
    if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    if (PyObject_CallFinalizerFromDealloc(o) < 0) return;
  }
  PyObject_GC_UnTrack(o);
  if (storage_object(o)->weak_references) PyObject_ClearWeakRefs(o);
  if (derived) clear_slots(type, o);
  Py_CLEAR(storage_object(o)->dict);
  free_parts(o);
  type->tp_free(o);
  if (derived) Py_DECREF(type);
}

int storage_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(storage_object(o)->dict);
  return 0;
}

int storage_clear(PyObject* o) {
  Py_CLEAR(storage_object(o)->dict);
  return 0;
}

PyObject* meta_new(PyTypeObject* meta, PyObject* args, PyObject* kwargs) {
  return PyType_Type.tp_new(meta, args, kwargs);
}

int meta_init(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  reinterpret_cast<PyTypeObject*>(cls)->tp_dealloc = storage_dealloc;
  return 0;
}

}  // namespace

PyObject* wrap_storage(Storage* storage, const Tensor& origin) {
  Tensor from = origin;  // and then the one before, which dies outside of the lock
  {
    Holding guard(objects_lock);
    if (PyObject* o = present_object(storage, from)) return o;
  }
  Owned made(new_object(storage, &StorageType));
  storage_object(made.get())->origin = origin;
  Holding guard(objects_lock);
  if (PyObject* o = present_object(storage, from)) return o;  // another thread was faster; `made` dies after the lock
  objects()[storage] = {made.get(), false};
  return made.release();
}

PyObject* adopt_storage(Storage* storage) {
  PyObject* o = wrap_storage(storage);
  release(storage);
  return o;
}

PyObject* adopt_storage_as(Storage* storage, PyTypeObject* type) {
  if (type == &StorageType) return adopt_storage(storage);
  Owned made(new_object(storage, type));
  release(storage);
  Holding guard(objects_lock);
  objects()[storage] = {made.get(), false};
  return made.release();
}

void init_storage_object(PyObject* module) {
  host.storage_objects = count_objects;
  release_storage_object = release_owned;
  StorageMetaType.tp_name = "facula._C._StorageMeta";
  StorageMetaType.tp_base = &PyType_Type;
  StorageMetaType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  StorageMetaType.tp_new = meta_new;
  StorageMetaType.tp_init = meta_init;
  check(PyType_Ready(&StorageMetaType));

  for (PyTypeObject* type : {&StorageBaseType, &StorageType}) {
    Py_SET_TYPE(reinterpret_cast<PyObject*>(type), &StorageMetaType);
    type->tp_basicsize = sizeof(PyStorage);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    type->tp_dealloc = storage_dealloc;
    type->tp_traverse = storage_traverse;
    type->tp_clear = storage_clear;
    type->tp_dictoffset = offsetof(PyStorage, dict);
    type->tp_weaklistoffset = offsetof(PyStorage, weak_references);
  }
  StorageBaseType.tp_name = "torch._C.StorageBase";
  StorageBaseType.tp_doc = docs::storage::kStorageBase;
  StorageType.tp_base = &StorageBaseType;
  StorageType.tp_name = "torch.UntypedStorage";
  PyModule_AddObject(module, "StorageBase", Py_NewRef(reinterpret_cast<PyObject*>(&StorageBaseType)));
}

}  // namespace facula::python
