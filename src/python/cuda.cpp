// What facula.cuda is made of: devices, streams, events and memory of CUDA. Devices are numbers here, streams the
// numbers of their handles.
//
// Long because it is one table of functions with a few lines each.
#include "core/parallel.h"
#include "core/recipe.h"
#include "cuda/activity.h"
#include "cuda/allocator.h"
#include "cuda/allocator_settings.h"
#include "cuda/collectives.h"
#include "cuda/device.h"
#include "cuda/dnn_graph.h"
#include "cuda/flags.h"
#include "cuda/jiterate.h"
#include "cuda/stream.h"
#include "cuda/tuning.h"
#include "python/args.h"
#include "python/cuda_objects.h"
#include "python/objects.h"

namespace facula::python {
namespace {

// ---- arguments

/// The arguments of a call, all of them integers or objects that the caller looks at.
class Given {
 public:
  Given(PyObject* tuple, Py_ssize_t count, const char* name) : tuple_(tuple) {
    FACULA_CHECK(PyTuple_GET_SIZE(tuple) == count, ErrorKind::Type, name, ": expected ", count, " arguments, got ",
                 PyTuple_GET_SIZE(tuple));
  }
  PyObject* object(Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_, i); }
  int64_t integer(Py_ssize_t i) const { return to_int(object(i)); }
  int device(Py_ssize_t i, const char* name) const {
    cuda::check_not_forked(name);
    const int64_t index = integer(i);
    FACULA_CHECK(index >= 0 && index < cuda::device_count(), ErrorKind::Runtime, name, ": a CUDA device of the ",
                 cuda::device_count(), " that there are, got ", index);
    return static_cast<int>(index);
  }
  /// Of two arguments, the device and the handle.
  Stream stream(Py_ssize_t i, const char* name) const {
    const unsigned long long handle = PyLong_AsUnsignedLongLong(object(i + 1));
    if (PyErr_Occurred()) throw PythonError{};
    return {{DeviceType::CUDA, static_cast<int8_t>(device(i, name))}, handle};
  }

 private:
  PyObject* tuple_;
};

template <class F>
PyObject* none_after(F f) {
  return guarded([&] {
    f();
    return Py_NewRef(Py_None);
  });
}

PyObject* text(const std::string& s) {
  return check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

void put(PyObject* dict, const char* key, PyObject* fresh) {
  Owned value(check(fresh));
  check(PyDict_SetItemString(dict, key, value.get()));
}
void put(PyObject* dict, const std::string& key, int64_t number) {
  put(dict, key.c_str(), PyLong_FromLongLong(number));
}

// ---- devices

PyObject* device_count(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLong(cuda::device_count()); });
}
PyObject* why_unavailable(PyObject*, PyObject*) {
  return guarded([] { return text(cuda::why_unavailable()); });
}
PyObject* is_in_bad_fork(PyObject*, PyObject*) { return wrap(cuda::is_forked_child); }
PyObject* is_emulated(PyObject*, PyObject*) {
  return guarded([] { return wrap(cuda::is_emulated() && cuda::is_available()); });
}
constexpr const char* kNccl = "nccl";

PyObject* library_names(PyObject*, PyObject*) {
  return guarded([] {
    Owned names(check(PyList_New(0)));
    for (int i = 0; i < cuda::kLibraries; ++i)
      check(PyList_Append(names.get(), Owned(text(cuda::name_of(static_cast<cuda::Library>(i)))).get()));
    check(PyList_Append(names.get(), Owned(text(kNccl)).get()));
    return names.release();
  });
}
PyObject* library(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* name = PyUnicode_AsUTF8(Given(args, 1, "_cuda_library").object(0));
    check(name != nullptr);
    const auto place = [](const cuda::OpenedLibrary& opened) {
      return check(Py_BuildValue("(Os)", opened.handle ? Py_True : Py_False,
                                 (opened.handle ? opened.path : opened.error).c_str()));
    };
    if (std::string_view(name) == kNccl) return place(cuda::opened_collectives());
    for (int i = 0; i < cuda::kLibraries; ++i) {
      const auto library = static_cast<cuda::Library>(i);
      if (std::string_view(name) == cuda::name_of(library)) return place(cuda::opened(library));
    }
    throw_error(ErrorKind::Value, "_cuda_library: there is no library ", name);
  });
}
PyObject* current_device(PyObject*, PyObject*) { return PyLong_FromLong(cuda::current_index()); }
PyObject* set_device(PyObject*, PyObject* args) {
  return none_after([&] { cuda::set_current_index(Given(args, 1, "set_device").device(0, "set_device")); });
}

