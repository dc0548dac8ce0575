// Observers written in Python, and the ranges that they see.
#include <algorithm>
#include <iterator>
#include <thread>

#include "observe/callbacks.h"
#include "observe/observer.h"
#include "python/bindings.h"
#include "python/free_threading.h"
#include "python/op_values.h"

namespace facula::python {
namespace {

// An observer in Python is an object with any of the methods op_begins(name, arguments), op_ends(name, results),
// node_begins(name, sequence), node_ends(name, sequence), memory_changes(address, bytes). What they raise is printed,
// and nothing is thrown into the op.

class PythonObserver final : public Observer {
 public:
  explicit PythonObserver(PyObject* object) : object_(Py_NewRef(object)) {
    op_begins_ = method("op_begins");
    op_ends_ = method("op_ends");
    node_begins_ = method("node_begins");
    node_ends_ = method("node_ends");
    memory_ = method("memory_changes");
    follows_memory = static_cast<bool>(memory_);
  }
  PyObject* object() const { return object_.get(); }

  void op_begins(const OpCall& call) override {
    notify(op_begins_, [&](PyObject* f) {
      Owned arguments(check(wrap_arguments(call.arguments)));
      return call_python(PyObject_CallFunction, f, "sO", name_of(call).c_str(), arguments.get());
    });
  }
  void op_ends(const OpCall& call, bool failed) override {
    notify(op_ends_, [&](PyObject* f) {
      Owned results(failed ? Py_NewRef(Py_None) : check(wrap_slots(call.results)));
      return call_python(PyObject_CallFunction, f, "sO", name_of(call).c_str(), results.get());
    });
  }
  void node_begins(const Node& node) override { notify_of_node(node_begins_, node); }
  void node_ends(const Node& node) override { notify_of_node(node_ends_, node); }
  void memory_changes(const MemoryEvent& change) override {
    notify(memory_, [&](PyObject* f) {
      return call_python(PyObject_CallFunction, f, "KL",
                         static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(change.storage)),
                         static_cast<long long>(change.bytes));
    });
  }

 private:
  Owned method(const char* name) {
    Owned found(PyObject_GetAttrString(object_.get(), name));
    if (!found) PyErr_Clear();
    return found;
  }
  void notify_of_node(const Owned& f, const Node& node) {
    notify(f, [&](PyObject* callable) {
      return call_python(PyObject_CallFunction, callable, "sK", node.name().c_str(),
                         static_cast<unsigned long long>(node.sequence()));
    });
  }
  template <class Call>
  void notify(const Owned& f, Call&& call) {
    if (!f) return;
    WithLock lock;
    Unwatched quiet;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);  // an op that failed with a Python error ends, too
    Owned result;
    try {
      result = Owned(call(f.get()));
    } catch (...) {
      translate_exception();
    }
    if (!result) PyErr_WriteUnraisable(f.get());
    PyErr_Restore(type, value, trace);
  }

  Owned object_, op_begins_, op_ends_, node_begins_, node_ends_, memory_;
};

struct Added {
  std::unique_ptr<PythonObserver> observer;
  Watched threads;
  std::thread::id thread;
};
Mutex added_lock;
// Never destroyed: when static objects are, there is no interpreter left to take the Python objects.
std::vector<Added>& added = *new std::vector<Added>;
std::vector<Added>& retired = *new std::vector<Added>;  // removed in a callback, perhaps their own

/// For who holds the lock: what was removed, or those removed before in callbacks that have ended.
std::vector<Added> take_unused(Added removed) {
  std::vector<Added> unused;
  if (in_observer()) {
    retired.push_back(std::move(removed));
    return unused;
  }
  const auto first = std::stable_partition(retired.begin(), retired.end(), [&](const Added& r) {
    return r.threads != removed.threads || (r.threads == Watched::ThisThread && r.thread != removed.thread);
  });
  unused.assign(std::move_iterator(first), std::move_iterator(retired.end()));
  retired.erase(first, retired.end());
  unused.push_back(std::move(removed));
  return unused;
}

