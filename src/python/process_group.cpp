// Worlds, groups and operations, as facula.distributed._group and _collectives use them. Times are seconds.
#include <future>
#include <set>
#include <unordered_map>

#include "distributed/control.h"
#include "distributed/mpi_library.h"
#include "distributed/nccl_devices.h"
#include "distributed/world.h"
#include "python/bindings.h"
#include "python/distributed_objects.h"
#include "python/free_threading.h"
#include "python/objects.h"

#if PY_VERSION_HEX < 0x030B0000  // there Python.h does not declare PyFrame_GetBack
#include <frameobject.h>
#endif

namespace facula::python {

using namespace distributed;

namespace {

struct WorkRef {
  std::shared_ptr<World> world;
  std::shared_ptr<Operation> op;
};

// ---- where the program called

/// The text of a file name, for ever.
const char* interned(PyObject* name) {
  static auto* known = new std::unordered_map<PyObject*, const char*>;
  static Mutex lock;
  Holding guard(lock);
  const auto found = known->find(name);
  if (found != known->end()) return found->second;
  const char* text = PyUnicode_AsUTF8(Py_NewRef(name));
  if (!text) PyErr_Clear();
  return (*known)[name] = text ? text : "?";
}

const char* package_folder() {
  static std::atomic<PyObject*> folder;
  return utf8(made_once(folder,
                        [] {
                          const Owned module(PyImport_ImportModule("facula")),
                              file(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
                          const std::string path = file ? std::string(utf8(file.get())) : "";
                          return PyUnicode_FromString(path.substr(0, path.rfind('/') + 1).c_str());
                        }))
      .data();
}

}  // namespace

distributed::CallSite call_site() {
  const std::string_view inside = package_folder();
  CallSite site;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    site = {interned(code->co_filename), 0};
    Py_DECREF(code);
    const bool outside = !std::string_view(site.file).starts_with(inside);
    if (outside) site.line = PyFrame_GetLineNumber(frame);
    PyFrameObject* back = outside ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return site;
}

namespace {

/// Reads the lines of the main thread from Python; gives up when the interpreter lock does not come.
std::string lines_of_program() {
  auto lines = std::make_shared<std::promise<std::string>>();
  auto result = lines->get_future();
  std::thread([lines] {
    WithLock lock;
    std::string text;
    const Owned module(PyImport_ImportModule("facula.distributed._group"));
    const Owned said(module ? call_python(PyObject_CallMethod, module.get(), "_program_stack", nullptr) : nullptr);
    if (said) text = printable(said.get());
    PyErr_Clear();
    lines->set_value(text);
  }).detach();
  if (result.wait_for(std::chrono::milliseconds(400)) != std::future_status::ready)
    return "code that keeps the interpreter lock";
  return result.get();
}

/// Threads that run Python code, or may; 0 when the interpreter lock does not come.
int threads_that_run_python() {
  auto count = std::make_shared<std::promise<int>>();
  auto result = count->get_future();
  std::thread([count] {
    WithLock lock;
    int threads = -1;  // this one
    for (PyThreadState* t = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); t; t = PyThreadState_Next(t))
      ++threads;
    count->set_value(threads);
  }).detach();
  return result.wait_for(std::chrono::milliseconds(400)) == std::future_status::ready ? result.get() : 0;
}

// ---- arguments

const char* lasting(const char* name) {
  static auto* names = new std::set<std::string>;
  static Mutex lock;
  Holding guard(lock);
  return names->insert(name).first->c_str();
}

std::vector<int64_t> numbers_of(PyObject* list) {
  const Owned items(check(snapshot(list, "expected a list of numbers")));
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    numbers.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i)));
    if (PyErr_Occurred()) throw PythonError{};
  }
  return numbers;
}

std::vector<int> ranks_of(PyObject* list) {
  std::vector<int> ranks;
  for (int64_t n : numbers_of(list)) ranks.push_back(static_cast<int>(n));
  return ranks;
}

// ---- worlds

using WorldRef = std::shared_ptr<World>;

PyObject* make_world(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* engine;
    PyObject* store;
    int rank, size, nccl;
    double timeout;
    parse(args, "sOiidp", &engine, &store, &rank, &size, &timeout, &nccl);
    program_stack = lines_of_program;
    program_threads = threads_that_run_python;
    const auto given = store == Py_None ? nullptr : store_of(store);
    const bool mpi = std::string_view(engine) == "mpi";
    return hold<WorldRef>(unlocked([&] {
      if (mpi) return join_world(given, rank, size, timeout, nccl);
      return std::make_shared<World>(make_local_engine(rank, size), given, rank, size, false, nccl);
    }));
  });
}