PyObject* device_properties(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Properties& p =
        cuda::properties(Given(args, 1, "get_device_properties").device(0, "get_device_properties"));
    Owned dict(check(PyDict_New()));
    put(dict.get(), "name", text(p.name));
    const struct {
      const char* name;
      int64_t value;
    } numbers[] = {
        {"major", p.major},
        {"minor", p.minor},
        {"total_memory", static_cast<int64_t>(p.total_memory)},
        {"multi_processor_count", p.multiprocessors},
        {"is_integrated", p.integrated},
        {"is_multi_gpu_board", p.multi_gpu_board},
        {"max_threads_per_multi_processor", p.threads_per_multiprocessor},
        {"max_threads_per_block", p.threads_per_block},
        {"warp_size", p.warp_size},
        {"regs_per_multiprocessor", p.registers_per_multiprocessor},
        {"shared_memory_per_block", static_cast<int64_t>(p.shared_per_block)},
        {"shared_memory_per_block_optin", static_cast<int64_t>(p.shared_per_block_optin)},
        {"shared_memory_per_multiprocessor", static_cast<int64_t>(p.shared_per_multiprocessor)},
        {"L2_cache_size", static_cast<int64_t>(p.l2_bytes)},
        {"clock_rate", p.clock_khz},
        {"memory_clock_rate", p.memory_clock_khz},
        {"memory_bus_width", p.memory_bus_bits},
        {"pci_domain_id", p.pci_domain},
        {"pci_bus_id", p.pci_bus},
        {"pci_device_id", p.pci_device},
    };
    for (const auto& n : numbers) put(dict.get(), n.name, n.value);
    put(dict.get(), "uuid", check(PyBytes_FromStringAndSize(p.uuid.bytes, sizeof p.uuid.bytes)));
    return dict.release();
  });
}

PyObject* can_access_peer(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2, "can_device_access_peer");
    int can = 0;
    FACULA_CUDA_CALL(cuDeviceCanAccessPeer, &can, given.device(0, "can_device_access_peer"),
                     given.device(1, "can_device_access_peer"));
    return wrap(can != 0);
  });
}

// Whoever waits lets other threads of Python run.
PyObject* synchronize_device(PyObject*, PyObject* args) {
  return none_after([&] {
    const int device = Given(args, 1, "synchronize").device(0, "synchronize");
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("synchronize");
    cuda::synchronize_device(device);
  });
}

PyObject* set_wait_mode(PyObject*, PyObject* args) {
  constexpr const char* name = "set_sync_debug_mode";
  return none_after([&] {
    const int64_t mode = Given(args, 1, name).integer(0);
    FACULA_CHECK(mode >= 0 && mode <= 2, ErrorKind::Runtime, name, ": 0, 1 or 2, got ", mode);
    cuda::set_wait_mode(static_cast<cuda::WaitMode>(mode));
  });
}
PyObject* get_wait_mode(PyObject*, PyObject*) { return PyLong_FromLong(static_cast<int>(cuda::wait_mode())); }

