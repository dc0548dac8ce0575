// Hooks of tensors and nodes, saved_tensors_hooks, and the traces of anomaly mode.
#include "autograd/batching.h"
#include "autograd/engine.h"
#include "autograd/saved.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/free_threading.h"
#include "python/node_object.h"

namespace facula::python {
namespace {

// Holds a Python object from C++ code that may run without the lock.
class Held {
 public:
  explicit Held(PyObject* object) : object_(Py_NewRef(object)) {}
  ~Held() {
    WithLock lock;
    Py_DECREF(object_);
  }
  Held(const Held&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// The hooks of a dict, oldest first; a list, because a hook may remove itself.
Owned hooks_in(PyObject* dict) { return Owned(check(PyDict_Values(dict))); }

struct TensorHooks final : TensorHook {
  explicit TensorHooks(PyObject* d) : dict(d) {}
  Tensor call(const Tensor& grad) override {
    WithLock lock;
    Owned hooks = hooks_in(dict.get());
    Tensor current = grad;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      Owned argument(check(wrap(current)));
      Owned result(check(call_python(PyObject_CallOneArg, PyList_GET_ITEM(hooks.get(), i), argument.get())));
      if (result.get() == Py_None) continue;
      FACULA_CHECK(is_tensor(result.get()), ErrorKind::Type, "register_hook: a hook returns a Tensor or None, got ",
                   Py_TYPE(result.get())->tp_name);
      current = tensor_of(result.get());
    }
    return current.is_same(grad) ? Tensor() : current;
  }
  Held dict;
};

// After a leaf's gradient was accumulated: the hooks see the leaf.
struct LeafHooks final : TensorHook {
  explicit LeafHooks(PyObject* d) : dict(d) {}
  Tensor call(const Tensor& leaf) override {
    WithLock lock;
    Owned hooks = hooks_in(dict.get());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      Owned argument(check(wrap(leaf)));
      Owned result(check(call_python(PyObject_CallOneArg, PyList_GET_ITEM(hooks.get(), i), argument.get())));
      FACULA_CHECK(result.get() == Py_None, ErrorKind::Runtime,
                   "register_post_accumulate_grad_hook: hooks should return None, got ",
                   Py_TYPE(result.get())->tp_name);
    }
    return Tensor();
  }
  Held dict;
};

void take_tuple(PyObject* given, std::vector<Tensor>& tensors, const char* what) {
  Owned single(PyTuple_Check(given) || PyList_Check(given) ? nullptr : PyTuple_Pack(1, given));
  Owned items(check(PySequence_Tuple(single ? single.get() : given)));
  FACULA_CHECK(static_cast<size_t>(PyTuple_GET_SIZE(items.get())) == tensors.size(), ErrorKind::Runtime, what,
               ": a hook must return as many gradients as it was given, got ", PyTuple_GET_SIZE(items.get()),
               ", but expected ", tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
    FACULA_CHECK(item == Py_None || is_tensor(item), ErrorKind::Type, what, ": a hook returns Tensors or None, got ",
                 Py_TYPE(item)->tp_name);
    tensors[i] = item == Py_None ? Tensor() : tensor_of(item);
  }
}

struct NodeHooks final : NodeHook {
  NodeHooks(PyObject* d, bool b) : dict(d), before(b) {}
  void call(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
    WithLock lock;
    Owned hooks = hooks_in(dict.get());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
      PyObject* hook = PyList_GET_ITEM(hooks.get(), i);
      Owned grad_outputs(check(wrap(outputs)));
      Owned result;
      if (before) {
        result = Owned(check(call_python(PyObject_CallOneArg, hook, grad_outputs.get())));
      } else {
        Owned grad_inputs(check(wrap(inputs)));
        result = Owned(
            check(call_python(PyObject_CallFunctionObjArgs, hook, grad_inputs.get(), grad_outputs.get(), nullptr)));
      }
      if (result.get() != Py_None)
        take_tuple(result.get(), before ? outputs : inputs, before ? "register_prehook" : "register_hook");
    }
  }
  Held dict;
  bool before;
};

PyObject* new_dict() {
  static std::atomic<PyObject*> made_class;
  return check(call_python(PyObject_CallNoArgs, made_once(made_class, [] {
                             Owned module(check(PyImport_ImportModule("collections")));
                             return PyObject_GetAttrString(module.get(), "OrderedDict");
                           })));
}

template <class Hook, class Base, class... Args>
PyObject* dict_in(SharedList<std::shared_ptr<Base>>& list, Args... args) {
  for (auto& hook : list.all()) {
    if (auto* found = dynamic_cast<Hook*>(hook.get())) return Py_NewRef(found->dict.get());
  }
  Owned dict(new_dict());
  list.add(std::make_shared<Hook>(dict.get(), args...));
  return dict.release();
}

}  // namespace