PyObject* announce_rank(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* store;
    int rank;
    parse(args, "Oi", &store, &rank);
    const auto given = store_of(store);
    unlocked([&] { announce(*given, rank); });
    return none();
  });
}

PyObject* lost_rank(PyObject*, PyObject* store) {
  return guarded([&] {
    const auto given = store_of(store);
    const std::string lost = unlocked([&] { return lost_one(*given); });
    return check(PyUnicode_FromStringAndSize(lost.data(), static_cast<Py_ssize_t>(lost.size())));
  });
}

PyObject* world_everybody(PyObject* self, PyObject*) {
  return guarded([&] { return hold<GroupRef>({held<WorldRef>(self), held<WorldRef>(self)->everybody()}); });
}

PyObject* world_make_group(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* ranks;
    const char* name;
    int locally, nccl;
    double timeout;
    parse(args, "Ospdp", &ranks, &name, &locally, &timeout, &nccl);
    const WorldRef world = held<WorldRef>(self);
    const std::vector<int> numbers = ranks_of(ranks);
    const CallSite site = call_site();
    auto group = unlocked([&] { return world->make_group(numbers, name, locally, timeout, site, nccl); });
    return group ? hold<GroupRef>({world, std::move(group)}) : none();
  });
}

PyObject* world_leave(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* exception;
    parse(args, "s", &exception);
    const WorldRef world = held<WorldRef>(self);
    unlocked([&] { world->leave(exception); });
    return none();
  });
}

Owned sizes_list(const std::vector<std::vector<int64_t>>& sizes) {
  Owned list(check(PyList_New(0)));
  for (const auto& one : sizes) {
    Owned numbers(check(PyList_New(0)));
    for (int64_t n : one) check(PyList_Append(numbers.get(), Owned(check(PyLong_FromLongLong(n))).get()));
    check(PyList_Append(list.get(), numbers.get()));
  }
  return list;
}

PyObject* world_records(PyObject* self, PyObject*) {
  return guarded([&] {
    const WorldRef world = held<WorldRef>(self);
    const auto records = unlocked([&] { return world->records(); });
    Owned list(check(PyList_New(0)));
    for (const Record& r : records) {
      const Owned in = sizes_list(r.in), out = sizes_list(r.out);
      const std::string dtype(name(r.dtype));
      const Owned record(check(Py_BuildValue(
          "(KKissisOOsidddds)", static_cast<unsigned long long>(r.number), static_cast<unsigned long long>(r.sequence),
          static_cast<int>(r.kind), r.name, r.group.c_str(), r.root, dtype.c_str(), in.get(), out.get(), r.site.file,
          r.site.line, r.timeout, r.created, r.started, r.completed, r.failed ? "failed" : "")));
      check(PyList_Append(list.get(), record.get()));
    }
    return list.release();
  });
}

PyMethodDef world_methods[] = {
    {"records", world_records, METH_NOARGS,
     "[(number, sequence, kind, name, group, root, dtype, input_sizes, output_sizes, file, line, seconds, created, "
     "started, "
     "completed, failed)] of the last operations."},
    {"everybody", world_everybody, METH_NOARGS, "The group of all ranks."},
    {"make_group", world_make_group, METH_VARARGS,
     "(ranks, name, locally, seconds, nccl): the group, None for others."},
    {"leave", world_leave, METH_VARARGS,
     "(exception): notifies the others that this process goes, and ends its threads."},
    {}};

// ---- groups

struct RunArguments {
  int kind, reduction, root, tag, waits;
  const char* name;
  PyObject *in, *out, *in_splits, *out_splits;
  double factor, timeout;
};

Call call_of(const RunArguments& a) {
  Call call{.kind = static_cast<Kind>(a.kind), .name = lasting(a.name)};
  call.in = arg_tensors(a.in, Layouts::Keep);
  call.out = arg_tensors(a.out, Layouts::Keep);
  call.reduction = static_cast<Reduction>(a.reduction);
  call.factor = a.factor;
  call.root = a.root;
  call.tag = a.tag;
  call.in_splits = numbers_of(a.in_splits);
  call.out_splits = numbers_of(a.out_splits);
  call.timeout = a.timeout;
  call.site = call_site();
  return call;
}

/// As guarded(), and the flight recorder is written when an operation fails.
template <class F>
PyObject* recorded(F f) {
  PyObject* result = guarded(f);
  if (result) return result;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  dump_records(type);
  PyErr_Restore(type, value, trace);
  return nullptr;
}

