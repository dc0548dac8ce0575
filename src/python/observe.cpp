// Observers written in Python, and the recordings of the profiler.
#include <algorithm>
#include <array>
#include <iterator>
#include <thread>
#include <unordered_map>

#include "core/host.h"
#include "core/places.h"
#include "observe/callbacks.h"
#include "observe/observer.h"
#include "profiler/memory_history.h"
#include "profiler/profiler_observer.h"
#include "python/bindings.h"
#include "python/free_threading.h"
#include "python/op_values.h"

#if PY_VERSION_HEX < 0x030B0000  // there Python.h does not declare PyFrame_GetBack
#include <frameobject.h>
#endif

namespace facula::python {
namespace {

// ---- stacks: where Python is, as numbers. A stack is a line of code and the stack around it, so that stacks of one
// place share what is around them.

struct Place {
  PyCodeObject* code;  // kept alive: its address is part of the key
  int line;
  uint32_t around;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  size_t operator()(const Place& p) const {
    size_t h = std::hash<void*>()(p.code);
    return (h * 31 + static_cast<size_t>(p.line)) * 0x9E3779B97F4A7C15u + p.around;
  }
};
Mutex places_lock;                           // of what follows, up to the instructions
std::vector<Place> places{{nullptr, 0, 0}};  // number 0: nowhere
std::unordered_map<Place, uint32_t, PlaceHash> place_numbers;
constexpr int kDeepest = 64;

/// For who holds the lock.
uint32_t number_of(const Place& place) {
  auto [found, fresh] = place_numbers.try_emplace(place, static_cast<uint32_t>(places.size()));
  if (fresh) {
    Py_INCREF(place.code);
    places.push_back(place);
  }
  return found->second;
}

/// PyFrame_GetLineNumber reads the code's table of lines from its begin: what it found is kept.
int line_of(PyFrameObject* frame, [[maybe_unused]] PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  static std::unordered_map<Place, int, PlaceHash> lines;  // the instruction is in the place of the line
  Holding guard(places_lock);
  const auto [found, fresh] = lines.try_emplace({code, PyFrame_GetLasti(frame), 0});
  if (fresh) {
    Py_INCREF(code);
    found->second = PyFrame_GetLineNumber(frame);
  }
  return found->second;
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

// Only the lock's holder can walk frames; others, such as backward without the lock, are nowhere.
uint32_t stack_here() {
  if (!PyGILState_Check()) return 0;
  PyThreadState* state = PyThreadState_Get();
  PyFrameObject* frame = PyThreadState_GetFrame(state);
  Place chain[kDeepest];
  int depth = 0;
  while (frame && depth < kDeepest) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    chain[depth++] = {code, line_of(frame, code), 0};
    Py_DECREF(code);  // the frame holds it
    PyFrameObject* next = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = next;
  }
  Py_XDECREF(frame);
  uint32_t number = 0;
  Holding guard(places_lock);
  while (depth > 0) {
    chain[--depth].around = number;
    number = number_of(chain[depth]);
  }
  return number;
}

/// The package's folder, with a slash; null with an error set.
PyObject* own_folder() {
  Owned package(PyImport_ImportModule("facula"));
  Owned folders(package ? PyObject_GetAttrString(package.get(), "__path__") : nullptr);
  Owned first(folders ? PySequence_GetItem(folders.get(), 0) : nullptr);
  return first && PyUnicode_Check(first.get()) ? PyUnicode_FromFormat("%U/", first.get()) : nullptr;
}

/// Whether the code is this package's.
bool is_own(PyCodeObject* code) {
  static std::atomic<PyObject*> folder;
  PyObject* known = made_once(folder, [] {
    PyObject* found = own_folder();
    if (!found) PyErr_Clear();
    return found ? found : PyUnicode_FromString("?");
  });
  const char *start = PyUnicode_AsUTF8(known), *file = PyUnicode_AsUTF8(code->co_filename);
  if (!start || !file) PyErr_Clear();
  return start && file && std::string_view(file).starts_with(start);
}

#if PY_VERSION_HEX >= 0x030B0000
/// What is known of an instruction: of one that is not the package's, the number of its line as a stack of its own.
struct Instruction {
  PyCodeObject* code = nullptr;  // its line has a number, which keeps it alive
  int at = 0;
  uint32_t number = 0;
  bool own = false;
};
Instruction known_instruction(PyFrameObject* frame, PyCodeObject* code) {
  static std::array<Instruction, 256> known;
  const int at = PyFrame_GetLasti(frame);
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(code) >> 4) + static_cast<uint64_t>(at);
  Instruction& slot = known[mixed * 0x9E3779B97F4A7C15u >> 56];
  {
    Holding guard(places_lock);
    if (slot.code == code && slot.at == at) return slot;
  }
  const int line = line_of(frame, code);
  const bool own = is_own(code);
  Holding guard(places_lock);
  return slot = {code, at, number_of({code, line, 0}), own};
}

/// The innermost line that is not this package's, or the innermost one.
uint32_t line_here() {
  if (!PyGILState_Check()) return 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  uint32_t number = 0;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Instruction here = known_instruction(frame, code);
    if (!number || !here.own) number = here.number;
    const bool found = !here.own;
    Py_DECREF(code);  // the frame holds it
    PyFrameObject* next = found ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = next;
  }
  return number;
}
#else
uint32_t line_here() { return stack_here(); }
#endif