PyObject* profiler_control(PyObject*, PyObject* args) {
  return guarded([&] {
    const bool begin = Given(args, 1, "cudart").integer(0) != 0;
    const auto& d = cuda::driver();
    return PyLong_FromLong(begin ? d.cuProfilerStart() : d.cuProfilerStop());
  });
}
PyObject* error_text(PyObject*, PyObject* args) {
  return guarded([&] {
    const int64_t error = Given(args, 1, "cudart").integer(0);
    const char* found = nullptr;
    if (cuda::is_available()) cuda::driver().cuGetErrorString(static_cast<CUresult>(error), &found);
    return text(found ? found : "unrecognized error code");
  });
}

// ---- streams

// What was called before goes to its stream before another one is requested, or anything is said of a stream: ops of
// compiled functions may wait (core/recipe.h).

PyObject* stream_number(Stream stream) { return check(PyLong_FromUnsignedLongLong(stream.id)); }

PyObject* current_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    return stream_number(cuda::current_stream(Given(args, 1, "current_stream").device(0, "current_stream")));
  });
}
// what a graph is compared by: unlike data_ptr() it does not say that others may write there
PyObject* address_of(PyObject*, PyObject* tensor) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(tensor), ErrorKind::Type, "_cuda_address: a tensor, got ", Py_TYPE(tensor)->tp_name);
    const Tensor& t = tensor_of(tensor);
    materialize_bytes(t);
    return check(PyLong_FromVoidPtr(t.impl()->data));
  });
}
PyObject* set_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const Stream stream = Given(args, 2, "set_stream").stream(0, "set_stream");
    run_waiting();  // the one before may soon be destroyed
    cuda::set_current_stream(stream);
  });
}
PyObject* new_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2, "Stream");
    return stream_number(cuda::stream_from_pool(given.device(0, "Stream"), static_cast<int>(given.integer(1))));
  });
}
PyObject* query_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    const Stream stream = Given(args, 2, "Stream.query").stream(0, "Stream.query");
    run_waiting();
    cuda::OpName name("Stream.query");
    return wrap(cuda::is_done(stream));
  });
}
PyObject* synchronize_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const Stream stream = Given(args, 2, "Stream.synchronize").stream(0, "Stream.synchronize");
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("Stream.synchronize");
    cuda::synchronize(stream);
    cuda::judge_wait();
  });
}
PyObject* record_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const Given given(args, 3, "record_stream");
    FACULA_CHECK(is_tensor(given.object(0)), ErrorKind::Type, "record_stream: a tensor, got ",
                 Py_TYPE(given.object(0))->tp_name);
    const Tensor& t = tensor_of(given.object(0));
    FACULA_CHECK(t.device().is_cuda(), ErrorKind::NotImplemented, "record_stream: a CUDA tensor, got one on ",
                 t.device());
    materialize_bytes(t);
    if (t.storage()->data) cuda::record_stream(t.storage()->data, given.stream(1, "record_stream"));
  });
}

// ---- events

constexpr const char* kEvent = "facula.cuda.Event";

}  // namespace

cuda::Event& cuda_event_of(PyObject* capsule) {
  void* event = PyCapsule_GetPointer(capsule, kEvent);
  if (!event) throw PythonError{};
  return *static_cast<cuda::Event*>(event);
}
PyObject* wrap_cuda_event(cuda::Event event) {
  return check(PyCapsule_New(new cuda::Event(std::move(event)), kEvent, [](PyObject* o) { delete &cuda_event_of(o); }));
}

