// Devices and libraries of facula.cuda. Devices are numbers here.
#include "core/parallel.h"
#include "core/recipe.h"
#include "cuda/collectives.h"
#include "cuda/dnn_graph.h"
#include "cuda/flags.h"
#include "cuda/stream.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

constexpr const char* kNccl = "nccl";

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
PyObject* current_device(PyObject*, PyObject*) { return PyLong_FromLong(cuda::current_index()); }
PyObject* set_device(PyObject*, PyObject* args) {
  return none_after([&] { cuda::set_current_index(CudaArguments(args, 1, "set_device").device(0, "set_device")); });
}

PyObject* device_properties(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Properties& p =
        cuda::properties(CudaArguments(args, 1, "get_device_properties").device(0, "get_device_properties"));
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
    const CudaArguments given(args, 2, "can_device_access_peer");
    int can = 0;
    FACULA_CUDA_CALL(cuDeviceCanAccessPeer, &can, given.device(0, "can_device_access_peer"),
                     given.device(1, "can_device_access_peer"));
    return wrap(can != 0);
  });
}

// Whoever waits lets other threads of Python run.
PyObject* synchronize_device(PyObject*, PyObject* args) {
  return none_after([&] {
    const int device = CudaArguments(args, 1, "synchronize").device(0, "synchronize");
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("synchronize");
    cuda::synchronize_device(device);
  });
}

PyObject* set_wait_mode(PyObject*, PyObject* args) {
  constexpr const char* name = "set_sync_debug_mode";
  return none_after([&] {
    const int64_t mode = CudaArguments(args, 1, name).integer(0);
    FACULA_CHECK(mode >= 0 && mode <= 2, ErrorKind::Runtime, name, ": 0, 1 or 2, got ", mode);
    cuda::set_wait_mode(static_cast<cuda::WaitMode>(mode));
  });
}
PyObject* get_wait_mode(PyObject*, PyObject*) { return PyLong_FromLong(static_cast<int>(cuda::wait_mode())); }

PyObject* profiler_control(PyObject*, PyObject* args) {
  return guarded([&] {
    const bool begin = CudaArguments(args, 1, "cudart").integer(0) != 0;
    const auto& d = cuda::driver();
    return PyLong_FromLong(begin ? d.cuProfilerStart() : d.cuProfilerStop());
  });
}
PyObject* error_text(PyObject*, PyObject* args) {
  return guarded([&] {
    const int64_t error = CudaArguments(args, 1, "cudart").integer(0);
    const char* found = nullptr;
    if (cuda::is_available()) cuda::driver().cuGetErrorString(static_cast<CUresult>(error), &found);
    return text(found ? found : "unrecognized error code");
  });
}

// Graphs compare addresses: unlike data_ptr() this does not say that others may write there.
PyObject* address_of(PyObject*, PyObject* tensor) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(tensor), ErrorKind::Type, "_cuda_address: expected a tensor, got ",
                 Py_TYPE(tensor)->tp_name);
    const Tensor& t = tensor_of(tensor);
    materialize_bytes(t);
    return check(PyLong_FromVoidPtr(t.impl()->data));
  });
}

// ---- libraries

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
    const char* name = PyUnicode_AsUTF8(CudaArguments(args, 1, "_cuda_library").object(0));
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

PyObject* set_flag(PyObject*, PyObject* args) {
  return none_after([&] {
    const CudaArguments given(args, 2, "_cuda_set_flag");
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

PyMethodDef functions[] = {
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
    {}};

}  // namespace

void init_cuda_activity(PyObject* module);
void init_cuda_stats(PyObject* module);
void init_cuda_streams(PyObject* module);
void init_cuda_tuning(PyObject* module);
void init_nvtx(PyObject* module);
void init_cuda(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  init_cuda_streams(module);
  init_cuda_stats(module);
  init_cuda_activity(module);
  init_cuda_tuning(module);
  init_nvtx(module);
}

}  // namespace facula::python
