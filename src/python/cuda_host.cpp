// Pinned memory of the host: tensors in it, and its statistics.
#include "cuda/device.h"
#include "cuda/host_allocator.h"
#include "ops/pinned.h"
#include "python/args.h"
#include "python/objects.h"

namespace facula::python {
namespace {

const Tensor& tensor_argument(PyObject* o, const char* name) {
  FACULA_CHECK(is_tensor(o), ErrorKind::Type, name, ": expected a tensor, got ", Py_TYPE(o)->tp_name);
  return strided_tensor_of(o);
}

PyObject* is_pinned(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(ops::is_pinned(tensor_argument(o, "is_pinned").storage())); });
}
PyObject* pinned_empty_like(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_argument(o, "pin_memory");
    FACULA_CHECK(t.device().is_cpu(), ErrorKind::Runtime,
                 "pin_memory: only dense tensors of the CPU can be pinned, got one on ", t.device());
    return wrap(ops::pinned_empty(t.sizes(), preserved_strides(t.sizes(), t.strides()), t.dtype()));
  });
}

// ---- statistics

struct Entry {
  const char* name;
  int64_t value;
};
PyObject* dict_of(std::initializer_list<Entry> entries) {
  Owned dict(check(PyDict_New()));
  for (const Entry& e : entries) {
    Owned value(check(PyLong_FromLongLong(e.value)));
    check(PyDict_SetItemString(dict.get(), e.name, value.get()));
  }
  return dict.release();
}
PyObject* dict_of(const cuda::Stat& s) {
  return dict_of({{"current", s.current}, {"peak", s.peak}, {"allocated", s.allocated}, {"freed", s.freed}});
}
PyObject* dict_of(const cuda::Durations& d) {
  const int64_t average = d.count ? d.total / d.count : 0;
  return dict_of({{"total", d.total}, {"max", d.most}, {"min", d.least}, {"count", d.count}, {"avg", average}});
}

PyObject* host_stats(PyObject*, PyObject*) {
  return guarded([] {
    const cuda::HostStats s = cuda::host_stats();
    return check(Py_BuildValue("{sNsNsNsNsLsLsNsN}", "allocations", dict_of(s.blocks), "allocated_bytes",
                               dict_of(s.bytes), "active_requests", dict_of(s.used_blocks), "active_bytes",
                               dict_of(s.used_bytes), "num_host_alloc", static_cast<long long>(s.driver_allocations),
                               "num_host_free", static_cast<long long>(s.driver_frees), "host_alloc_time",
                               dict_of(s.allocation_time), "host_free_time", dict_of(s.free_time)));
  });
}

template <void (*run)()>
PyObject* after(PyObject*, PyObject*) {
  return guarded([] {
    if (cuda::is_available()) run();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_is_pinned", is_pinned, METH_O, "(tensor): whether it lies in pinned memory."},
    {"_pinned_empty_like", pinned_empty_like, METH_O, "(tensor): pinned memory for its elements."},
    {"_cuda_host_stats", host_stats, METH_NOARGS, "Counters of pinned memory, as dicts."},
    {"_cuda_reset_peak_host", after<cuda::reset_peak_host_stats>, METH_NOARGS, "Peaks begin at current values."},
    {"_cuda_reset_accumulated_host", after<cuda::reset_accumulated_host_stats>, METH_NOARGS, "Sums begin at zero."},
    {"_host_emptyCache", after<cuda::empty_pinned_cache>, METH_NOARGS, "Gives unused pinned memory back."},
    {}};

}  // namespace

void init_cuda_host(PyObject* module);  // called by module.cpp
void init_cuda_host(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