/// The lines of a stack, innermost first; none where there is no such stack.
std::vector<Place> lines_of(size_t number) {
  Holding guard(places_lock);
  std::vector<Place> found;
  for (size_t at = number < places.size() ? number : 0; at != 0; at = places[at].around) found.push_back(places[at]);
  return found;
}

// _stack(number) -> [(file, line, function), ...], innermost first
PyObject* function_stack(PyObject*, PyObject* number) {
  return guarded([&] {
    const auto given_number = static_cast<size_t>(to_int(number));
    const std::vector<Place> lines = lines_of(given_number);
    FACULA_CHECK(given_number == 0 || !lines.empty(), ErrorKind::Value, "_stack: the number of a stack, got ",
                 given_number);
    Owned list(check(PyList_New(0)));
    for (const Place& place : lines) {
      Owned row(check(Py_BuildValue("(OiO)", place.code->co_filename, place.line, place.code->co_name)));
      check(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}
/// The innermost line that is not this package's, or the innermost one.
std::string place_text(uint32_t number) {
  WithLock lock;
  const std::vector<Place> lines = lines_of(number);
  if (lines.empty()) return {};
  auto chosen = std::find_if(lines.begin(), lines.end(), [](const Place& place) { return !is_own(place.code); });
  if (chosen == lines.end()) chosen = lines.begin();
  const char *file = PyUnicode_AsUTF8(chosen->code->co_filename), *name = PyUnicode_AsUTF8(chosen->code->co_name);
  PyErr_Clear();
  return std::string(file ? file : "?") + ":" + std::to_string(chosen->line) + " in " + (name ? name : "?");
}

PyObject* function_stack_here(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(stack_here()); }

// ---- observers in Python: an object with any of the methods op_begins(name, arguments), op_ends(name, results),
// node_begins( name, sequence), node_ends(name, sequence), memory_changes(address, bytes). What they raise is printed,
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
    tell(op_begins_, [&](PyObject* f) {
      Owned arguments(check(wrap_arguments(call.arguments)));
      return call_python(PyObject_CallFunction, f, "sO", name_of(call).c_str(), arguments.get());
    });
  }
  void op_ends(const OpCall& call, bool failed) override {
    tell(op_ends_, [&](PyObject* f) {
      Owned results(failed ? Py_NewRef(Py_None) : check(wrap_slots(call.results)));
      return call_python(PyObject_CallFunction, f, "sO", name_of(call).c_str(), results.get());
    });
  }
  void node_begins(const Node& node) override { tell_node(node_begins_, node); }
  void node_ends(const Node& node) override { tell_node(node_ends_, node); }
  void memory_changes(const MemoryEvent& change) override {
    tell(memory_, [&](PyObject* f) {
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
  void tell_node(const Owned& f, const Node& node) {
    tell(f, [&](PyObject* callable) {
      return call_python(PyObject_CallFunction, callable, "sK", node.name().c_str(),
                         static_cast<unsigned long long>(node.sequence()));
    });
  }
  template <class Call>
  void tell(const Owned& f, Call&& call) {
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
      WithoutLock released;  // a thread that is told something may wait for the lock
      add_observer(observer, threads);
    }
    return Py_NewRef(Py_None);
  });
}
// _remove_observer(object)
PyObject* function_remove_observer(PyObject*, PyObject* object) {
  const auto take = [&] {
    Holding guard(added_lock);
    const auto found =
        std::find_if(added.begin(), added.end(), [&](const Added& a) { return a.observer->object() == object; });
    FACULA_CHECK(found != added.end(), ErrorKind::Value, "remove_observer: an observer that was added, got ",
                 Py_TYPE(object)->tp_name);
    Added taken = std::move(*found);
    added.erase(found);
    return taken;
  };
  return guarded([&] {
    Added taken = take();
    try {
      WithoutLock released;
      remove_observer(taken.observer.get(), taken.threads);
    } catch (...) {  // called on another thread than the one it watches: it stays
      Holding guard(added_lock);
      added.push_back(std::move(taken));
      throw;
    }
    std::vector<Added> unused;  // whose objects are let go without the lock
    {
      Holding guard(added_lock);
      unused = take_unused(std::move(taken));
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

// ---- recordings

using profiler::Event;
using profiler::EventKind;
using profiler::Lane;

// The tensors noted from `at` on: [(sizes, dtype) or None, ...]
PyObject* noted_tensors(const Lane& lane, size_t& at) {
  const int64_t count = lane.details[at++];
  Owned list(check(PyList_New(0)));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ndim = lane.details[at], dtype = lane.details[at + 1];
    at += 2;
    Owned item(ndim < 0 ? Py_NewRef(Py_None) : nullptr);
    if (ndim >= 0) {
      Owned sizes(check(PyList_New(ndim)));
      for (int64_t d = 0; d < ndim; ++d) PyList_SET_ITEM(sizes.get(), d, PyLong_FromLongLong(lane.details[at++]));
      Owned kind(check(wrap_dtype(static_cast<DType>(dtype))));
      item = Owned(check(PyTuple_Pack(2, sizes.get(), kind.get())));
    }
    check(PyList_Append(list.get(), item.get()));
  }
  return list.release();
}

std::string event_name(const Lane& lane, const Event& event) {
  switch (event.kind) {
    case EventKind::Op:
    case EventKind::Composite: return name_of({event.op, event.form, {}, {}});
    case EventKind::Memory: return "[memory]";
    default: return lane.names[event.name];
  }
}

constexpr const char* kKindNames[] = {"op", "composite", "node", "range", "kernel", "work", "memory"};

PyObject* wrap_event(const Lane& lane, const Event& event) {
  Owned arguments(Py_NewRef(Py_None)), results(Py_NewRef(Py_None));
  if (event.details >= 0) {
    auto at = static_cast<size_t>(event.details);
    arguments = Owned(noted_tensors(lane, at));
    results = Owned(!event.failed && event.kind == EventKind::Op ? noted_tensors(lane, at) : Py_NewRef(Py_None));
  }
  return check(Py_BuildValue("(ssLLiLLLIOOOL)", kKindNames[static_cast<int>(event.kind)],
                             event_name(lane, event).c_str(), static_cast<long long>(event.begin),
                             static_cast<long long>(event.end), event.parent, static_cast<long long>(event.sequence),
                             static_cast<long long>(event.bytes), static_cast<long long>(event.address), event.stack,
                             arguments.get(), results.get(), event.failed ? Py_True : Py_False,
                             static_cast<long long>(event.device_bytes)));
}

// _profiler_start(shapes, stacks, memory)
PyObject* function_profiler_start(PyObject*, PyObject* args) {
  int shapes, stacks, memory;
  if (!PyArg_ParseTuple(args, "ppp", &shapes, &stacks, &memory)) return nullptr;
  return guarded([&] {
    {
      WithoutLock released;  // who is told something may wait for the lock
      profiler::start({shapes != 0, stacks != 0, memory != 0});
    }
    return Py_NewRef(Py_None);
  });
}
// _profiler_stop() -> [(thread, title, [event, ...]), ...]
PyObject* function_profiler_stop(PyObject*, PyObject*) {
  return guarded([&] {
    std::vector<Lane> lanes;
    {
      WithoutLock released;
      lanes = profiler::stop();
    }
    Owned list(check(PyList_New(0)));
    for (const Lane& lane : lanes) {
      Owned events(check(PyList_New(static_cast<Py_ssize_t>(lane.events.size()))));
      for (size_t i = 0; i < lane.events.size(); ++i) {
        PyList_SET_ITEM(events.get(), static_cast<Py_ssize_t>(i), wrap_event(lane, lane.events[i]));
      }
      Owned row(check(Py_BuildValue("(LsO)", static_cast<long long>(lane.thread), lane.title.c_str(), events.get())));
      check(PyList_Append(list.get(), row.get()));
    }
    return list.release();
  });
}

// ---- who holds memory

constexpr const char* kCauseNames[] = {"", "let go", "made again"};

PyObject* wrap_records(const std::vector<profiler::MemoryRecord>& records) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(records.size()))));
  for (size_t i = 0; i < records.size(); ++i) {
    const profiler::MemoryRecord& r = records[i];
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    check(Py_BuildValue("(LLsILLs)", static_cast<long long>(r.storage), static_cast<long long>(r.bytes),
                                        r.op ? op_name(r.op) : "", r.stack, static_cast<long long>(r.time),
                                        static_cast<long long>(r.thread), kCauseNames[static_cast<int>(r.cause)])));
  }
  return list.release();
}
// _memory_history_start(changes, stacks)
PyObject* function_memory_history_start(PyObject*, PyObject* args) {
  long long changes;
  int stacks;
  if (!PyArg_ParseTuple(args, "Lp", &changes, &stacks)) return nullptr;
  return guarded([&] {
    {
      WithoutLock released;
      profiler::start_memory_history(changes, stacks != 0);
    }
    return Py_NewRef(Py_None);
  });
}
PyObject* function_memory_history_stop(PyObject*, PyObject*) {
  return guarded([&] {
    {
      WithoutLock released;
      profiler::stop_memory_history();
    }
    return Py_NewRef(Py_None);
  });
}
// _memory_history() -> (live, changes, forgotten), records being (storage, bytes, op, stack, time, thread, budget)
PyObject* function_memory_history(PyObject*, PyObject*) {
  return guarded([&] {
    profiler::MemoryHistory found;
    {
      WithoutLock released;
      found = profiler::memory_history();
    }
    Owned live(wrap_records(found.live)), changes(wrap_records(found.changes));
    return check(Py_BuildValue("(OOL)", live.get(), changes.get(), static_cast<long long>(found.forgotten)));
  });
}

PyMethodDef functions[] = {
    {"_add_observer", function_add_observer, METH_VARARGS,
     "_add_observer(object, all_threads): tells the object's methods what ops, nodes and storages do."},
    {"_remove_observer", function_remove_observer, METH_O, "_remove_observer(object): tells it no more."},
    {"_set_empty_observer", function_set_empty_observer, METH_O,
     "_set_empty_observer(on): an observer in C++ that does nothing, to measure what watching costs."},
    {"_watching", function_watching, METH_NOARGS, "Whether an observer watches this thread."},
    {"_range_begins", function_range_begins, METH_O, "_range_begins(name): tells observers that a range begins."},
    {"_range_ends", function_range_ends, METH_NOARGS, "_range_ends(): tells observers that the innermost range ends."},
    {"_profiler_start", function_profiler_start, METH_VARARGS,
     "_profiler_start(shapes, stacks, memory): begins a recording of all threads."},
    {"_profiler_stop", function_profiler_stop, METH_NOARGS,
     "_profiler_stop(): ends it; [(thread, title, events)], an event being (kind, name, begin, end, parent, sequence, "
     "bytes, address, stack, arguments, results, failed)."},
    {"_memory_history_start", function_memory_history_start, METH_VARARGS,
     "_memory_history_start(changes, stacks): remembers who makes storages from now on."},
    {"_memory_history_stop", function_memory_history_stop, METH_NOARGS, "Ends it; what is known stays."},
    {"_memory_history", function_memory_history, METH_NOARGS,
     "(live, changes, forgotten), records being (storage, bytes, op, stack, time, thread, budget)."},
    {"_stack", function_stack, METH_O, "_stack(number): its lines as (file, line, function), innermost first."},
    {"_stack_here", function_stack_here, METH_NOARGS, "_stack_here(): the number of the present stack."},
    {}};

}  // namespace

void init_observe(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  host.capture_stack = stack_here;
  facula::place_text = place_text;
  facula::capture_line = line_here;
}

}  // namespace facula::python
