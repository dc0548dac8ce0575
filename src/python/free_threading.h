// Declares what threads need that run Python at the same time. On the usual Python one thread at a time has the
// interpreter's lock, and all of this is empty. On a free-threaded one (Py_GIL_DISABLED) `attached` takes the lock's
// place, which only says that a thread may be stopped nowhere but where it calls Python.
//
// Policy:
//   - A thread that is attached waits for nobody who may call Python meanwhile. Whoever stops all threads (the garbage
//     collector) waits for it, and the other thread waits for the collector. So locks around Python calls are Mutex,
//     whose waiters detach. A SpinLock and a std::mutex of the core are held around no Python call (`Detaching` waits
//     for a std::mutex that others hold for long). Nothing that calls Python initializes a static of a function
//     (made_once).
//   - References are borrowed from nothing that another thread can change. dict_item() and list_item() return an Item,
//     which holds a reference here and borrows it on the usual Python.
//   - An object that others know by a bare pointer (the object of a tensor, a node, a storage) is reached by
//     try_reference(), under a lock that its deallocation takes, too, before it releases anything.
//   - Objects that are made once and read by all threads are immortal, since threads would contend for their reference
//     counts.
//   - Any number of threads may read a tensor. Writes of elements race as NumPy's do: for each element one of them
//     wins. A thread that exchanges a tensor's memory (`data`, `set_`, `resize_`) while others use it has to agree with
//     them, as it had to with kernels that work without the lock.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "autograd/spin_lock.h"
#include "python/python.h"

namespace facula::python {

#ifdef Py_GIL_DISABLED

constexpr bool kFreeThreaded = true;

/// Around state of this folder that Python calls may be made under. Not recursive.
class Mutex {
 public:
  void lock() { PyMutex_Lock(&mutex_); }
  void unlock() { PyMutex_Unlock(&mutex_); }

 private:
  PyMutex mutex_ = {};
};

/// Around a few instructions without Python calls.
using ShortLock = SpinLock;

/// Lets try_reference() work on the object; for who has just made it.
inline void allow_try_reference(PyObject* o) {
#if PY_VERSION_HEX >= 0x030E0000
  PyUnstable_EnableTryIncRef(o);
#else
  std::atomic_ref<Py_ssize_t>(o->ob_ref_shared).fetch_or(_Py_REF_MAYBE_WEAKREF, std::memory_order_relaxed);
#endif
}

/// Takes a reference to an object that another thread may be about to free; false when it is.
inline bool try_reference(PyObject* o) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyUnstable_TryIncRef(o);
#else
  const uint32_t local = std::atomic_ref<uint32_t>(o->ob_ref_local).load(std::memory_order_relaxed);
  if (local == _Py_IMMORTAL_REFCNT_LOCAL) return true;
  if (_Py_IsOwnedByCurrentThread(o)) {  // no other thread can free it
    std::atomic_ref<uint32_t>(o->ob_ref_local).store(local + 1, std::memory_order_relaxed);
    return true;
  }
  std::atomic_ref<Py_ssize_t> shared(o->ob_ref_shared);
  Py_ssize_t seen = shared.load(std::memory_order_relaxed);
  while (seen != 0 && seen != _Py_REF_MERGED) {
    if (shared.compare_exchange_weak(seen, seen + (Py_ssize_t{1} << _Py_REF_SHARED_SHIFT), std::memory_order_acq_rel))
      return true;
  }
  return false;
#endif
}

/// For an object that lives as long as the process and is known to this thread only.
inline PyObject* immortal(PyObject* o) {
#if PY_VERSION_HEX < 0x030E0000
  if (o) {
    o->ob_tid = _Py_UNOWNED_TID;
    o->ob_ref_local = _Py_IMMORTAL_REFCNT_LOCAL;
    o->ob_ref_shared = 0;
  }
#endif
  return o;
}

#else

constexpr bool kFreeThreaded = false;

