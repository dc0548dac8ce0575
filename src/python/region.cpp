// Compiled functions: a callable that learns from region/compiled.h how each call is made.
#include <chrono>
#include <memory>
#include <unordered_map>

#include "core/host.h"
#include "core/op_id.h"
#include "core/places.h"
#include "python/bindings.h"
#include "python/compiled_function.h"
#include "python/free_threading.h"
#include "python/replay.h"
#include "python/stretch.h"

namespace facula::python {
namespace {

// ---- what functions of one code share

/// Functions that are made again and again from one piece of code (closures, methods of equal modules) share what is
/// known of it.
std::unordered_map<PyObject*, std::weak_ptr<Work>>& known_code() {
  static auto* known = new std::unordered_map<PyObject*, std::weak_ptr<Work>>;
  return *known;
}

/// The code object behind a function, a method or a module's forward(); null where there is none in Python.
Owned code_of(PyObject* function) {
  Owned forward;
  if (!PyFunction_Check(function) && !PyMethod_Check(function)) {
    if (!has_attribute(function, "forward")) return Owned();
    forward = Owned(check(call_python(PyObject_GetAttrString, function, "forward")));
    function = forward.get();
  }
  PyObject* plain = PyMethod_Check(function) ? PyMethod_GET_FUNCTION(function) : function;
  if (!PyFunction_Check(plain)) return Owned();
  return Owned::share(PyFunction_GET_CODE(plain));
}

std::shared_ptr<Work> shared_work(PyObject* code) {
  if (!code) return std::make_shared<Work>();
  std::weak_ptr<Work>& slot = known_code()[code];
  std::shared_ptr<Work> found = slot.lock();
  if (!found) slot = found = std::make_shared<Work>();
  return found;
}

// ---- the object

PyTypeObject* compiled_type = nullptr;

/// Stands for the sizes and dtypes of the tensors among the arguments.
uint64_t sizes_of(PyObject* const* args, Py_ssize_t count) {
  uint64_t sum = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_tensor(args[i])) continue;
    const Tensor& t = tensor_of(args[i]);
    sum = (sum ^ static_cast<uint64_t>(t.numel())) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(t.dim());
    sum = sum * 31 + static_cast<uint64_t>(t.dtype());
  }
  return sum;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool setting(PyObject* settings, const char* name) {
  if (settings == Py_None || !has_attribute(settings, name)) return false;
  Owned value(check(call_python(PyObject_GetAttrString, settings, name)));
  return PyObject_IsTrue(value.get()) == 1;
}

// ---- questions and notes to facula.compiler: at looks, never in calls that are followed

using SharedRecording = std::shared_ptr<const Recording>;
PyObject* wrap_recording(const SharedRecording& recording);

Owned compiler_file(const char* name) {
  return Owned(check(PyImport_ImportModule(("facula.compiler." + std::string(name)).c_str())));
}

PyObject* place_of(uint32_t number) {
  const std::string text = number ? place_text(number) : "";  // "train.py:12 in step"
  const size_t end = text.rfind(" in ");
  return check(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(std::min(end, text.size()))));
}

/// Raises what `facula.compiler._looks` says of a value that the program reads.
void ask_about_value(const Demand& demand) {
  Owned module = compiler_file("_looks"), place(place_of(demand.place));
  Owned error(check(call_python(PyObject_CallMethod, module.get(), "raised", "sO", demand.what.c_str(), place.get())));
  if (error.get() == Py_None) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  throw PythonError{};
}

/// Whether the settings allow a call to be recorded.
bool may_look(PyObject* self) {
  PyObject* settings = compiled(self)->settings;
  if (!settings || !has_attribute(settings, "look_begins")) return true;
  Owned answer(check(call_python(PyObject_CallMethod, settings, "look_begins", "O", self)));
  const int yes = PyObject_IsTrue(answer.get());
  check(yes);
  return yes == 1;
}
bool may_record_miss(void* self) {
  WithLock lock;  // a backward pass runs without
  return may_look(static_cast<PyObject*>(self));
}

void tell_look_ended(PyObject* self, const SharedRecording& recording) {
  PyObject* settings = compiled(self)->settings;
  if (!settings || !has_attribute(settings, "look_ended")) return;
  Owned wrapped = recording ? Owned(wrap_recording(recording)) : Owned::share(Py_None);
  Owned(check(call_python(PyObject_CallMethod, settings, "look_ended", "OO", self, wrapped.get())));
}

// ---- calls