PyObject* tensor_hook_dict(const Tensor& tensor) {
  Edge edge = gradient_edge(tensor.impl());
  FACULA_CHECK(requires_grad(tensor), ErrorKind::Runtime,
               "register_hook: expected a tensor that requires grad, got shape ", tensor.sizes());
  if (!edge.node) return new_dict();  // a view that requires one by its base: no gradient arrives at it
  auto& list = edge.node->extra().tensor_hooks;
  for (auto& [slot, hook] : list.all()) {
    auto* found = slot == edge.slot ? dynamic_cast<TensorHooks*>(hook.get()) : nullptr;
    if (found) return Py_NewRef(found->dict.get());
  }
  Owned dict(new_dict());
  list.add({edge.slot, std::make_shared<TensorHooks>(dict.get())});
  return dict.release();
}

namespace {

// The node that only `tensor` keeps alive, with whatever hooks it has: a resting accumulator, or grad_fn.
Node* own_node(const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  AutogradMeta* meta = impl->refs.load() == 1 && !is_batched(tensor) ? autograd_meta(impl) : nullptr;
  if (!meta) return nullptr;
  if (meta->grad_fn) return meta->grad_fn->refs.load() == 1 ? meta->grad_fn.get() : nullptr;
  Node* accumulator = meta->accumulator.load();
  return accumulator && accumulator->refs.load() == 0 ? accumulator : nullptr;
}

template <class Hook, class Visit>
int visit_hook(const std::shared_ptr<Hook>& hook, Visit&& visit) {
  if (hook.use_count() != 1) return 0;
  if (auto* t = dynamic_cast<TensorHooks*>(hook.get())) return visit(t->dict.get());
  if (auto* l = dynamic_cast<LeafHooks*>(hook.get())) return visit(l->dict.get());
  if (auto* n = dynamic_cast<NodeHooks*>(hook.get())) return visit(n->dict.get());
  return 0;
}

template <class Visit>
int visit_node(Node* node, Visit&& visit) {
  int status = 0;
  if (PyObject* context = context_of(node)) status = visit(context);  // its class visits the attributes
  auto visit_one = [&](const auto& hook) { return visit_hook(hook, visit); };
  if (!status && node->is_accumulator) status = static_cast<AccumulateGrad*>(node)->after_accumulate.visit(visit_one);
  NodeExtra* extra = node->extra_if_any();
  if (!extra) return status;
  if (!status) status = extra->tensor_hooks.visit([&](const auto& entry) { return visit_one(entry.second); });
  for (auto* list : {&extra->before, &extra->after}) {
    if (!status) status = list->visit(visit_one);
  }
  if (!status && extra->metadata) status = visit(static_cast<PyObject*>(extra->metadata));
  return status;
}

}  // namespace

int visit_history(const Tensor& tensor, visitproc visit, void* arg) {
  Node* node = own_node(tensor);
  return node ? visit_node(node, [&](PyObject* o) { return visit(o, arg); }) : 0;
}

void clear_python_history(const Tensor& tensor) {
  Node* node = own_node(tensor);
  if (!node) return;
  if (node->is_accumulator) clear_hooks(node);
  else clear_history(tensor);
}

int visit_hooks(Node* node, visitproc visit, void* arg) {
  return visit_node(node, [&](PyObject* o) { return visit(o, arg); });
}

void clear_hooks(Node* node) {
  if (node->is_accumulator) static_cast<AccumulateGrad*>(node)->after_accumulate.take();
  NodeExtra* extra = node->extra_if_any();
  if (!extra) return;
  extra->tensor_hooks.take();
  extra->before.take();
  extra->after.take();
}

void collect_cycles_through(PyObject* tensor) {
  if (is_tensor(tensor) && !PyObject_GC_IsTracked(tensor)) track(tensor);
}

