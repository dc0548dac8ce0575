// CUDA memory and events that go to other processes, as facula.multiprocessing.reductions uses them.
#include "cuda/device.h"
#include "cuda/ipc.h"
#include "python/bindings.h"
#include "python/cuda_objects.h"

namespace facula::python {
namespace {

PyObject* bytes_of(const std::string& s) {
  return check(PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

PyObject* share(PyObject*, PyObject* storage) {
  return guarded([&] {
    const cuda::SharedStorage s = cuda::share_storage(storage_of(storage, "multiprocessing"));
    Owned memory(bytes_of(s.memory)), event(bytes_of(s.event)), files(check(PyList_New(0)));
    for (const int file : s.files) check(PyList_Append(files.get(), Owned(check(PyLong_FromLong(file))).get()));
    return check(Py_BuildValue("(iOOKKKnOin)", s.device, memory.get(), event.get(),
                               static_cast<unsigned long long>(s.offset), static_cast<unsigned long long>(s.bytes),
                               static_cast<unsigned long long>(s.origin), static_cast<Py_ssize_t>(s.granule),
                               files.get(), s.counter_file, static_cast<Py_ssize_t>(s.counter_index)));
  });
}

PyObject* open_shared(PyObject*, PyObject* args) {
  int device, file;
  const char *memory, *event;
  Py_ssize_t memory_bytes, event_bytes, index, granule;
  PyObject* files;
  unsigned long long offset, bytes, origin;
  if (!PyArg_ParseTuple(args, "iy#y#KKKnO!in", &device, &memory, &memory_bytes, &event, &event_bytes, &offset, &bytes,
                        &origin, &granule, &PyList_Type, &files, &file, &index))
    return nullptr;
  return guarded([&] {
    std::vector<int> numbers;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(files); ++i)
      numbers.push_back(static_cast<int>(to_int(PyList_GET_ITEM(files, i))));
    const cuda::SharedStorage shared{device,
                                     {memory, static_cast<size_t>(memory_bytes)},
                                     {event, static_cast<size_t>(event_bytes)},
                                     offset,
                                     bytes,
                                     origin,
                                     file,
                                     static_cast<size_t>(index),
                                     static_cast<size_t>(granule),
                                     numbers};
    return adopt_storage(cuda::open_storage(shared));
  });
}

PyObject* collect(PyObject*, PyObject*) {
  return guarded([] {
    cuda::ipc_collect();
    return Py_NewRef(Py_None);
  });
}

PyObject* event_handle(PyObject*, PyObject* args) {
  PyObject* event;
  int device;
  if (!PyArg_ParseTuple(args, "Oi", &event, &device)) return nullptr;
  return guarded([&] { return bytes_of(cuda::event_handle(cuda_event_of(event), device)); });
}

PyObject* open_event(PyObject*, PyObject* args) {
  int device;
  const char* given;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "iy#", &device, &given, &bytes)) return nullptr;
  return guarded([&] {
    CUipcEventHandle handle;
    FACULA_CHECK(static_cast<size_t>(bytes) == sizeof handle.reserved, ErrorKind::Value,
                 "Event.from_ipc_handle: the 64 bytes of ipc_handle(), got ", bytes);
    std::memcpy(handle.reserved, given, sizeof handle.reserved);
    const int index = cuda::checked_index({DeviceType::CUDA, static_cast<int8_t>(device)}, "Event.from_ipc_handle");
    cuda::DeviceGuard guard(index);
    cuda::OpName name("Event.from_ipc_handle");
    CUevent event = nullptr;
    FACULA_CUDA_CALL(cuIpcOpenEventHandle, &event, handle);
    return wrap_cuda_event(cuda::Event(event, index));
  });
}

PyMethodDef functions[] = {
    {"_cuda_ipc_share", share, METH_O,
     "(storage) -> (device, memory, event, offset, bytes, origin, granule, files, counter_file, counter_index): for "
     "one "
     "receiver."},
    {"_cuda_ipc_open", open_shared, METH_VARARGS, "(the same): the storage."},
    {"_cuda_ipc_collect", collect, METH_NOARGS, "Lets go of what receivers have finished with."},
    {"_cuda_event_handle", event_handle, METH_VARARGS, "(event, device): bytes for another process."},
    {"_cuda_open_event", open_event, METH_VARARGS, "(device, handle): the event of another process."},
    {}};

}  // namespace

void init_cuda_ipc(PyObject* module);  // called by module.cpp
void init_cuda_ipc(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