/// Stores a Python error that is set as long as it lives.
class StoredError {
 public:
  StoredError() { keep(); }
  ~StoredError() {
    if (type_) PyErr_Restore(type_, value_, trace_);
  }
  StoredError(const StoredError&) = delete;
  explicit operator bool() const { return type_ != nullptr; }
  void keep() { PyErr_Fetch(&type_, &value_, &trace_); }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

/// Calls the function in a region. What Python raises is raised when everything that is alive is made.
PyObject* call_in_region(PyObject* object, const CompiledCalls::Way& way, CompiledCalls::Outcome& outcome,
                         PyObject* const* args, size_t nargsf, PyObject* names) {
  const SharedCalls calls = compiled(object)->calls;
  Region region(*calls->work, way.follows, calls->number());
  region.tape_may_wait = way.follows && next_pass_follows(calls->number());
  region.on_value = ask_about_value;
  region.on_miss = may_record_miss;
  region.context = object;
  Owned result(call_python(PyObject_Vectorcall, compiled(object)->function, args, nargsf, names));
  const StoredError raised;
  region.leave();
  outcome.missed = way.follows && !region.follows();
  if (region.records() && (way.asks || way.follows)) tell_look_ended(object, raised ? nullptr : region.recording());
  return result.release();
}

/// Calls the function where a backend of its own is given what it does (region/stretch.h).
PyObject* call_in_stretches(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  const SharedCalls calls = compiled(object)->calls;
  const std::shared_ptr<StretchTree> tree = calls->stretches;
  PyObject* function = compiled(object)->function;
  ++calls->calls;
  StretchRun run(tree);
  if (!tree->called && !run.ask()) return call_python(PyObject_Vectorcall, function, args, nargsf, names);
  Region region(*calls->work, false, calls->number());
  region.on_value = ask_about_value;
  region.stretches = &run;
  Owned result(call_python(PyObject_Vectorcall, function, args, nargsf, names));
  StoredError raised;
  try {
    run.end(bool(raised));
  } catch (...) {  // what waits is made by its ops when it is needed
    if (!raised) translate_exception(), raised.keep();
    PyErr_Clear();
    result = Owned();
  }
  if (run.looks()) {
    region.leave();
    tell_look_ended(object, raised ? nullptr : region.recording());
  }
  tree->called = true;
  calls->state = CompileState::Follow;
  return result.release();
}

bool forced_eager = false;  // compiled functions are called as they are
// that run on this thread, whatever their state
thread_local constinit long compiled_calls __attribute__((tls_model("initial-exec"))) = 0;

class CountedCall {
 public:
  CountedCall() { ++compiled_calls; }
  ~CountedCall() { --compiled_calls; }
  CountedCall(const CountedCall&) = delete;
};

// ---- calls by steps

/// A call in one of the ways, without its clock.
PyObject* call_so(PyObject* object, const CompiledCalls::Way& way, CompiledCalls::Outcome& outcome,
                  PyObject* const* args, size_t nargsf, PyObject* names) {
  if (way.region) return call_in_region(object, way, outcome, args, nargsf, names);
  PyObject* result = nullptr;
  if (way.replays && is_made_by_steps(object, args, nargsf, names, result)) {
    ++compiled(object)->calls->replays;
    return compiled(object)->checks && result ? compared(object, result, args, nargsf, names) : result;
  }
  outcome.missed = way.replays;
  return call_python(PyObject_Vectorcall, compiled(object)->function, args, nargsf, names);
}

PyObject* compiled_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names) {
  CompiledFunction* self = compiled(object);
  if (forced_eager) return call_python(PyObject_Vectorcall, self->function, args, nargsf, names);
  const CountedCall counted;
  if (Region::is_on()) return call_python(PyObject_Vectorcall, self->function, args, nargsf, names);
  if (self->calls->state == CompileState::Replay && self->steps && !self->checks) {
    ReplayEnd end;
    PyObject* result = replay_call(self->steps, args, nargsf, names, end);
    if (end == ReplayEnd::Done) return self->calls->replayed(), result;
  }
  const uint64_t sizes = sizes_of(args, PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0));
  if (self->calls->passes(sizes)) return call_python(PyObject_Vectorcall, self->function, args, nargsf, names);
  const SharedCalls calls = self->calls;
  return guarded([&]() -> PyObject* {
    if (calls->stretches) return call_in_stretches(object, args, nargsf, names);
    CompiledCalls::Way way = calls->begin(sizes);
    if (way.asks && !may_look(object)) way = {};
    if (way.prepares && self->pure && is_quiet_thread()) return watched_call(object, args, nargsf, names);
    const int64_t begin = way.timed ? now() : 0;
    CompiledCalls::Outcome outcome;
    Owned result(call_so(object, way, outcome, args, nargsf, names));
    if (way.timed) outcome.nanoseconds = now() - begin;
    outcome.failed = !result;
    calls->end(way, outcome);
    if (way.prepares && result && !self->pure && is_quiet_thread()) {
      if (calls->always_replays || calls->is_tiny(outcome.nanoseconds)) {
        prepare_steps(object, args, nargsf, names);
        calls->prepared(self->steps != nullptr);
      }
    }
    return result.release();
  });
}