PyObject* group_run(PyObject* self, PyObject* args) {
  return recorded([&] {
    RunArguments a;
    parse(args, "isOOidiiOOdp", &a.kind, &a.name, &a.in, &a.out, &a.reduction, &a.factor, &a.root, &a.tag, &a.in_splits,
          &a.out_splits, &a.timeout, &a.waits);
    FACULA_CHECK(a.kind >= 0 && a.kind <= static_cast<int>(Kind::Recv) && a.reduction >= 0 && a.reduction < kReductions,
                 ErrorKind::Value, a.name, ": there is no such collective, got ", a.kind);
    const GroupRef ref = held<GroupRef>(self);
    Call call = call_of(a);
    const auto op = unlocked([&] {
      return a.waits ? ref.world->run(ref.group, std::move(call)) : ref.world->submit(ref.group, std::move(call));
    });
    return a.waits && a.kind != static_cast<int>(Kind::Recv) ? none() : hold<WorkRef>({ref.world, op});
  });
}

PyObject* group_ranks(PyObject* self, PyObject*) {
  return guarded([&] {
    const auto& ranks = held<GroupRef>(self).group->ranks;
    Owned list(check(PyList_New(0)));
    for (int r : ranks) check(PyList_Append(list.get(), Owned(check(PyLong_FromLong(r))).get()));
    return list.release();
  });
}

PyObject* group_sequence(PyObject* self, PyObject*) {
  return guarded([&] { return check(PyLong_FromUnsignedLongLong(held<GroupRef>(self).group->issued)); });
}

PyObject* group_drop(PyObject* self, PyObject*) {
  return guarded([&] {
    const GroupRef& ref = held<GroupRef>(self);
    unlocked([&] { ref.world->drop_group(ref.group); });
    return none();
  });
}

PyObject* group_begin_batch(PyObject* self, PyObject*) {
  return guarded([&] {
    const GroupRef& ref = held<GroupRef>(self);
    unlocked([&] { ref.world->begin_batch(*ref.group); });
    return none();
  });
}
PyObject* group_end_batch(PyObject* self, PyObject*) {
  return guarded([&] {
    const GroupRef& ref = held<GroupRef>(self);
    unlocked([&] { ref.world->end_batch(*ref.group); });
    return none();
  });
}

PyObject* group_connect(PyObject* self, PyObject* args) {
  return guarded([&] {
    int device;
    double timeout;
    parse(args, "id", &device, &timeout);
    const GroupRef ref = held<GroupRef>(self);
    unlocked([&] { ref.world->connect(ref.group, {DeviceType::CUDA, static_cast<int8_t>(device)}, timeout); });
    return none();
  });
}

PyMethodDef group_methods[] = {
    {"run", group_run, METH_VARARGS,
     "(kind, name, inputs, outputs, reduction, factor, root, tag, input_splits, output_splits, seconds, wait)"},
    {"ranks", group_ranks, METH_NOARGS, "Ranks of the world, by rank of the group."},
    {"sequence", group_sequence, METH_NOARGS, "How many collectives were called."},
    {"drop", group_drop, METH_NOARGS, "Ends the group."},
    {"begin_batch", group_begin_batch, METH_NOARGS, "Messages from here to end_batch() are started together."},
    {"end_batch", group_end_batch, METH_NOARGS, "See begin_batch()."},
    {"connect", group_connect, METH_VARARGS, "(device, seconds): connects the CUDA devices of all its ranks."},
    {}};

// ---- operations

PyObject* work_wait(PyObject* self, PyObject* args) {
  return recorded([&] {
    double timeout;
    parse(args, "d", &timeout);
    const WorkRef ref = held<WorkRef>(self);
    return check(PyBool_FromLong(unlocked([&] { return ref.world->wait(*ref.op, timeout); })));
  });
}

PyObject* work_done(PyObject* self, PyObject*) {
  return guarded([&] {
    const WorkRef ref = held<WorkRef>(self);
    return PyBool_FromLong(unlocked([&] { return ref.world->is_done(*ref.op); }));
  });
}

PyObject* work_stream(PyObject* self, PyObject*) {
  return guarded([&] {
    const Operation& op = *held<WorkRef>(self).op;
    if (op.route == Route::Host) return none();
    return check(
        Py_BuildValue("(iK)", static_cast<int>(op.device.index), static_cast<unsigned long long>(op.caller.id)));
  });
}

PyObject* work_error(PyObject* self, PyObject*) {
  return guarded([&] {
    const Operation& op = *held<WorkRef>(self).op;
    return op.done() && op.error ? check(PyUnicode_FromString(op.error->what())) : none();
  });
}

PyObject* work_source(PyObject* self, PyObject*) { return PyLong_FromLong(held<WorkRef>(self).op->received.source); }

PyObject* work_text(PyObject* self, PyObject*) {
  return guarded([&] { return check(PyUnicode_FromString(held<WorkRef>(self).op->text().c_str())); });
}

