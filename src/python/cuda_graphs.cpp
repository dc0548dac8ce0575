// Graphs of CUDA, as facula.cuda.graphs uses them: objects that only functions here read.
#include "core/recipe.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/stream.h"
#include "python/bindings.h"
#include "python/cuda_arguments.h"

namespace facula::python {
namespace {

constexpr const char* kGraph = "facula.cuda.Graph";

cuda::Graph& graph_of(PyObject* capsule) {
  void* graph = PyCapsule_GetPointer(capsule, kGraph);
  if (!graph) throw PythonError{};
  return *static_cast<cuda::Graph*>(graph);
}
PyObject* new_graph(PyObject*, PyObject*) {
  return guarded(
      [] { return check(PyCapsule_New(new cuda::Graph, kGraph, [](PyObject* o) { delete &graph_of(o); })); });
}

CUstreamCaptureMode mode_of(const std::string& name) {
  for (const auto& [known, mode] : {std::pair{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
                                    {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
                                    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}})
    if (name == known) return mode;
  throw_error(ErrorKind::Runtime,
              "CUDAGraph.capture_begin: capture_error_mode is global, thread_local or relaxed, got ", name);
}

PyObject* begin(PyObject*, PyObject* args) {
  PyObject* graph;
  unsigned long long pool;
  const char* mode;
  if (!PyArg_ParseTuple(args, "OKs", &graph, &pool, &mode)) return nullptr;
  return none_after([&] {
    run_waiting();  // what was called before is not captured
    graph_of(graph).capture_begin(pool, mode_of(mode));
  });
}
PyObject* end(PyObject*, PyObject* args) {
  PyObject* graph;
  int instantiated;
  if (!PyArg_ParseTuple(args, "Op", &graph, &instantiated)) return nullptr;
  return none_after([&] {
    run_waiting();
    graph_of(graph).capture_end(instantiated);
  });
}
PyObject* instantiate(PyObject*, PyObject* graph) {
  return none_after([&] { graph_of(graph).instantiate(); });
}
PyObject* replay(PyObject*, PyObject* graph) {
  return none_after([&] {
    run_waiting();  // a replay writes to memory without telling
    graph_of(graph).replay();
  });
}
PyObject* reset(PyObject*, PyObject* graph) {
  return none_after([&] { graph_of(graph).reset(); });
}
PyObject* keep(PyObject*, PyObject* graph) {
  return none_after([&] { graph_of(graph).keep_graph(); });
}
PyObject* pool(PyObject*, PyObject* graph) {
  return guarded([&] { return check(PyLong_FromUnsignedLongLong(graph_of(graph).pool())); });
}
PyObject* handle(PyObject*, PyObject* graph) {
  return guarded([&] { return check(PyLong_FromVoidPtr(graph_of(graph).handle())); });
}
PyObject* executable(PyObject*, PyObject* graph) {
  return guarded([&] { return check(PyLong_FromVoidPtr(graph_of(graph).executable())); });
}
PyObject* dump(PyObject*, PyObject* args) {
  PyObject* graph;
  const char* path;
  if (!PyArg_ParseTuple(args, "Os", &graph, &path)) return nullptr;
  return none_after([&] { graph_of(graph).debug_dump(path); });
}
PyObject* new_pool(PyObject*, PyObject*) {
  return guarded([] { return check(PyLong_FromUnsignedLongLong(cuda::new_pool())); });
}
PyObject* captures_here(PyObject*, PyObject*) {
  return guarded(
      [] { return wrap(cuda::device_count() > 0 && cuda::is_captured(cuda::current_stream(cuda::current_index()))); });
}
PyObject* stream_captures(PyObject*, PyObject* args) {
  int device;
  unsigned long long id;
  if (!PyArg_ParseTuple(args, "iK", &device, &id)) return nullptr;
  return guarded([&] {
    cuda::checked_index({DeviceType::CUDA, static_cast<int8_t>(device)}, "Stream.is_capturing");
    return wrap(cuda::is_captured({{DeviceType::CUDA, static_cast<int8_t>(device)}, id}));
  });
}

PyMethodDef functions[] = {
    {"_cuda_stream_captures", stream_captures, METH_VARARGS, "(device, stream): whether a graph is captured from it."},
    {"_cuda_graph", new_graph, METH_NOARGS, "A graph that is not captured yet."},
    {"_cuda_graph_begin", begin, METH_VARARGS, "(graph, pool or 0, mode): captures from the current stream."},
    {"_cuda_graph_end", end, METH_VARARGS, "(graph, instantiated): ends it."},
    {"_cuda_graph_instantiate", instantiate, METH_O, "(graph): makes what replay() launches."},
    {"_cuda_graph_replay", replay, METH_O, "(graph): all of it, on the current stream."},
    {"_cuda_graph_reset", reset, METH_O, "(graph): gives it back."},
    {"_cuda_graph_keep", keep, METH_O, "(graph): keeps what _cuda_graph_dump() shows."},
    {"_cuda_graph_pool", pool, METH_O, "(graph): the number of its pool."},
    {"_cuda_graph_handle", handle, METH_O, "(graph): the driver's handle, 0 where it is not retained."},
    {"_cuda_graph_executable", executable, METH_O, "(graph): the handle of what is launched, 0 where there is none."},
    {"_cuda_graph_dump", dump, METH_VARARGS, "(graph, path)"},
    {"_cuda_new_pool", new_pool, METH_NOARGS, "The number of a new pool."},
    {"_cuda_captures_here", captures_here, METH_NOARGS, "Whether a graph is captured from the current stream."},
    {}};

}  // namespace

void init_cuda_graphs(PyObject* module);  // called by module.cpp
void init_cuda_graphs(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