void find_stretches(PyObject* object) {
  StretchTrees trees = stretches_of(compiled(object)->settings, object);
  compiled(object)->calls->stretches = std::move(trees.forward);
  compiled(object)->calls->backward_stretches = std::move(trees.backward);
}

PyObject* compiled_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function", "settings", nullptr};
  PyObject *function, *settings = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", const_cast<char**>(names), &function, &settings))
    return nullptr;
  if (!PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "CompiledFunction: a callable is compiled, got %s", Py_TYPE(function)->tp_name);
    return nullptr;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (!object) return nullptr;
  CompiledFunction* self = compiled(object);
  new (&self->calls) SharedCalls();
  self->call = compiled_call;
  self->function = Py_NewRef(function);
  self->settings = Py_NewRef(settings);
  self->code = code_of(function).release();
  const bool alone = setting(settings, "has_own_backend");  // its codes are those of one function
  self->calls = std::make_shared<CompiledCalls>(alone ? std::make_shared<Work>() : shared_work(self->code));
  self->calls->never_follows = setting(settings, "eager");
  self->calls->always_follows = setting(settings, "always");
  self->pure = setting(settings, "pure");
  self->checks = setting(settings, "checks_replays");
  self->calls->may_replay = !kFreeThreaded && setting(settings, "replays");
  self->calls->always_replays = setting(settings, "always_replays");
  PyObject* made = guarded([&] {
    find_stretches(object);
    return Py_NewRef(object);
  });
  Py_DECREF(object);
  return made;
}

void compiled_dealloc(PyObject* object) {
  CompiledFunction* self = compiled(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak) PyObject_ClearWeakRefs(object);
  self->calls.~SharedCalls();
  if (self->code) {
    auto& known = known_code();
    const auto found = known.find(self->code);
    if (found != known.end() && found->second.expired()) known.erase(found);
  }
  Py_XDECREF(self->code);
  Py_XDECREF(self->function);
  Py_XDECREF(self->settings);
  Py_XDECREF(self->attributes);
  Py_XDECREF(self->steps);
  type->tp_free(object);
  Py_DECREF(type);
}
int compiled_traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledFunction* self = compiled(object);
  Py_VISIT(self->function);
  Py_VISIT(self->settings);
  Py_VISIT(self->attributes);
  Py_VISIT(self->steps);
  Py_VISIT(Py_TYPE(object));
  return 0;
}
int compiled_clear(PyObject* object) {
  CompiledFunction* self = compiled(object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->settings);
  Py_CLEAR(self->attributes);
  Py_CLEAR(self->steps);
  return 0;
}

/// As functions do: found in a class, it is a method of the instance.
PyObject* compiled_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

// ---- what it says of itself

constexpr const char* kRowsName = "facula.recording";

/// `recording` for Python; _region_ops() returns its ops.
PyObject* share_recording(const SharedRecording& recording) {
  auto shared = std::make_unique<SharedRecording>(recording);
  PyObject* capsule = check(PyCapsule_New(shared.get(), kRowsName, [](PyObject* dying) {
    delete static_cast<SharedRecording*>(PyCapsule_GetPointer(dying, kRowsName));
  }));
  shared.release();
  return capsule;
}

PyObject* wrap_op(const RecordedOp& op) {
  static const char* const forms[] = {"function", "inplace", "out", "composite"};
  Owned place(place_of(op.place));
  const char* form = forms[static_cast<size_t>(op.form)];
  return check(
      Py_BuildValue("(ssOiii)", op_name(op.op), form, place.get(), op.operands, op.results, learned(op.group)));
}