namespace {

PyObject* new_event(PyObject*, PyObject* args) {
  return guarded(
      [&] { return wrap_cuda_event(cuda::Event(static_cast<unsigned>(Given(args, 1, "Event").integer(0)))); });
}
PyObject* record_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const Given given(args, 3, "Event.record");
    run_waiting();
    cuda::OpName name("Event.record");
    cuda_event_of(given.object(0)).record(given.stream(1, "Event.record"));
  });
}
PyObject* block_on_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const Given given(args, 3, "Event.wait");
    run_waiting();
    cuda::OpName name("Event.wait");
    cuda_event_of(given.object(0)).block(given.stream(1, "Event.wait"));
  });
}
PyObject* event_id(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Event& event = cuda_event_of(Given(args, 1, "Event.event_id").object(0));
    return check(PyLong_FromUnsignedLongLong(reinterpret_cast<uintptr_t>(event.get())));
  });
}
PyObject* query_event(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Event& event = cuda_event_of(Given(args, 1, "Event.query").object(0));
    run_waiting();
    cuda::OpName name("Event.query");
    return wrap(event.is_done());
  });
}
PyObject* synchronize_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const cuda::Event& event = cuda_event_of(Given(args, 1, "Event.synchronize").object(0));
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("Event.synchronize");
    event.synchronize();
  });
}
PyObject* elapsed(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2, "Event.elapsed_time");
    cuda::OpName name("Event.elapsed_time");
    return wrap(static_cast<double>(cuda_event_of(given.object(0)).elapsed(cuda_event_of(given.object(1)))));
  });
}

// ---- memory

void put_stats(PyObject* dict, const char* name, const cuda::Stats3& stats) {
  const struct {
    const char* pool;
    const cuda::Stat& stat;
  } pools[] = {{"all", stats.all}, {"small_pool", stats.small}, {"large_pool", stats.large}};
  for (const auto& [pool, stat] : pools) {
    const std::string key = std::string(name) + "." + pool + ".";
    put(dict, key + "current", stat.current);
    put(dict, key + "peak", stat.peak);
    put(dict, key + "allocated", stat.allocated);
    put(dict, key + "freed", stat.freed);
  }
}

PyObject* memory_stats(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::AllocatorStats s = cuda::allocator_stats(Given(args, 1, "memory_stats").device(0, "memory_stats"));
    Owned dict(check(PyDict_New()));
    const struct {
      const char* name;
      const cuda::Stats3& stats;
    } all[] = {{"allocation", s.allocation},
               {"segment", s.segment},
               {"active", s.active},
               {"inactive_split", s.inactive_split},
               {"allocated_bytes", s.allocated_bytes},
               {"reserved_bytes", s.reserved_bytes},
               {"active_bytes", s.active_bytes},
               {"inactive_split_bytes", s.inactive_split_bytes},
               {"requested_bytes", s.requested_bytes}};
    for (const auto& [name, stats] : all) put_stats(dict.get(), name, stats);
    put(dict.get(), std::string("num_alloc_retries"), s.retries);
    put(dict.get(), std::string("num_ooms"), s.out_of_memory);
    put(dict.get(), std::string("num_device_alloc"), s.driver_allocations);
    put(dict.get(), std::string("num_device_free"), s.driver_frees);
    return dict.release();
  });
}

PyObject* memory_snapshot(PyObject*, PyObject*) {
  return guarded([] {
    Owned list(check(PyList_New(0)));
    for (const cuda::SegmentSnapshot& s : cuda::memory_snapshot()) {
      Owned segment(check(PyDict_New()));
      put(segment.get(), "device", PyLong_FromLong(s.device));
      put(segment.get(), "address", PyLong_FromUnsignedLongLong(s.address));
      put(segment.get(), "stream", PyLong_FromUnsignedLongLong(s.stream));
      put(segment.get(), "total_size", PyLong_FromSize_t(s.total));
      put(segment.get(), "allocated_size", PyLong_FromSize_t(s.allocated));
      put(segment.get(), "active_size", PyLong_FromSize_t(s.active));
      put(segment.get(), "segment_type", text(s.is_small ? "small" : "large"));
      put(segment.get(), "is_expandable", wrap(s.is_expandable));
      put(segment.get(), "segment_pool_id", PyLong_FromUnsignedLongLong(s.pool));
      Owned blocks(check(PyList_New(0)));
      for (const cuda::BlockSnapshot& b : s.blocks) {
        Owned block(check(PyDict_New()));
        put(block.get(), "address", PyLong_FromUnsignedLongLong(b.address));
        put(block.get(), "size", PyLong_FromSize_t(b.size));
        put(block.get(), "requested_size", PyLong_FromSize_t(b.requested));
        put(block.get(), "state", text(b.state));
        put(block.get(), "tensor", text(b.tensor));
        put(block.get(), "stack", PyLong_FromUnsignedLong(b.place));
        check(PyList_Append(blocks.get(), block.get()));
      }
      put(segment.get(), "blocks", blocks.release());
      check(PyList_Append(list.get(), segment.get()));
    }
    return list.release();
  });
}

