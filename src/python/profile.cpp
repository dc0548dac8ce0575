// Recordings of the profiler, and the history of memory, for Python.
#include "observe/callbacks.h"
#include "profiler/memory_history.h"
#include "profiler/profiler_observer.h"
#include "python/bindings.h"
#include "python/free_threading.h"
#include "python/op_values.h"

namespace facula::python {
namespace {

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
      WithoutLock released;  // a notified thread may wait for the lock
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
    {}};

}  // namespace

void init_profile(PyObject* module);  // called by init_observe
void init_profile(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