PyObject* work_then(PyObject* self, PyObject* function) {
  return guarded([&] {
    const WorkRef ref = held<WorkRef>(self);
    Py_INCREF(function);
    unlocked([&] {
      ref.world->when_done(ref.op, [function] {
        WithLock lock;
        const Owned held(function);
        const Owned result(call_python(PyObject_CallNoArgs, function));
        if (!result) PyErr_WriteUnraisable(function);
      });
    });
    return none();
  });
}

PyMethodDef work_methods[] = {
    {"wait", work_wait, METH_VARARGS, "(seconds): whether it is done by then; negative waits for its own deadline."},
    {"done", work_done, METH_NOARGS, "Whether it is done."},
    {"error", work_error, METH_NOARGS, "What went wrong, or None."},
    {"stream", work_stream, METH_NOARGS, "(device, stream) that called it with tensors of a device, or None."},
    {"source", work_source, METH_NOARGS, "The rank in the group that sent."},
    {"text", work_text, METH_NOARGS, "What was called."},
    {"then", work_then, METH_O, "Calls a function when it is done, on some thread."},
    {}};

// ---- which libraries

PyObject* why_no_nccl_text(PyObject*, PyObject*) {
  return guarded([&] { return check(PyUnicode_FromString(unlocked([] { return why_no_nccl(); }).c_str())); });
}

PyObject* version_of_nccl(PyObject*, PyObject*) {
  return guarded([&] { return check(PyLong_FromLong(unlocked([] { return nccl_version(); }))); });
}

PyObject* run_among_devices(PyObject*, PyObject* args) {
  return guarded([&] {
    int kind, reduction, root;
    PyObject *in, *out;
    parse(args, "iOOii", &kind, &in, &out, &reduction, &root);
    FACULA_CHECK(kind >= 0 && kind <= static_cast<int>(Kind::Recv) && reduction >= 0 && reduction < kReductions,
                 ErrorKind::Value, "nccl: unknown collective or operation, got ", kind, " and ", reduction);
    const std::vector<Tensor> inputs = arg_tensors(in), outputs = arg_tensors(out);
    unlocked(
        [&] { run_on_devices(static_cast<Kind>(kind), inputs, outputs, static_cast<Reduction>(reduction), root); });
    return none();
  });
}

PyObject* id_for_nccl(PyObject*, PyObject*) {
  return guarded([&] {
    const std::string id = unlocked([] { return nccl_unique_id(); });
    return check(PyBytes_FromStringAndSize(id.data(), static_cast<Py_ssize_t>(id.size())));
  });
}

PyObject* mpi_candidates(PyObject*, PyObject* list) {
  return guarded([&] {
    const Owned items(check(snapshot(list, "expected a list of files")));
    std::vector<std::string> files;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
      files.emplace_back(utf8(PySequence_Fast_GET_ITEM(items.get(), i)));
    mpi::set_candidates(std::move(files));
    return none();
  });
}

PyObject* mpi_found_at(PyObject*, PyObject*) {
  return guarded([&] { return check(PyUnicode_FromString(unlocked([] { return mpi::found_at(); }).c_str())); });
}

PyMethodDef functions[] = {
    {"_dist_announce", announce_rank, METH_VARARGS, "(store, rank): others hear when this process is gone."},
    {"_dist_lost", lost_rank, METH_O, "(store): who is gone since, or an empty text."},
    {"_dist_world", make_world, METH_VARARGS, "(engine, store, rank, size, seconds, nccl): joins the other ranks."},
    {"_dist_mpi_candidates", mpi_candidates, METH_O, "(files): where an MPI library may be."},
    {"_dist_why_no_nccl", why_no_nccl_text, METH_NOARGS, "Why there is no NCCL; empty with one."},
    {"_dist_nccl_version", version_of_nccl, METH_NOARGS, "A number."},
    {"_dist_nccl_run", run_among_devices, METH_VARARGS,
     "(kind, inputs, outputs, reduction, root): a collective among devices of this process."},
    {"_dist_nccl_unique_id", id_for_nccl, METH_NOARGS, "Bytes."},
    {"_dist_mpi", mpi_found_at, METH_NOARGS, "The file of the MPI library that is used; empty without one."},
    {}};

}  // namespace

void dump_records(PyObject* error) {
  if (!std::getenv("FACULA_FLIGHT_RECORDER")) return;
  const Owned module(PyImport_ImportModule("facula.distributed._recorder"));
  const Owned done(module ? call_python(PyObject_CallMethod, module.get(), "dump_after", "O", error) : nullptr);
  if (!done) PyErr_WriteUnraisable(module.get());
}

void init_process_groups(PyObject* module) {
  make_type<WorldRef>(module, "facula._C._World", world_methods, "Processes that work together.");
  make_type<GroupRef>(module, "facula._C._Group", group_methods, "Some of them.");
  make_type<WorkRef>(module, "facula._C._Work", work_methods, "A collective or a message under way.");
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python