class Mutex {
 public:
  void lock() {}
  void unlock() {}
};
using ShortLock = Mutex;
inline void allow_try_reference(PyObject*) {}
inline bool try_reference(PyObject* o) {
  Py_INCREF(o);
  return true;
}
inline PyObject* immortal(PyObject* o) { return o; }

#endif

template <class Lock>
class [[nodiscard]] Holding {
 public:
  explicit Holding(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Holding() { lock_.unlock(); }
  Holding(const Holding&) = delete;

 private:
  Lock& lock_;
};

/// Holds a std::mutex of the core; does not keep others from Python while it waits, and waits for no Python while it
/// holds it: who forks keeps Python, and the child would find the mutex held for ever.
class [[nodiscard]] Detaching {
 public:
  explicit Detaching(std::mutex& mutex) : mutex_(mutex) {
    while (!mutex_.try_lock()) {
      WithoutLock detached;
      const std::lock_guard waited(mutex_);
    }
  }
  ~Detaching() { mutex_.unlock(); }
  Detaching(const Detaching&) = delete;

 private:
  std::mutex& mutex_;
};

/// The object in `place`, which make() makes when it is first needed (perhaps in several threads: one stays).
template <class Make>
PyObject* made_once(std::atomic<PyObject*>& place, Make&& make) {
  PyObject* found = place.load(std::memory_order_acquire);
  if (__builtin_expect(found != nullptr, 1)) return found;
  PyObject* made = check(make());
  if (place.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  Py_DECREF(made);
  return found;
}

/// What a dict or a list holds: a reference of its own, or on the usual Python a borrowed one, which is good until
/// Python code runs.
class Item {
 public:
  Item() = default;
#ifdef Py_GIL_DISABLED
  static Item adopt(PyObject* o) { return Item(o); }
  Item(Item&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Item& operator=(Item&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Item() { Py_XDECREF(object_); }
#else
  static Item borrow(PyObject* o) { return Item(o); }
#endif
  PyObject* get() const { return object_; }
  operator PyObject*() const& { return object_; }
  operator PyObject*() && = delete;
  PyObject* new_reference() const { return Py_XNewRef(object_); }

 private:
  explicit Item(PyObject* o) : object_(o) {}
  PyObject* object_ = nullptr;
};

/// The entry of a dict, null where there is none; throws what comparing keys raises.
inline Item dict_item(PyObject* dict, PyObject* key) {
#ifdef Py_GIL_DISABLED
  PyObject* found = nullptr;
  check(PyDict_GetItemRef(dict, key, &found));
  return Item::adopt(found);
#else
  PyObject* found = PyDict_GetItemWithError(dict, key);
  if (__builtin_expect(!found, 0) && PyErr_Occurred()) throw PythonError{};
  return Item::borrow(found);
#endif
}

/// The item of a list or a tuple; null where the list has become shorter.
inline Item list_item(PyObject* sequence, Py_ssize_t i) {
#ifdef Py_GIL_DISABLED
  if (PyTuple_Check(sequence)) return Item::adopt(Py_NewRef(PyTuple_GET_ITEM(sequence, i)));
  PyObject* found = PyList_GetItemRef(sequence, i);
  if (!found) PyErr_Clear();
  return Item::adopt(found);
#else
  return Item::borrow(i < PySequence_Fast_GET_SIZE(sequence) ? PySequence_Fast_GET_ITEM(sequence, i) : nullptr);
#endif
}

/// The items of a sequence, which other threads do not change: for PySequence_Fast_GET_ITEM. A new reference.
inline PyObject* snapshot(PyObject* sequence, const char* message) {
  return kFreeThreaded && PyList_Check(sequence) ? PyList_AsTuple(sequence) : PySequence_Fast(sequence, message);
}

/// From now on the object takes part in garbage collection.
inline void track(PyObject* o) {
#ifdef Py_GIL_DISABLED
  Py_BEGIN_CRITICAL_SECTION(o);
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
  Py_END_CRITICAL_SECTION();
#else
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
#endif
}

}  // namespace facula::python