PyObject* empty_cache(PyObject*, PyObject*) {
  return none_after([] {
    LockRelease release(true);
    cuda::empty_cache();
  });
}
PyObject* reset_peak(PyObject*, PyObject* args) {
  return none_after(
      [&] { cuda::reset_peak_stats(Given(args, 1, "reset_peak_memory_stats").device(0, "reset_peak_memory_stats")); });
}
PyObject* reset_accumulated(PyObject*, PyObject* args) {
  constexpr const char* name = "reset_accumulated_memory_stats";
  return none_after([&] { cuda::reset_accumulated_stats(Given(args, 1, name).device(0, name)); });
}
PyObject* set_fraction(PyObject*, PyObject* args) {
  constexpr const char* name = "set_per_process_memory_fraction";
  return none_after([&] {
    const Given given(args, 2, name);
    const double fraction = to_float(given.object(1));
    FACULA_CHECK(fraction >= 0 && fraction <= 1, ErrorKind::Value, name,
                 ": a share of the memory between 0 and 1, got ", fraction);
    cuda::set_memory_fraction(fraction, given.device(0, name));
  });
}
PyObject* get_fraction(PyObject*, PyObject* args) {
  constexpr const char* name = "get_per_process_memory_fraction";
  return guarded([&] { return wrap(cuda::memory_fraction(Given(args, 1, name).device(0, name))); });
}
PyObject* memory_info(PyObject*, PyObject* args) {
  return guarded([&] {
    cuda::DeviceGuard guard(Given(args, 1, "mem_get_info").device(0, "mem_get_info"));
    size_t free = 0, total = 0;
    FACULA_CUDA_CALL(cuMemGetInfo_v2, &free, &total);
    return check(Py_BuildValue("(nn)", static_cast<Py_ssize_t>(free), static_cast<Py_ssize_t>(total)));
  });
}

PyObject* allocator_settings(PyObject*, PyObject*) {
  return guarded([] { return text(cuda::allocator_settings_text()); });
}
PyObject* set_allocator_settings(PyObject*, PyObject* settings) {
  return none_after([&] {
    FACULA_CHECK(PyUnicode_Check(settings), ErrorKind::Type, "_set_allocator_settings: a str, got ",
                 Py_TYPE(settings)->tp_name);
    cuda::set_allocator_settings(utf8(settings));
  });
}
PyObject* record_places(PyObject*, PyObject* on) {
  return none_after([&] { cuda::record_places(to_bool(on)); });
}

// ---- libraries

PyObject* set_flag(PyObject*, PyObject* args) {
  return none_after([&] {
    const Given given(args, 2, "_cuda_set_flag");
    const char* name = PyUnicode_AsUTF8(given.object(0));
    check(name != nullptr);
    FACULA_CHECK(cuda::flags().set(name, static_cast<int>(to_int(given.object(1)))), ErrorKind::Value,
                 "_cuda_set_flag: there is no flag ", name);
  });
}

PyObject* cudnn_version(PyObject*, PyObject*) {
  return guarded([] {
    FACULA_CHECK(cuda::dnn::is_there(), ErrorKind::Runtime, cuda::opened(cuda::Library::Dnn).error);
    return check(PyLong_FromSize_t(cuda::dnn::functions().cudnnGetVersion()));
  });
}

// ---- profilers

PyObject* activity_start(PyObject*, PyObject*) {
  return none_after([] {
    LockRelease release(true);
    cuda::start_activity();
  });
}