namespace {

PyObject* function_tensor_hooks(PyObject*, PyObject* o) {
  return guarded([&] {
    PyObject* dict = tensor_hook_dict(tensor_of(o));
    collect_cycles_through(o);
    return dict;
  });
}

PyObject* function_leaf_hooks(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& tensor = tensor_of(o);
    FACULA_CHECK(requires_grad(tensor), ErrorKind::Runtime,
                 "register_post_accumulate_grad_hook: expected a tensor that requires grad, got shape ",
                 tensor.sizes());
    Ref<Node> node = gradient_edge(tensor.impl()).node;
    if (!node) return new_dict();  // a view that requires one by its base: no gradient arrives at it
    FACULA_CHECK(node->is_accumulator, ErrorKind::Runtime,
                 "register_post_accumulate_grad_hook: expected a leaf, got a result of ", node->name());
    auto& list = static_cast<AccumulateGrad&>(*node).after_accumulate;
    collect_cycles_through(o);
    return dict_in<LeafHooks>(list);
  });
}

PyObject* node_hook_dict(PyObject* o, bool before) {
  return guarded([&] {
    const Ref<Node> node = node_of(o);
    NodeExtra& extra = node->extra();
    return dict_in<NodeHooks>(before ? extra.before : extra.after, before);
  });
}
PyObject* function_node_hooks(PyObject*, PyObject* o) { return node_hook_dict(o, false); }
PyObject* function_node_prehooks(PyObject*, PyObject* o) { return node_hook_dict(o, true); }

// The dict of a leaf's hooks if it has any; for pickling.
PyObject* get_backward_hooks(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    AutogradMeta* meta = autograd_meta(tensor_of(o).impl());
    const Ref<Node> made = meta ? grad_fn(tensor_of(o).impl()) : Ref<Node>();
    Node* node = !meta ? nullptr : made ? made.get() : meta->accumulator.load();
    if (!node || !node->extra_if_any() || node->extra_if_any()->tensor_hooks.empty()) Py_RETURN_NONE;
    return tensor_hook_dict(tensor_of(o));
  });
}
int set_backward_hooks(PyObject* o, PyObject* value, void*) {
  if (!value) {
    PyErr_SetString(PyExc_RuntimeError, "_backward_hooks: they belong to the graph and cannot be deleted");
    return -1;
  }
  if (value == Py_None || PyObject_Length(value) == 0) return PyErr_Occurred() ? -1 : 0;
  Owned done(guarded([&] {
    Owned dict(tensor_hook_dict(tensor_of(o)));
    check(PyDict_Update(dict.get(), value));
    return Py_NewRef(Py_None);
  }));
  return done ? 0 : -1;
}

// ---- saved_tensors_hooks

struct HookPair {
  PyObject *pack, *unpack;  // owned
};
thread_local std::vector<HookPair> saved_hooks;
thread_local std::string saved_hooks_disabled;  // the reason, empty: allowed

Tensor unpacked(PyObject* unpack_hook, PyObject* packed) {
  Owned result(check(call_python(PyObject_CallOneArg, unpack_hook, packed)));
  FACULA_CHECK(is_tensor(result.get()), ErrorKind::Type, "saved_tensors_hooks: unpack_hook returns a Tensor, got ",
               Py_TYPE(result.get())->tp_name);
  return tensor_of(result.get());
}

struct PythonPacked final : PackedTensor {
  PythonPacked(PyObject* p, PyObject* u) : packed(p), unpack_hook(u) {}
  Tensor unpack() override {
    WithLock lock;
    return unpacked(unpack_hook.get(), packed.get());
  }
  Held packed, unpack_hook;
};

/// What a hook of the library (`_leaves_tensors`) has left as it is, within a memory budget: its bytes may go.
struct LeftInCell final : PackedTensor {
  LeftInCell(std::unique_ptr<PackedTensor> c, uint32_t v, PyObject* u)
      : cell(std::move(c)), version(v), unpack_hook(u) {}
  Tensor unpack() override {
    const Tensor saved = cell->unpack();
    FACULA_CHECK(saved.storage()->current_version() == version, ErrorKind::Runtime,
                 "saved_tensors_hooks: a saved tensor of shape ", saved.sizes(),
                 " has been modified by an inplace operation, and a memory budget keeps no bytes for its unpack hook");
    WithLock lock;
    Owned packed(check(wrap(saved)));
    return unpacked(unpack_hook.get(), packed.get());
  }
  std::unique_ptr<PackedTensor> cell;
  uint32_t version;
  Held unpack_hook;
};