// _region_ops(shared) -> a row for each op
PyObject* function_ops(PyObject*, PyObject* shared) {
  return guarded([&] {
    const void* recording = PyCapsule_GetPointer(shared, kRowsName);
    if (!recording) throw PythonError{};
    Owned rows(check(PyList_New(0)));
    for (const RecordedOp& op : (*static_cast<const SharedRecording*>(recording))->ops) {
      Owned row(wrap_op(op));
      check(PyList_Append(rows.get(), row.get()));
    }
    return rows.release();
  });
}

/// A `facula.compiler._region.Recording` of what it remembers.
PyObject* wrap_recording(const SharedRecording& recording) {
  Owned demands(check(PyList_New(0))), shared(share_recording(recording));
  for (const Demand& demand : recording->demands) {
    Owned place(place_of(demand.place));
    Owned row(check(Py_BuildValue("(sOn)", demand.what.c_str(), place.get(), static_cast<Py_ssize_t>(demand.ops))));
    check(PyList_Append(demands.get(), row.get()));
  }
  const Recording::Counts& counts = recording->counts;
  const auto number = [](int64_t n) { return static_cast<long long>(n); };
  Owned module = compiler_file("_region");
  return check(call_python(PyObject_CallMethod, module.get(), "Recording", "OnOLLLLLL", shared.get(),
                           static_cast<Py_ssize_t>(recording->ops.size()), demands.get(), number(counts.groups),
                           number(counts.put_off), number(counts.never_made), number(counts.bytes_saved),
                           number(recording->followed), number(counts.bytes_let_go)));
}

PyObject* get_function(PyObject* self, void*) { return Py_NewRef(compiled(self)->function); }
PyObject* get_state(PyObject* self, void*) { return PyUnicode_FromString(name(compiled(self)->calls->state)); }
PyObject* get_calls(PyObject* self, void*) { return PyLong_FromLongLong(compiled(self)->calls->calls); }
PyObject* get_misses(PyObject* self, void*) { return PyLong_FromLongLong(compiled(self)->calls->work->misses); }
PyObject* get_recordings(PyObject* self, void*) {
  return guarded([&] {
    std::vector<std::shared_ptr<Recording>> recordings;
    {
      std::lock_guard guard(compiled(self)->calls->work->lock);
      recordings = compiled(self)->calls->work->recordings;
    }
    Owned list(check(PyList_New(0)));
    for (const auto& recording : recordings) {
      Owned wrapped(wrap_recording(recording));
      check(PyList_Append(list.get(), wrapped.get()));
    }
    return list.release();
  });
}
PyObject* get_replays(PyObject* self, void*) { return PyLong_FromLongLong(compiled(self)->calls->replays); }
PyObject* get_steps(PyObject* self, void*) {
  return Py_NewRef(compiled(self)->steps ? compiled(self)->steps : Py_None);
}
PyObject* compiled_reset(PyObject* self, PyObject*) {
  Py_CLEAR(compiled(self)->steps);
  return guarded([&] {
    compiled(self)->calls->reset();
    if (compiled(self)->calls->stretches) find_stretches(self);
    return Py_NewRef(Py_None);
  });
}

PyGetSetDef compiled_properties[] = {
    {"function", get_function, nullptr, "The function that is called.", nullptr},
    {"state", get_state, nullptr, "What the next call does: look, learn, trial, follow, pass or replay.", nullptr},
    {"replays", get_replays, nullptr, "Calls that its steps have made.", nullptr},
    {"steps", get_steps, nullptr, "What makes calls without Python's interpreter, or None.", nullptr},
    {"calls", get_calls, nullptr, "Calls so far, of all functions with this code.", nullptr},
    {"misses", get_misses, nullptr, "Calls that took a way that no recording knew.", nullptr},
    {"recordings", get_recordings, nullptr, "What is remembered of calls, as dictionaries; the last used first.",
     nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};
PyObject* compiled_copy(PyObject* self, PyObject*) { return Py_NewRef(self); }
/// Pickled as functions are: by the name under which it is found.
PyObject* compiled_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }
PyObject* compiled_repr(PyObject* self) { return PyUnicode_FromFormat("<compiled %R>", compiled(self)->function); }
PyMethodDef compiled_methods[] = {{"reset", compiled_reset, METH_NOARGS, "Forget all recordings."},
                                  {"__reduce__", compiled_reduce, METH_NOARGS, "Return the name of the function."},
                                  {"__copy__", compiled_copy, METH_NOARGS, "Return the function itself."},
                                  {"__deepcopy__", compiled_copy, METH_O, "Return the function itself."},
                                  {}};