PyObject* activity_row(const cuda::Activity& a) {
  constexpr const char* kinds[] = {"work", "kernel", "gpu_memcpy", "gpu_memset"};
  return check(Py_BuildValue("(szsiKLLLLIK(iii)(iii)iiK)", kinds[static_cast<size_t>(a.kind)], a.kernel, a.name.c_str(),
                             a.device, static_cast<unsigned long long>(a.stream), static_cast<long long>(a.thread),
                             static_cast<long long>(a.queued), static_cast<long long>(a.begin),
                             static_cast<long long>(a.end), a.call, static_cast<unsigned long long>(a.graph_node),
                             a.grid[0], a.grid[1], a.grid[2], a.block[0], a.block[1], a.block[2], a.registers,
                             a.shared_bytes, static_cast<unsigned long long>(a.bytes)));
}
PyObject* activity_call(const cuda::QueueingCall& c) {
  return check(Py_BuildValue("(ILLLs)", c.number, static_cast<long long>(c.thread), static_cast<long long>(c.begin),
                             static_cast<long long>(c.end), c.name));
}
PyObject* activity_stop(PyObject*, PyObject*) {
  return guarded([] {
    cuda::Activities found;
    {
      LockRelease release(true);
      found = cuda::stop_activity();
    }
    Owned done(check(PyList_New(0))), calls(check(PyList_New(0)));
    for (const cuda::Activity& a : found.done) check(PyList_Append(done.get(), Owned(activity_row(a)).get()));
    for (const cuda::QueueingCall& c : found.calls) check(PyList_Append(calls.get(), Owned(activity_call(c)).get()));
    return check(Py_BuildValue("(OOKs)", done.get(), calls.get(), static_cast<unsigned long long>(found.lost),
                               cuda::activity_source()));
  });
}

// ---- the fastest ways of products

PyObject* tuning_set(PyObject*, PyObject* args) {
  const char* name;
  double value;
  if (!PyArg_ParseTuple(args, "sd", &name, &value)) return nullptr;
  return none_after([&] {
    cuda::Tuning& t = cuda::tuning();
    const std::string_view what = name;
    if (what == "enabled") t.enabled = value != 0;
    else if (what == "tunes") t.tunes = value != 0;
    else if (what == "records_untuned") t.records_untuned = value != 0;
    else if (what == "checks") t.checks = value != 0;
    else if (what == "most_milliseconds") t.most_milliseconds = static_cast<int>(value);
    else if (what == "most_iterations") t.most_iterations = static_cast<int>(value);
    else if (what == "atol") t.atol = value;
    else if (what == "rtol") t.rtol = value;
    else FACULA_CHECK(false, ErrorKind::Value, "_cuda_tuning_set: there is no setting ", name);
    ++t.version;
  });
}
PyObject* tuning_settings(PyObject*, PyObject*) {
  return guarded([] {
    const cuda::Tuning& t = cuda::tuning();
    Owned settings(check(PyDict_New()));
    put(settings.get(), "enabled", t.enabled);
    put(settings.get(), "tunes", t.tunes);
    put(settings.get(), "records_untuned", t.records_untuned);
    put(settings.get(), "most_milliseconds", t.most_milliseconds);
    put(settings.get(), "most_iterations", t.most_iterations);
    return settings.release();
  });
}
PyObject* tuning_results(PyObject*, PyObject*) {
  return guarded([] {
    Owned rows(check(PyList_New(0)));
    for (const auto& [key, way] : cuda::tuning().results()) {
      Owned row(
          check(Py_BuildValue("(sssd)", key.first.c_str(), key.second.c_str(), way.way.c_str(), way.milliseconds)));
      check(PyList_Append(rows.get(), row.get()));
    }
    return rows.release();
  });
}
PyObject* tuning_validators(PyObject*, PyObject* device) {
  return guarded([&] {
    Owned rows(check(PyList_New(0)));
    for (const auto& [name, value] : cuda::tuning().validators(static_cast<int>(to_int(device))))
      check(PyList_Append(rows.get(), Owned(check(Py_BuildValue("(ss)", name.c_str(), value.c_str()))).get()));
    return rows.release();
  });
}
PyObject* tuning_path(PyObject*, PyObject* device) {
  return guarded([&] { return text(cuda::tuning().path(static_cast<int>(to_int(device)))); });
}
PyObject* tuning_set_path(PyObject*, PyObject* args) {
  const char* path;
  int with_device;
  if (!PyArg_ParseTuple(args, "sp", &path, &with_device)) return nullptr;
  return none_after([&] { cuda::tuning().set_path(path, with_device); });
}
PyObject* tuning_read(PyObject*, PyObject* args) {
  const char* path;
  int device;
  if (!PyArg_ParseTuple(args, "si", &path, &device)) return nullptr;
  return guarded([&] { return wrap(cuda::tuning().read(path, device)); });
}