std::unique_ptr<PackedTensor> pack(const Tensor& tensor) {
  if (saved_hooks.empty()) return nullptr;
  WithLock lock;
  HookPair pair = saved_hooks.back();
  uint32_t version = tensor.storage()->current_version();
  Owned argument(check(wrap(tensor)));
  Owned packed(check(call_python(PyObject_CallOneArg, pair.pack, argument.get())));
  FACULA_CHECK(tensor.storage()->current_version() == version, ErrorKind::Runtime,
               "saved_tensors_hooks: a pack hook must not write to its input, got shape ", tensor.sizes());
  const bool left = packed.get() == argument.get() && (tensor.flags() & kInCell) && save_in_cell;
  if (left && has_attribute(pair.pack, "_leaves_tensors")) {
    if (std::unique_ptr<PackedTensor> cell = save_in_cell(tensor))
      return std::make_unique<LeftInCell>(std::move(cell), version, pair.unpack);
  }
  return std::make_unique<PythonPacked>(packed.get(), pair.unpack);
}

void update_saved_mode() {
  if (saved_hooks.empty()) thread_state.modes &= ~static_cast<uint32_t>(kModeSavedHooks);
  else thread_state.modes |= kModeSavedHooks;
}

PyObject* function_push_saved_hooks(PyObject*, PyObject* args) {
  PyObject *pack_hook, *unpack_hook;
  if (!PyArg_ParseTuple(args, "OO", &pack_hook, &unpack_hook)) return nullptr;
  if (!saved_hooks_disabled.empty()) {
    PyErr_SetString(PyExc_RuntimeError, saved_hooks_disabled.c_str());
    return nullptr;
  }
  saved_hooks.push_back({Py_NewRef(pack_hook), Py_NewRef(unpack_hook)});
  update_saved_mode();
  Py_RETURN_NONE;
}
PyObject* function_pop_saved_hooks(PyObject*, PyObject*) {
  if (!saved_hooks.empty()) {
    HookPair pair = saved_hooks.back();
    saved_hooks.pop_back();
    update_saved_mode();
    Py_DECREF(pair.pack);
    Py_DECREF(pair.unpack);
  }
  Py_RETURN_NONE;
}
// _disable_saved_hooks(reason or None) -> the reason before
PyObject* function_disable_saved_hooks(PyObject*, PyObject* reason) {
  PyObject* before =
      saved_hooks_disabled.empty() ? Py_NewRef(Py_None) : PyUnicode_FromString(saved_hooks_disabled.c_str());
  const char* text = reason == Py_None ? "" : PyUnicode_AsUTF8(reason);
  if (!text) return nullptr;
  if (*text && !saved_hooks.empty()) {
    Py_DECREF(before);
    PyErr_SetString(PyExc_RuntimeError, text);
    return nullptr;
  }
  saved_hooks_disabled = text;
  return before;
}

// ---- anomaly mode

std::string traceback_here() {
  WithLock lock;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  std::string text;
  Owned module(PyImport_ImportModule("facula.autograd.anomaly_mode"));
  Owned made(module ? call_python(PyObject_CallMethod, module.get(), "_forward_traceback", nullptr) : nullptr);
  const char* utf8 = made ? PyUnicode_AsUTF8(made.get()) : nullptr;
  if (utf8) text = utf8;
  PyErr_Restore(type, value, trace);
  return text;
}

void node_created(Node* node) { node->extra().traceback = traceback_here(); }

