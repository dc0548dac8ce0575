// What CUDA devices did, for profilers.
#include "core/parallel.h"
#include "cuda/activity.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

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

PyMethodDef functions[] = {
    {"_cuda_activity_start", activity_start, METH_NOARGS, "What devices do is recorded from here on."},
    {"_cuda_activity_stop", activity_stop, METH_NOARGS,
     "([(kind, kernel, name, device, stream, thread, queued, begin, end, call, graph node, grid, block, registers,\n"
     "shared bytes, bytes)], [(call, thread, begin, end, name)], how many are lost, \"cupti\" or \"events\"), times "
     "in\n"
     "nanoseconds of the monotonic clock."},
    {}};

}  // namespace

void init_cuda_activity(PyObject* module);  // called by init_cuda
void init_cuda_activity(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
