// Streams and events of facula.cuda. Streams are the numbers of their handles here, events are capsules.
#include "core/parallel.h"
#include "core/recipe.h"
#include "cuda/allocator.h"
#include "cuda/stream.h"
#include "python/cuda_arguments.h"
#include "python/cuda_objects.h"

namespace facula::python {
namespace {

// ---- streams

// What was called before goes to its stream before another one is requested, or anything is said of a stream: ops of
// compiled functions may wait (core/recipe.h).

PyObject* stream_number(Stream stream) { return check(PyLong_FromUnsignedLongLong(stream.id)); }

PyObject* current_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    return stream_number(cuda::current_stream(CudaArguments(args, 1, "current_stream").device(0, "current_stream")));
  });
}
PyObject* set_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const Stream stream = CudaArguments(args, 2, "set_stream").stream(0, "set_stream");
    run_waiting();  // the one before may soon be destroyed
    cuda::set_current_stream(stream);
  });
}
PyObject* new_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    const CudaArguments given(args, 2, "Stream");
    return stream_number(cuda::stream_from_pool(given.device(0, "Stream"), static_cast<int>(given.integer(1))));
  });
}
PyObject* query_stream(PyObject*, PyObject* args) {
  return guarded([&] {
    const Stream stream = CudaArguments(args, 2, "Stream.query").stream(0, "Stream.query");
    run_waiting();
    cuda::OpName name("Stream.query");
    return wrap(cuda::is_done(stream));
  });
}
PyObject* synchronize_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const Stream stream = CudaArguments(args, 2, "Stream.synchronize").stream(0, "Stream.synchronize");
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("Stream.synchronize");
    cuda::synchronize(stream);
    cuda::judge_wait();
  });
}
PyObject* record_stream(PyObject*, PyObject* args) {
  return none_after([&] {
    const CudaArguments given(args, 3, "record_stream");
    FACULA_CHECK(is_tensor(given.object(0)), ErrorKind::Type, "record_stream: expected a tensor, got ",
                 Py_TYPE(given.object(0))->tp_name);
    const Tensor& t = tensor_of(given.object(0));
    FACULA_CHECK(t.device().is_cuda(), ErrorKind::NotImplemented, "record_stream: expected a CUDA tensor, got one on ",
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
      [&] { return wrap_cuda_event(cuda::Event(static_cast<unsigned>(CudaArguments(args, 1, "Event").integer(0)))); });
}
PyObject* record_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const CudaArguments given(args, 3, "Event.record");
    run_waiting();
    cuda::OpName name("Event.record");
    cuda_event_of(given.object(0)).record(given.stream(1, "Event.record"));
  });
}
PyObject* block_on_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const CudaArguments given(args, 3, "Event.wait");
    run_waiting();
    cuda::OpName name("Event.wait");
    cuda_event_of(given.object(0)).block(given.stream(1, "Event.wait"));
  });
}
PyObject* event_id(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Event& event = cuda_event_of(CudaArguments(args, 1, "Event.event_id").object(0));
    return check(PyLong_FromUnsignedLongLong(reinterpret_cast<uintptr_t>(event.get())));
  });
}
PyObject* query_event(PyObject*, PyObject* args) {
  return guarded([&] {
    const cuda::Event& event = cuda_event_of(CudaArguments(args, 1, "Event.query").object(0));
    run_waiting();
    cuda::OpName name("Event.query");
    return wrap(event.is_done());
  });
}
PyObject* synchronize_event(PyObject*, PyObject* args) {
  return none_after([&] {
    const cuda::Event& event = cuda_event_of(CudaArguments(args, 1, "Event.synchronize").object(0));
    run_waiting();
    LockRelease release(true);
    cuda::OpName name("Event.synchronize");
    event.synchronize();
  });
}
PyObject* elapsed(PyObject*, PyObject* args) {
  return guarded([&] {
    const CudaArguments given(args, 2, "Event.elapsed_time");
    cuda::OpName name("Event.elapsed_time");
    return wrap(static_cast<double>(cuda_event_of(given.object(0)).elapsed(cuda_event_of(given.object(1)))));
  });
}

PyMethodDef functions[] = {
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
    {}};

}  // namespace

void init_cuda_streams(PyObject* module);  // called by init_cuda
void init_cuda_streams(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