void backward_failed(Node& node) {
  NodeExtra* extra = node.extra_if_any();
  std::string traceback = extra ? extra->traceback : std::string();
  WithLock lock;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Owned module(PyImport_ImportModule("facula.autograd.anomaly_mode"));
  if (module)
    Owned(call_python(PyObject_CallMethod, module.get(), "_report", "ss", node.name().c_str(), traceback.c_str()));
  if (!type) return;  // a warning that was made an error counts when there is no other
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

PyObject* function_set_anomaly(PyObject*, PyObject* args) {
  int on, check_nan;
  if (!PyArg_ParseTuple(args, "pp", &on, &check_nan)) return nullptr;
  if (on) thread_state.modes |= kModeAnomaly;
  else thread_state.modes &= ~static_cast<uint32_t>(kModeAnomaly);
  anomaly_checks_nan = check_nan != 0;
  Py_RETURN_NONE;
}
PyObject* function_is_anomaly(PyObject*, PyObject*) {
  return PyBool_FromLong((thread_state.modes & kModeAnomaly) != 0);
}
PyObject* function_is_nan_check(PyObject*, PyObject*) { return PyBool_FromLong(anomaly_checks_nan); }

PyObject* function_pass_id(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(current_pass()); }
PyObject* function_restricted_pass_runs(PyObject*, PyObject*) { return PyBool_FromLong(restricted_pass_runs()); }
PyObject* function_pass_reaches(PyObject*, PyObject* list) {
  return guarded([&] {
    std::vector<Node*> nodes;
    std::vector<Ref<Node>> held;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      const Item item = list_item(list, i);
      held.push_back(item.get() ? node_of(item) : Ref<Node>());
      nodes.push_back(held.back().get());
    }
    return PyLong_FromSize_t(count_reached(nodes));
  });
}
PyObject* function_pass_reaches_leaves(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    if (pass_is_nested()) Py_RETURN_NONE;
    std::vector<Edge> edges;
    std::vector<Node*> nodes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      const Item item = list_item(list, i);
      edges.push_back(item.get() ? gradient_edge(tensor_of(item).impl()) : Edge());
      nodes.push_back(edges.back().node.get());
    }
    Owned flags(check(PyList_New(0)));
    for (bool reached : which_reached(nodes)) check(PyList_Append(flags.get(), reached ? Py_True : Py_False));
    return flags.release();
  });
}
PyObject* function_queue_callback(PyObject*, PyObject* callable) {
  return guarded([&] {
    FACULA_CHECK(PyCallable_Check(callable), ErrorKind::Type, "queue_callback: expected a function, got ",
                 Py_TYPE(callable)->tp_name);
    Py_INCREF(callable);
    std::shared_ptr<PyObject> owned(callable, [](PyObject* o) {
      WithLock lock;
      Py_DECREF(o);
    });
    call_after_pass([owned] {
      WithLock lock;
      Owned(check(call_python(PyObject_CallNoArgs, owned.get())));
    });
    Py_RETURN_NONE;
  });
}
// An object that keeps the node of a tensor alive.
PyObject* function_node_owner(PyObject*, PyObject* o) {
  return guarded([&] {
    Node* node = gradient_edge(tensor_of(o).impl()).node.detach();
    return check(PyCapsule_New(
        node, nullptr, [](PyObject* capsule) { release(static_cast<Node*>(PyCapsule_GetPointer(capsule, nullptr))); }));
  });
}

PyMethodDef functions[] = {
    {"_pass_id", function_pass_id, METH_NOARGS, "The number of the backward pass that runs on this thread."},
    {"_restricted_pass_runs", function_restricted_pass_runs, METH_NOARGS,
     "Whether a backward pass for some inputs only runs on this thread."},
    {"_pass_reaches", function_pass_reaches, METH_O, "How many of a list of nodes get a gradient in that pass."},
    {"_pass_reaches_leaves", function_pass_reaches_leaves, METH_O,
     "For each of a list of leaves, whether it gets a gradient in that pass; None in a pass inside another."},
    {"_queue_callback", function_queue_callback, METH_O, "Calls a function when the outermost pass has ended."},
    {"_node_owner", function_node_owner, METH_O, "An object that keeps the node behind a tensor alive."},
    {"_tensor_hooks", function_tensor_hooks, METH_O, "The dict of hooks on the gradient of a tensor."},
    {"_leaf_hooks", function_leaf_hooks, METH_O, "The dict of hooks called after a leaf's gradient was accumulated."},
    {"_node_hooks", function_node_hooks, METH_O, "The dict of hooks called after a node."},
    {"_node_prehooks", function_node_prehooks, METH_O, "The dict of hooks called before a node."},
    {"_push_saved_hooks", function_push_saved_hooks, METH_VARARGS, "Enters a saved_tensors_hooks pair."},
    {"_pop_saved_hooks", function_pop_saved_hooks, METH_NOARGS, "Leaves it."},
    {"_disable_saved_hooks", function_disable_saved_hooks, METH_O,
     "Forbids saved_tensors_hooks with a reason; returns the one before."},
    {"_set_anomaly", function_set_anomaly, METH_VARARGS, "_set_anomaly(on, check_nan)."},
    {"is_anomaly_enabled", function_is_anomaly, METH_NOARGS, docs::functions::kIsAnomalyEnabled},
    {"is_anomaly_check_nan_enabled", function_is_nan_check, METH_NOARGS, docs::functions::kIsAnomalyCheckNanEnabled},
    {}};
PyGetSetDef properties[] = {
    {"_backward_hooks", get_backward_hooks, set_backward_hooks, "The dict of register_hook, or None.", nullptr}, {}};

}  // namespace

void init_hooks(PyObject* module) {
  check(PyModule_AddFunctions(module, functions));
  add_to_type(TensorType, nullptr, properties);
  host.pack_saved_tensor = pack;
  host.current_traceback = traceback_here;
  host.node_created = node_created;
  host.backward_failed = backward_failed;
}

}  // namespace facula::python