PyMemberDef compiled_members[] = {
    {const_cast<char*>("__dictoffset__"), T_PYSSIZET, offsetof(CompiledFunction, attributes), READONLY, nullptr},
    {const_cast<char*>("__weaklistoffset__"), T_PYSSIZET, offsetof(CompiledFunction, weak), READONLY, nullptr},
    {const_cast<char*>("__vectorcalloffset__"), T_PYSSIZET, offsetof(CompiledFunction, call), READONLY, nullptr},
    {}};
PyType_Slot compiled_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(compiled_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(compiled_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(compiled_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(compiled_clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(compiled_repr)},
    {Py_tp_descr_get, reinterpret_cast<void*>(compiled_get)},
    {Py_tp_getset, compiled_properties},
    {Py_tp_methods, compiled_methods},
    {Py_tp_members, compiled_members},
    {Py_tp_doc, const_cast<char*>("CompiledFunction(function, settings=None)\n\nCall the function; put off what its "
                                  "recordings say is worth it.")},
    {0, nullptr}};
PyType_Spec compiled_spec = {
    "facula._C._CompiledFunction", static_cast<int>(sizeof(CompiledFunction)), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    compiled_slots};

// ---- functions

// _region_explain(function, args, kwargs) -> (result, recording): one call that runs eagerly and is noted with its
// lines
PyObject* function_explain(PyObject*, PyObject* given) {
  PyObject *function, *args, *kwargs;
  if (!PyArg_ParseTuple(given, "OO!O", &function, &PyTuple_Type, &args, &kwargs)) return nullptr;
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(!Region::is_on(), ErrorKind::Runtime, "explain: a compiled function runs on this thread");
    const CountedCall counted;
    Work work;
    work.keeps_places = true;
    Region region(work, false);
    region.on_value = ask_about_value;
    Owned result(call_python(PyObject_Call, function, args, kwargs == Py_None ? nullptr : kwargs));
    {
      const StoredError raised;
      region.leave();
    }
    check(result.get());
    Owned recording(wrap_recording(region.recording()));
    return check(PyTuple_Pack(2, result.get(), recording.get()));
  });
}
PyObject* function_in_region(PyObject*, PyObject*) { return PyBool_FromLong(compiled_calls > 0); }

// _region_leave() -> what _region_enter() takes to go back
PyObject* function_leave(PyObject*, PyObject*) {
  const bool on = (watching() & kWatchRegion) != 0;
  set_watch(kWatchRegion, false);
  return PyLong_FromLong(std::exchange(compiled_calls, 0) * 2 + on);
}
PyObject* function_enter(PyObject*, PyObject* state) {
  const long before = PyLong_AsLong(state);
  if (before == -1 && PyErr_Occurred()) return nullptr;
  compiled_calls = before / 2;
  if (before % 2 && Region::current()) set_watch(kWatchRegion, true);
  return Py_NewRef(Py_None);
}

// _region_demand(what): a demand that Python itself knows of
PyObject* function_demand(PyObject*, PyObject* given) {
  const char* what;
  if (!PyArg_ParseTuple(given, "s", &what)) return nullptr;
  return guarded([&] {
    if (Region* region = Region::current()) region->value_needed(what);
    return Py_NewRef(Py_None);
  });
}
PyObject* function_force_eager(PyObject*, PyObject* yes) {
  const int on = PyObject_IsTrue(yes);
  return on < 0 ? nullptr : PyBool_FromLong(std::exchange(forced_eager, on == 1));
}

PyMethodDef functions[] = {
    {"_region_ops", function_ops, METH_O,
     "_region_ops(shared): (name, form, place, operands, results, group) of each op."},
    {"_region_demand", function_demand, METH_VARARGS, "_region_demand(what): notes that the program reads a value."},
    {"_region_force_eager", function_force_eager, METH_O,
     "_region_force_eager(yes): compiled functions are called as they are; what was set before."},
    {"_region_explain", function_explain, METH_VARARGS,
     "_region_explain(function, args, kwargs): (result, recording)."},
    {"_region_on", function_in_region, METH_NOARGS, "Whether a compiled function runs on this thread."},
    {"_region_leave", function_leave, METH_NOARGS, "Ops run at once from here on; what _region_enter() takes."},
    {"_region_enter", function_enter, METH_O, "_region_enter(state): undoes _region_leave()."},
    {}};

}  // namespace

void init_region(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  init_stretches(module);
  line_of_program = capture_line;
  compiled_type = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&compiled_spec)));
  check(PyModule_AddObjectRef(module, "_CompiledFunction", reinterpret_cast<PyObject*>(compiled_type)));
}

}  // namespace facula::python
