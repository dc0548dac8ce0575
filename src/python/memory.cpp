// What facula.cpu reads of the CPU's allocator.
#include "core/os_memory.h"
#include "cpu/allocator.h"
#include "cpu/convolution.h"
#include "cpu/packed_weights.h"
#include "python/objects.h"

namespace facula::python {
namespace {

void put(PyObject* dict, const char* key, uint64_t value) {
  Owned number(check(PyLong_FromUnsignedLongLong(value)));
  check(PyDict_SetItemString(dict, key, number.get()));
}

PyObject* stats(PyObject*, PyObject*) {
  return guarded([] {
    cpu::MemoryStats s = cpu::memory_stats();
    Owned dict(check(PyDict_New()));
    put(dict.get(), "allocated_bytes.current", s.allocated_bytes.current);
    put(dict.get(), "allocated_bytes.peak", s.allocated_bytes.peak);
    put(dict.get(), "reserved_bytes.current", s.reserved_bytes.current);
    put(dict.get(), "reserved_bytes.peak", s.reserved_bytes.peak);
    put(dict.get(), "allocations.current", s.allocations.current);
    put(dict.get(), "allocations.peak", s.allocations.peak);
    put(dict.get(), "allocations.total", s.total_allocations);
    put(dict.get(), "cached_bytes", s.cached_bytes);
    put(dict.get(), "largest_free_block", s.largest_free_block);
    put(dict.get(), "segments", s.segments);
    put(dict.get(), "segment_bytes", s.segment_bytes);
    put(dict.get(), "hits", s.hits);
    put(dict.get(), "misses", s.misses);
    put(dict.get(), "trims", s.trims);
    put(dict.get(), "retries", s.retries);
    put(dict.get(), "failures", s.failures);
    put(dict.get(), "limit", s.limit);
    put(dict.get(), "budget", s.budget);
    return dict.release();
  });
}

PyObject* reset_peaks(PyObject*, PyObject*) {
  cpu::reset_peak_memory_stats();
  Py_RETURN_NONE;
}

PyObject* empty_cache(PyObject*, PyObject*) {
  cpu::empty_cache();
  Py_RETURN_NONE;
}

PyObject* set_limit(PyObject*, PyObject* value) {
  return guarded([&] {
    int64_t bytes = to_int(value);
    FACULA_CHECK(bytes >= 0, ErrorKind::Value, "set_memory_limit: a number of bytes, or 0 for none, got ", bytes);
    cpu::set_memory_limit(static_cast<size_t>(bytes));
    return Py_NewRef(Py_None);
  });
}

PyObject* total_memory(PyObject*, PyObject*) {
  return guarded([] { return wrap(static_cast<int64_t>(os::total_memory())); });
}

PyObject* set_private_layouts(PyObject*, PyObject* wanted) {
  return guarded([&] { return wrap(cpu::set_private_layouts(to_bool(wanted))); });
}

PyObject* set_packed_weights(PyObject*, PyObject* value) {
  return guarded([&] {
    int64_t bytes = to_int(value);
    FACULA_CHECK(bytes >= 0, ErrorKind::Value, "set_packed_weights: a number of bytes, or 0 for none, got ", bytes);
    return wrap(cpu::set_packed_limit(bytes));
  });
}

PyObject* packed_weights(PyObject*, PyObject*) {
  return guarded([&] {
    const cpu::PackedStats s = cpu::packed_stats();
    return Py_BuildValue("{s:L,s:L,s:L,s:L}", "bytes", static_cast<long long>(s.bytes), "copies",
                         static_cast<long long>(s.copies), "limit", static_cast<long long>(s.limit), "hits",
                         static_cast<long long>(s.hits));
  });
}

PyMethodDef functions[] = {
    {"_cpu_memory_stats", stats, METH_NOARGS, "Counters of the CPU's allocator."},
    {"_cpu_reset_peak_memory_stats", reset_peaks, METH_NOARGS, "Restarts the peaks at the current values."},
    {"_cpu_empty_cache", empty_cache, METH_NOARGS, "Gives cached memory back to the system."},
    {"_cpu_set_private_layouts", set_private_layouts, METH_O, "Whether images stay channels-last inside."},
    {"_cpu_packed_weights", packed_weights, METH_NOARGS, "What is cached of weights in kernels' own order."},
    {"_cpu_set_packed_weights", set_packed_weights, METH_O, "Bound on it in bytes; returns the one before."},
    {"_cpu_total_memory", total_memory, METH_NOARGS, "Bytes of memory that this process may use."},
    {"_cpu_set_memory_limit", set_limit, METH_O, "Bound on memory in use and cached, in bytes; 0: none."},
    {}};

}  // namespace

void init_memory(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
