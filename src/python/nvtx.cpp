// Markers for NVIDIA's profilers: what facula.cuda.nvtx calls, and an observer that makes ranges of what every thread
// does.
#include "cuda/nvtx.h"

#include "autograd/node.h"
#include "observe/observer.h"
#include "python/objects.h"
#include "python/op_values.h"

namespace facula::python {
namespace {

const char* mark_text(PyObject* o) {
  const char* found = PyUnicode_AsUTF8(o);
  check(found != nullptr);
  return found;
}
PyObject* push(PyObject*, PyObject* o) {
  return guarded([&] { return PyLong_FromLong(cuda::nvtx::push(mark_text(o))); });
}
PyObject* pop(PyObject*, PyObject*) { return PyLong_FromLong(cuda::nvtx::pop()); }
PyObject* start(PyObject*, PyObject* o) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(cuda::nvtx::start(mark_text(o))); });
}
PyObject* end(PyObject*, PyObject* o) {
  return guarded([&] {
    cuda::nvtx::end(static_cast<uint64_t>(to_int(o)));
    return Py_NewRef(Py_None);
  });
}
PyObject* mark(PyObject*, PyObject* o) {
  return guarded([&] {
    cuda::nvtx::marker(mark_text(o));
    return Py_NewRef(Py_None);
  });
}

class Marker final : public Observer {
 public:
  bool shapes = false;

  void op_begins(const OpCall& call) override {
    std::ostringstream text;
    text << "aten::" << name_of(call);
    if (shapes) {
      const char* between = ", sizes = [";
      for (const Argument& argument : call.arguments)
        argument.each_tensor([&](const Tensor& t) {
          text << std::exchange(between, ", ") << '[';  // as lists, which tools that read these markers look for
          const char* comma = "";
          for (int64_t size : t.sizes()) text << std::exchange(comma, ", ") << size;
          text << ']';
        });
      if (*between == ',' && between[2] == '\0') text << ']';
    }
    cuda::nvtx::push(text.str().c_str());
  }
  void op_ends(const OpCall&, bool) override { cuda::nvtx::pop(); }
  void node_begins(const Node& node) override {
    cuda::nvtx::push((node.name() + ", seq = " + std::to_string(node.sequence())).c_str());
  }
  void node_ends(const Node&) override { cuda::nvtx::pop(); }
  void range_begins(std::string_view name) override { cuda::nvtx::push(std::string(name).c_str()); }
  void range_ends() override { cuda::nvtx::pop(); }
};

// _nvtx_emit(on, shapes): whether it was off, or on, before
PyObject* emit(PyObject*, PyObject* args) {
  static Marker* marker = new Marker;
  static bool there = false;
  int on = 0, shapes = 0;
  if (!PyArg_ParseTuple(args, "pp", &on, &shapes)) return nullptr;
  return guarded([&] {
    const bool wanted = on != 0;
    if (wanted == there) return PyBool_FromLong(false);
    there = wanted;
    if (wanted) marker->shapes = shapes != 0;
    WithoutLock released;
    if (wanted) add_observer(marker, Watched::AllThreads);
    else remove_observer(marker, Watched::AllThreads);
    return Py_NewRef(Py_True);
  });
}

PyMethodDef functions[] = {
    {"_nvtx_push", push, METH_O, "(text): a range of this thread; how many are around it, -2: nobody listens."},
    {"_nvtx_pop", pop, METH_NOARGS, "Ends the innermost range."},
    {"_nvtx_start", start, METH_O, "(text): a range, by number."},
    {"_nvtx_end", end, METH_O, "(number): ends it."},
    {"_nvtx_mark", mark, METH_O, "(text): a marker."},
    {"_nvtx_emit", emit, METH_VARARGS,
     "(on, shapes): makes ranges of what all threads do; False where that changes nothing."},
    {}};

}  // namespace

void init_nvtx(PyObject* module);  // called by init_cuda
void init_nvtx(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
