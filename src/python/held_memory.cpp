// Which memory the program's objects hold, and why: what an error of a memory budget and its summary say.
//
// Looked at are objects that the garbage collector knows and what they hold directly: parameters and other leaves with
// their gradients, buffers of modules, state of optimizers, tensors in lists, dicts and attributes. Local variables are
// not seen; where their tensors have cells, the budget knows them. Nothing of the program's runs meanwhile.
#include "budget/why_full.h"
#include "python/free_threading.h"
#include "python/objects.h"

namespace facula::python {
namespace {

using budget::HeldKind;

/// A class of the package, where its module has been imported.
PyObject* known_class(const char* module, const char* name) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  PyObject* cls = found && PyModule_Check(found) ? PyDict_GetItemString(PyModule_GetDict(found), name) : nullptr;
  return cls && PyType_Check(cls) ? cls : nullptr;
}

/// The attribute in the object's own dict; null where there is none.
Owned own_attribute(PyObject* object, const char* name) {
  const Owned dict(PyObject_GenericGetDict(object, nullptr));
  if (!dict) PyErr_Clear();
  return dict ? Owned::share(PyDict_GetItemString(dict.get(), name)) : Owned();
}

class Walk {
 public:
  Walk(Device device, std::vector<budget::HeldMemory>& found)
      : device_(device),
        found_(found),
        optimizer_(known_class("facula.optim.optimizer", "Optimizer")),
        module_(known_class("facula.nn.modules.module", "Module")) {}

  void see(PyObject* o) {
    if (is_tensor(o)) add(o, HeldKind::Program);
    else if (is_a(o, optimizer_)) add_all(own_attribute(o, "state").get(), 4);
    else if (is_a(o, module_)) add_all(own_attribute(o, "_buffers").get(), 1);
    traverseproc traverse = Py_TYPE(o)->tp_traverse;
    if (traverse && !kFreeThreaded) traverse(o, visit, this);  // others may change the object where threads are free
  }

 private:
  static bool is_a(PyObject* o, PyObject* cls) {
    return cls && PyType_IsSubtype(Py_TYPE(o), reinterpret_cast<PyTypeObject*>(cls));
  }
  static int visit(PyObject* o, void* walk) {
    if (o && is_tensor(o)) static_cast<Walk*>(walk)->add(o, HeldKind::Program);
    return 0;
  }
  /// Tensors in containers of so many levels.
  void add_all(PyObject* o, int levels) {
    if (!o) return;
    if (is_tensor(o)) {
      add(o, HeldKind::Model);
    } else if (levels > 0 && PyDict_Check(o)) {
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) add_all(value, levels - 1);
    } else if (levels > 0 && PyList_Check(o)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) add_all(PyList_GET_ITEM(o, i), levels - 1);
    } else if (levels > 0 && PyTuple_Check(o)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) add_all(PyTuple_GET_ITEM(o, i), levels - 1);
    }
  }
  void add(PyObject* o, HeldKind kind) {
    const Tensor& t = tensor_of(o);
    if (!t.defined()) return;
    const AutogradMeta* meta = autograd_meta(t.impl());
    const bool leaf = !meta || !meta->grad_fn;
    if (leaf && meta) {
      const Tensor grad = grad_of(t);
      if (grad.defined()) add(grad, HeldKind::Gradient);
    }
    const bool parameter = is_a(o, parameter_class) || (leaf && (t.flags() & kRequiresGrad) && !t.impl()->base);
    add(t, parameter ? HeldKind::Model : kind);
  }
  void add(const Tensor& t, HeldKind kind) {
    const Storage* storage = t.storage();
    if (!storage || t.device() != device_ || storage->nbytes == 0 || storage->is_deferred()) return;
    found_.push_back({storage, kind, storage->nbytes, Dims(t.sizes()), t.dtype(), {}});
  }

  Device device_;
  std::vector<budget::HeldMemory>& found_;
  PyObject *optimizer_, *module_;
};

/// No object of the program is released, and the collector does not run, while one lives.
class Paused {
 public:
  Paused() : on_(PyGC_Disable() == 1) {}
  ~Paused() {
    if (on_) PyGC_Enable();
  }
  Paused(const Paused&) = delete;

 private:
  bool on_;
};

/// Only where the thread has the interpreter: the caller may be inside of a kernel, with locks that others want.
bool find_held_memory(Device device, std::vector<budget::HeldMemory>& found) {
  if (!PyGILState_Check()) return false;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const Paused paused;
  const Owned collector(PyImport_ImportModule("gc"));
  const Owned objects(collector ? call_python(PyObject_CallMethod, collector.get(), "get_objects", nullptr) : nullptr);
  const bool known = objects && PyList_Check(objects.get());
  if (known) {
    Walk walk(device, found);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects.get()); ++i) walk.see(PyList_GET_ITEM(objects.get(), i));
  }
  PyErr_Restore(type, value, trace);
  return known;
}

}  // namespace

void init_held_memory(PyObject*) { budget::find_held_memory = find_held_memory; }

}  // namespace facula::python