// _add_observer(object, all_threads)
PyObject* function_add_observer(PyObject*, PyObject* args) {
  PyObject* object;
  int all_threads = 0;
  if (!PyArg_ParseTuple(args, "Op", &object, &all_threads)) return nullptr;
  return guarded([&] {
    const Watched threads = all_threads ? Watched::AllThreads : Watched::ThisThread;
    auto made = std::make_unique<PythonObserver>(object);
    PythonObserver* observer = made.get();
    {
      Holding guard(added_lock);
      added.push_back({std::move(made), threads, std::this_thread::get_id()});
    }
    {
      WithoutLock released;  // a notified thread may wait for the lock
      add_observer(observer, threads);
    }
    return Py_NewRef(Py_None);
  });
}
// _remove_observer(object)
PyObject* function_remove_observer(PyObject*, PyObject* object) {
  const auto remove = [&] {
    Holding guard(added_lock);
    const auto found =
        std::find_if(added.begin(), added.end(), [&](const Added& a) { return a.observer->object() == object; });
    FACULA_CHECK(found != added.end(), ErrorKind::Value, "remove_observer: an observer that was added, got ",
                 Py_TYPE(object)->tp_name);
    Added one = std::move(*found);
    added.erase(found);
    return one;
  };
  return guarded([&] {
    Added removed = remove();
    try {
      WithoutLock released;
      remove_observer(removed.observer.get(), removed.threads);
    } catch (...) {  // called on another thread than the one it watches: it stays
      Holding guard(added_lock);
      added.push_back(std::move(removed));
      throw;
    }
    std::vector<Added> unused;  // whose objects are released without the lock
    {
      Holding guard(added_lock);
      unused = take_unused(std::move(removed));
    }
    return Py_NewRef(Py_None);
  });
}

// An observer that does nothing: what watching alone costs.
class EmptyObserver final : public Observer {};
PyObject* function_set_empty_observer(PyObject*, PyObject* on) {
  static EmptyObserver* empty = new EmptyObserver;
  static bool there = false;
  return guarded([&] {
    const bool wanted = PyObject_IsTrue(on) == 1;
    if (wanted != there)
      wanted ? add_observer(empty, Watched::ThisThread) : remove_observer(empty, Watched::ThisThread);
    there = wanted;
    return Py_NewRef(Py_None);
  });
}

// ---- ranges

PyObject* function_watching(PyObject*, PyObject*) {
  if (watching() & kUnknownThread) know_this_thread();
  return PyBool_FromLong((watching() & kWatchObservers) != 0);
}
PyObject* function_range_begins(PyObject*, PyObject* name) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  if (!text) return nullptr;
  notify_range_begins({text, static_cast<size_t>(size)});
  Py_RETURN_NONE;
}
PyObject* function_range_ends(PyObject*, PyObject*) {
  notify_range_ends();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_add_observer", function_add_observer, METH_VARARGS,
     "_add_observer(object, all_threads): notifies the object's methods of what ops, nodes and storages do."},
    {"_remove_observer", function_remove_observer, METH_O, "_remove_observer(object): ends that."},
    {"_set_empty_observer", function_set_empty_observer, METH_O,
     "_set_empty_observer(on): an observer in C++ that does nothing, to measure what watching costs."},
    {"_watching", function_watching, METH_NOARGS, "Whether an observer watches this thread."},
    {"_range_begins", function_range_begins, METH_O, "_range_begins(name): notifies observers that a range begins."},
    {"_range_ends", function_range_ends, METH_NOARGS,
     "_range_ends(): notifies observers that the innermost range ends."},
    {}};

}  // namespace

void init_profile(PyObject* module);
void init_stacks(PyObject* module);
void init_observe(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  init_profile(module);
  init_stacks(module);
}

}  // namespace facula::python