// ---- kernels of a program's own

std::vector<Tensor> tensors_of(PyObject* tuple) {
  std::vector<Tensor> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, "jiterator: expected tensors, got ", Py_TYPE(item)->tp_name);
    found.push_back(strided_tensor_of(item));
  }
  return found;
}
PyObject* jiterate(PyObject*, PyObject* args) {
  const char* source;
  PyObject *results, *inputs, *values, *compute;
  if (!PyArg_ParseTuple(args, "sO!O!O!O", &source, &PyTuple_Type, &results, &PyTuple_Type, &inputs, &PyTuple_Type,
                        &values, &compute))
    return nullptr;
  return none_after([&] {
    const std::vector<Tensor> out = tensors_of(results), in = tensors_of(inputs), numbers = tensors_of(values);
    const DType dtype = to_dtype_value(compute);
    LockRelease release(true);
    cuda::jiterate(source, out, in, numbers, dtype);
  });
}

PyMethodDef functions[] = {
    {"_cuda_tuning_set", tuning_set, METH_VARARGS, "(name, value): a setting of src/cuda/tuning.h."},
    {"_cuda_tuning_settings", tuning_settings, METH_NOARGS, "The settings, as a dict."},
    {"_cuda_tuning_results", tuning_results, METH_NOARGS, "[(op, sizes, way, milliseconds)]"},
    {"_cuda_tuning_validators", tuning_validators, METH_O, "(device): [(name, value)] that a file must agree with."},
    {"_cuda_tuning_path", tuning_path, METH_O, "(device): the file."},
    {"_cuda_tuning_set_path", tuning_set_path, METH_VARARGS, "(path, whether the device's number goes into it)"},
    {"_cuda_tuning_read", tuning_read, METH_VARARGS, "(path, device): whether the file could be used."},
    {"_cuda_jiterate", jiterate, METH_VARARGS,
     "(source, results, inputs, values, compute dtype): queues the kernel around a program's function."},
    {"_cuda_activity_start", activity_start, METH_NOARGS, "What devices do is recorded from here on."},
    {"_cuda_activity_stop", activity_stop, METH_NOARGS,
     "([(kind, kernel, name, device, stream, thread, queued, begin, end, call, graph node, grid, block, registers,\n"
     "shared bytes, bytes)], [(call, thread, begin, end, name)], how many are lost, \"cupti\" or \"events\"), times "
     "in\n"
     "nanoseconds of the monotonic clock."},
    {"_cuda_device_count", device_count, METH_NOARGS, "How many CUDA devices there are."},
    {"_cuda_why_unavailable", why_unavailable, METH_NOARGS, "Why there are none; empty where there are some."},
    {"_cuda_is_in_bad_fork", is_in_bad_fork, METH_NOARGS, "Whether the parent of this process had begun to use CUDA."},
    {"_cuda_is_emulated", is_emulated, METH_NOARGS, "Whether devices are the emulated one."},
    {"_cuda_library_names", library_names, METH_NOARGS, "Those that Facula may open."},
    {"_cuda_library", library, METH_VARARGS, "(name): whether it is there, and its path or why not."},
    {"_cudnn_version", cudnn_version, METH_NOARGS, "A number."},
    {"_cuda_set_flag", set_flag, METH_VARARGS, "(name, value): one of src/cuda/flags.h."},
    {"_cuda_current_device", current_device, METH_NOARGS, "The current device's number."},
    {"_cuda_set_device", set_device, METH_VARARGS, "(device): makes it the current one."},
    {"_cuda_properties", device_properties, METH_VARARGS, "(device): what the device is like."},
    {"_cuda_can_access_peer", can_access_peer, METH_VARARGS, "(device, peer)"},
    {"_cuda_address", address_of, METH_O, "(tensor): where its elements lie now."},
    {"_cuda_synchronize", synchronize_device, METH_VARARGS, "(device): waits for all streams."},
    {"_cuda_set_wait_mode", set_wait_mode, METH_VARARGS, "(0, 1 or 2): waits are allowed, warned of, refused."},
    {"_cuda_get_wait_mode", get_wait_mode, METH_NOARGS, "Which of them."},
    {"_cuda_profiler_control", profiler_control, METH_VARARGS, "(begin): NVIDIA's profilers begin or end."},
    {"_cuda_error_text", error_text, METH_VARARGS, "(error): what an error of CUDA means."},
    {"_cuda_current_stream", current_stream, METH_VARARGS, "(device): the handle."},
    {"_cuda_set_stream", set_stream, METH_VARARGS, "(device, stream)"},
    {"_cuda_new_stream", new_stream, METH_VARARGS, "(device, priority): the handle of one of the pool."},
    {"_cuda_query_stream", query_stream, METH_VARARGS, "(device, stream): whether its work is done."},
    {"_cuda_synchronize_stream", synchronize_stream, METH_VARARGS, "(device, stream): waits."},
    {"_cuda_record_stream", record_stream, METH_VARARGS, "(tensor, device, stream)"},
    {"_cuda_new_event", new_event, METH_VARARGS, "(flags): an event that is nowhere yet."},
    {"_cuda_record_event", record_event, METH_VARARGS, "(event, device, stream)"},
    {"_cuda_block_on_event", block_on_event, METH_VARARGS, "(event, device, stream): the stream waits."},
    {"_cuda_event_id", event_id, METH_VARARGS, "(event): the driver's handle."},
    {"_cuda_query_event", query_event, METH_VARARGS, "(event): whether it was reached."},
    {"_cuda_synchronize_event", synchronize_event, METH_VARARGS, "(event): waits."},
    {"_cuda_elapsed", elapsed, METH_VARARGS, "(event, event): milliseconds."},
    {"_cuda_memory_stats", memory_stats, METH_VARARGS, "(device): counters by their full names."},
    {"_cuda_memory_snapshot", memory_snapshot, METH_NOARGS, "All segments with their blocks."},
    {"_cuda_allocator_settings", allocator_settings, METH_NOARGS, "The settings' text."},
    {"_cuda_set_allocator_settings", set_allocator_settings, METH_O, "(text): instead of the environment's."},
    {"_cuda_record_places", record_places, METH_O, "(on): whether the line that makes a block is noted."},
    {"_cuda_empty_cache", empty_cache, METH_NOARGS, "Gives unused segments back."},
    {"_cuda_reset_peak", reset_peak, METH_VARARGS, "(device)"},
    {"_cuda_reset_accumulated", reset_accumulated, METH_VARARGS, "(device)"},
    {"_cuda_set_memory_fraction", set_fraction, METH_VARARGS, "(device, fraction)"},
    {"_cuda_memory_fraction", get_fraction, METH_VARARGS, "(device)"},
    {"_cuda_memory_info", memory_info, METH_VARARGS, "(device): free and total bytes."},
    {}};

}  // namespace

void init_nvtx(PyObject* module);
void init_cuda(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  init_nvtx(module);
}

}  // namespace facula::python
