// Counters, snapshots and settings of CUDA's allocators.
#include "core/parallel.h"
#include "cuda/allocator.h"
#include "cuda/allocator_settings.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

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
    const cuda::AllocatorStats s =
        cuda::allocator_stats(CudaArguments(args, 1, "memory_stats").device(0, "memory_stats"));
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
  return none_after([&] {
    cuda::reset_peak_stats(CudaArguments(args, 1, "reset_peak_memory_stats").device(0, "reset_peak_memory_stats"));
  });
}
PyObject* reset_accumulated(PyObject*, PyObject* args) {
  constexpr const char* name = "reset_accumulated_memory_stats";
  return none_after([&] { cuda::reset_accumulated_stats(CudaArguments(args, 1, name).device(0, name)); });
}
PyObject* set_fraction(PyObject*, PyObject* args) {
  constexpr const char* name = "set_per_process_memory_fraction";
  return none_after([&] {
    const CudaArguments given(args, 2, name);
    const double fraction = to_float(given.object(1));
    FACULA_CHECK(fraction >= 0 && fraction <= 1, ErrorKind::Value, name,
                 ": a share of the memory between 0 and 1, got ", fraction);
    cuda::set_memory_fraction(fraction, given.device(0, name));
  });
}
PyObject* get_fraction(PyObject*, PyObject* args) {
  constexpr const char* name = "get_per_process_memory_fraction";
  return guarded([&] { return wrap(cuda::memory_fraction(CudaArguments(args, 1, name).device(0, name))); });
}
PyObject* memory_info(PyObject*, PyObject* args) {
  return guarded([&] {
    cuda::DeviceGuard guard(CudaArguments(args, 1, "mem_get_info").device(0, "mem_get_info"));
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
    FACULA_CHECK(PyUnicode_Check(settings), ErrorKind::Type, "_set_allocator_settings: expected a str, got ",
                 Py_TYPE(settings)->tp_name);
    cuda::set_allocator_settings(utf8(settings));
  });
}
PyObject* record_places(PyObject*, PyObject* on) {
  return none_after([&] { cuda::record_places(to_bool(on)); });
}

PyMethodDef functions[] = {
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

void init_cuda_stats(PyObject* module);  // called by init_cuda
void init_cuda_stats(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
