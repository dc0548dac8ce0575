// Memory of CUDA devices beyond tensors': raw blocks, pools, what the allocator did, and a program's own allocator.
#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/fft.h"
#include "cuda/memory_trace.h"
#include "cuda/pluggable_allocator.h"
#include "cuda/stream.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

int device_argument(int device, const char* name) {
  FACULA_CHECK(device >= 0 && device < cuda::device_count(), ErrorKind::Runtime, name, ": a CUDA device of the ",
               cuda::device_count(), " that there are, got ", device);
  return device;
}

// ---- raw blocks

PyObject* raw_allocate(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    constexpr const char* name = "caching_allocator_alloc";
    long long bytes;
    int device;
    unsigned long long stream;
    if (!PyArg_ParseTuple(args, "LiK", &bytes, &device, &stream)) return nullptr;
    FACULA_CHECK(bytes >= 0, ErrorKind::Value, name, ": expected a size of at least 0, got ", bytes);
    const Stream on{{DeviceType::CUDA, static_cast<int8_t>(device_argument(device, name))}, stream};
    cuda::set_current_op(name);
    return PyLong_FromVoidPtr(bytes ? cuda::allocate(static_cast<size_t>(bytes), device, on) : nullptr);
  });
}
PyObject* raw_release(PyObject*, PyObject* args) {
  return none_after([&] {
    unsigned long long address;
    int device;
    if (!PyArg_ParseTuple(args, "Ki", &address, &device)) throw PythonError{};
    cuda::release(reinterpret_cast<void*>(address), device_argument(device, "caching_allocator_delete"));
  });
}

// ---- pools

PyObject* new_pool(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromUnsignedLongLong(cuda::new_pool()); });
}
template <auto run>
PyObject* on_pool(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    unsigned long long pool;
    int device;
    if (!PyArg_ParseTuple(args, "Ki", &pool, &device)) return nullptr;
    device_argument(device, "MemPool");
    if constexpr (std::is_void_v<decltype(run(pool, device))>) {
      run(pool, device);
      return Py_NewRef(Py_None);
    } else {
      return PyLong_FromLong(run(pool, device));
    }
  });
}

// ---- what the allocator did

PyObject* record_trace(PyObject*, PyObject* args) {
  return none_after([&] {
    long long most;
    int forget;
    if (!PyArg_ParseTuple(args, "Lp", &most, &forget)) throw PythonError{};
    FACULA_CHECK(most >= 0, ErrorKind::Value, "_record_memory_history: max_entries of at least 0, got ", most);
    cuda::record_trace(static_cast<size_t>(most), forget);
  });
}
PyObject* memory_trace(PyObject*, PyObject* number) {
  return guarded([&] {
    const int device = device_argument(static_cast<int>(to_int(number)), "_snapshot");
    Owned list(check(PyList_New(0)));
    for (const cuda::TraceEntry& e : cuda::memory_trace(device)) {
      Owned entry(check(Py_BuildValue("(sKnKKIL)", e.action, static_cast<unsigned long long>(e.address),
                                      static_cast<Py_ssize_t>(e.size), static_cast<unsigned long long>(e.stream),
                                      static_cast<unsigned long long>(e.pool), e.place,
                                      static_cast<long long>(e.microseconds))));
      check(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}

PyObject* change_allocator(PyObject*, PyObject* args) {
  return none_after([&] {
    unsigned long long allocate, release;
    if (!PyArg_ParseTuple(args, "KK", &allocate, &release)) throw PythonError{};
    cuda::PluggableAllocator allocator{};
    allocator.allocate = reinterpret_cast<decltype(allocator.allocate)>(allocate);
    allocator.release = reinterpret_cast<decltype(allocator.release)>(release);
    cuda::change_allocator(allocator);
  });
}

// ---- plans of Fourier transforms

int plans_device(PyObject* number) { return device_argument(static_cast<int>(to_int(number)), "cufft_plan_cache"); }
PyObject* fft_plans(PyObject*, PyObject* device) {
  return guarded([&] {
    const int d = plans_device(device);
    return check(Py_BuildValue("(nn)", static_cast<Py_ssize_t>(cuda::fft_plans(d)),
                               static_cast<Py_ssize_t>(cuda::most_fft_plans(d))));
  });
}
PyObject* set_most_fft_plans(PyObject*, PyObject* args) {
  return none_after([&] {
    int device;
    long long most;
    if (!PyArg_ParseTuple(args, "iL", &device, &most)) throw PythonError{};
    FACULA_CHECK(most >= 0, ErrorKind::Runtime, "cufft_plan_cache: expected max_size of at least 0, got ", most);
    cuda::set_most_fft_plans(device_argument(device, "cufft_plan_cache"), static_cast<size_t>(most));
  });
}
PyObject* forget_fft_plans(PyObject*, PyObject* device) {
  return none_after([&] { cuda::forget_fft_plans(plans_device(device)); });
}

PyMethodDef functions[] = {
    {"_cuda_raw_allocate", raw_allocate, METH_VARARGS, "(bytes, device, stream): the address of a block."},
    {"_cuda_raw_release", raw_release, METH_VARARGS, "(address, device)"},
    {"_cuda_new_pool", new_pool, METH_NOARGS, "The number of a pool."},
    {"_cuda_keep_pool", on_pool<cuda::keep_pool>, METH_VARARGS, "(pool, device): one user more."},
    {"_cuda_release_pool", on_pool<cuda::release_pool>, METH_VARARGS, "(pool, device): one user fewer."},
    {"_cuda_pool_users", on_pool<cuda::pool_users>, METH_VARARGS, "(pool, device)"},
    {"_cuda_route_to_pool", on_pool<cuda::route_to_pool>, METH_VARARGS, "(pool, device): what this thread allocates."},
    {"_cuda_end_route", on_pool<cuda::end_route>, METH_VARARGS, "(pool, device)"},
    {"_cuda_record_trace", record_trace, METH_VARARGS, "(most, forget): keeps the allocator's last actions."},
    {"_cuda_memory_trace", memory_trace, METH_O,
     "(device): (action, address, size, stream, pool, stack, microseconds) of each."},
    {"_cuda_change_allocator", change_allocator, METH_VARARGS, "(allocate, release): addresses of functions."},
    {"_cuda_fft_plans", fft_plans, METH_O, "(device): how many are cached, and at most."},
    {"_cuda_set_most_fft_plans", set_most_fft_plans, METH_VARARGS, "(device, most)"},
    {"_cuda_forget_fft_plans", forget_fft_plans, METH_O, "(device)"},
    {}};

}  // namespace

void init_cuda_memory(PyObject* module);  // called by module.cpp
void init_cuda_memory(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
