// autograd.Function: its context, which is also the node as Python sees it, and apply().
//
// The C++ node owns the Python context; the context knows its node until that dies. Values given to save_for_backward
// are held by the node, outputs without their history, so that a graph of custom functions has no reference cycles.
#include "autograd/inplace.h"
#include "budget/budget.h"
#include "functions.h"
#include "python/bindings.h"
#include "python/free_threading.h"
#include "python/node_object.h"

namespace facula::python {

PyTypeObject FunctionType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyNode* self_of(PyObject* o) { return reinterpret_cast<PyNode*>(o); }

#define NAME(x)                                                           \
  ([]() -> PyObject* {                                                    \
    static std::atomic<PyObject*> name;                                   \
    return made_once(name, [] { return PyUnicode_InternFromString(x); }); \
  }())

Owned attribute(PyObject* o, PyObject* name) { return Owned(check(PyObject_GetAttr(o, name))); }
bool flag(PyObject* o, PyObject* name) { return PyObject_IsTrue(attribute(o, name).get()) == 1; }

class FunctionNode final : public Node {
 public:
  explicit FunctionNode(PyObject* context) : context_(Py_NewRef(context)) {
    pyobj = context;
    self_of(context)->node = this;
  }
  ~FunctionNode() override {
    WithLock lock;
    forget_node(context_);
    pyobj = nullptr;
    saved_.clear();
    Py_DECREF(context_);
  }
  std::string name() const override { return _PyType_Name(Py_TYPE(context_)); }
  void release_saved() override { saved_.clear(); }
  void apply(const Tensor* grads, Tensor* results) override;

  void add_input(PyObject* o) {
    input_edges_.push_back(is_tensor(o) ? static_cast<int>(edge_count()) : -1);
    if (is_tensor(o)) add_edge(gradient_edge(tensor_of(o).impl()));
  }
  void save(const Tensor& t, bool is_output) { saved_.emplace_back(t, is_output); }
  /// An output that has no gradient, whatever comes in for it.
  void add_plain_output(const Tensor& t) { plain_.push_back(add_output(t)); }
  std::vector<Tensor> saved() const {
    FACULA_CHECK(
        !freed, ErrorKind::Runtime, name(),
        ": an earlier pass of backward freed the tensors that this graph saved, so it cannot go through the graph a "
        "second time (give retain_graph=True to the first pass, or compute the loss anew)");
    return unpack_list(saved_, *this);
  }
  bool materialize = true, materialize_plain = true;
  PyObject* context() const { return context_; }

 private:
  Owned arguments(const Tensor* grads) const;
  Owned needs() const;
  void unpack(PyObject* result, Tensor* results) const;

  PyObject* context_;
  std::vector<int> input_edges_;  // per argument of forward: its edge, -1 for what is no tensor
  std::vector<uint32_t> plain_;
  std::vector<SavedTensor> saved_;
};

Owned FunctionNode::arguments(const Tensor* grads) const {
  Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(output_count() + 1))));
  PyTuple_SET_ITEM(tuple.get(), 0, Py_NewRef(context_));
  for (size_t i = 0; i < output_count(); ++i) {
    Tensor grad = grads[i];
    const bool plain = std::find(plain_.begin(), plain_.end(), static_cast<uint32_t>(i)) != plain_.end();
    if (!grad.defined() && materialize && (materialize_plain || !plain) && output(i).ndim() >= 0)
      grad = zeros(output(i).sizes(), output(i).dtype, output(i).device);
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i + 1), check(wrap(std::move(grad))));
  }
  return tuple;
}

// While a pass for some inputs runs the node, `needs_input_grad` says what that pass needs.
class Needs {
 public:
  Needs(PyObject* context, PyObject* now) : context_(context), before_(attribute(context, NAME("needs_input_grad"))) {
    check(PyObject_SetAttr(context_, NAME("needs_input_grad"), now));
  }
  ~Needs() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject_SetAttr(context_, NAME("needs_input_grad"), before_.get()) < 0) PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
  Needs(const Needs&) = delete;

 private:
  PyObject* context_;
  Owned before_;
};

Owned FunctionNode::needs() const {
  Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(input_edges_.size()))));
  for (size_t i = 0; i < input_edges_.size(); ++i) {
    bool needed = input_edges_[i] >= 0 && wants(static_cast<size_t>(input_edges_[i]));
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyBool_FromLong(needed));
  }
  return tuple;
}

void FunctionNode::apply(const Tensor* grads, Tensor* results) {
  WithLock lock;
  std::optional<Needs> now;
  if (requested.node == this) now.emplace(context_, needs().get());
  Owned forward_class = attribute(reinterpret_cast<PyObject*>(Py_TYPE(context_)), NAME("_forward_cls"));
  Owned backward = attribute(forward_class.get(), NAME("_backward"));
  Owned tuple = arguments(grads);
  Owned result(check(call_python(PyObject_CallObject, backward.get(), tuple.get())));
  unpack(result.get(), results);
}

void FunctionNode::unpack(PyObject* result, Tensor* results) const {
  Owned items(PyTuple_Check(result)  ? Py_NewRef(result)
              : PyList_Check(result) ? check(PyList_AsTuple(result))
                                     : check(PyTuple_Pack(1, result)));
  auto expected = static_cast<Py_ssize_t>(input_edges_.size()), got = PyTuple_GET_SIZE(items.get());
  for (Py_ssize_t i = expected; i < got; ++i) {
    if (PyTuple_GET_ITEM(items.get(), i) != Py_None) expected = -1;
  }
  FACULA_CHECK(expected >= 0 && got >= expected, ErrorKind::Runtime, name(),
               ": backward returned an incorrect number of gradients (expected ", input_edges_.size(), ", got ", got,
               ")");
  for (Py_ssize_t i = 0; i < expected; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    int edge = input_edges_[static_cast<size_t>(i)];
    if (item == Py_None) continue;
    FACULA_CHECK(edge >= 0, ErrorKind::Runtime, name(),
                 ": backward must return None for an argument that is no Tensor, got a gradient at position ", i + 1);
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, name(), ": expected a Tensor or None as gradient ", i + 1, ", got ",
                 Py_TYPE(item)->tp_name);
    if (!wants(static_cast<size_t>(edge))) continue;
    const Edge& to = this->edge(static_cast<size_t>(edge));
    IntList wanted = to.node->output(to.slot).sizes();
    const Tensor& grad = tensor_of(item);
    FACULA_CHECK(grad.sizes() == wanted || broadcasts_to(wanted, grad.sizes()), ErrorKind::Runtime, name(),
                 ": backward must return gradients of the shapes of the arguments, ", wanted, ", got ", grad.sizes(),
                 " at index ", i);
    results[edge] = grad;
  }
}

}  // namespace

PyObject* context_of(Node* node) {
  auto* function = dynamic_cast<FunctionNode*>(node);
  return function ? function->context() : nullptr;
}

namespace {

// ---- the context

int context_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(self_of(o)->dict);
  return 0;
}

int context_clear(PyObject* o) {
  Py_CLEAR(self_of(o)->dict);
  return 0;
}

void context_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  PyNode* self = self_of(o);
  if (self->weak_references) PyObject_ClearWeakRefs(o);
  Py_CLEAR(self->dict);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
}

PyObject* get_saved_tensors(PyObject* o, void*) {
  return guarded([&] {
    Owned for_jvp(attribute(o, NAME("saved_for_forward")));
    if (for_jvp.get() != Py_None) return for_jvp.release();
    const Ref<Node> node = node_of_context(o);
    if (!node) return check(PyTuple_New(0));
    const AloneWith alone(*node);
    return wrap(static_cast<FunctionNode*>(node.get())->saved());
  });
}

PyObject* get_saved_variables(PyObject* o, void* context) {
  constexpr const char* kText = "saved_variables: it is deprecated, use saved_tensors";
  return PyErr_WarnEx(PyExc_DeprecationWarning, kText, 1) < 0 ? nullptr : get_saved_tensors(o, context);
}

PyGetSetDef context_properties[] = {
    {"saved_tensors", get_saved_tensors, nullptr,
     "What save_for_backward was given, checked for writes since; in jvp what save_for_forward was.", nullptr},
    {"saved_variables", get_saved_variables, nullptr, "As saved_tensors.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, "What the program keeps on the context.", nullptr},
    {}};

// ---- apply

bool contains(PyObject* tuple, PyObject* tensor) {
  if (tuple == Py_None) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tuple); ++i) {
    const Item item = list_item(tuple, i);
    if (item.get() && is_tensor(item) && tensor_of(item).is_same(tensor_of(tensor))) return true;
  }
  return false;
}

// One call of apply(), after forward ran.
constexpr long kView = 1, kWritten = 2, kPlain = 4;
struct Outputs {
  PyObject* cls;
  PyObject* context;
  PyObject* const* args;
  Py_ssize_t nargs;
  Ref<FunctionNode> node;  // null: nothing is recorded
  Owned dirty, non_differentiable, to_save;

  bool is_input(PyObject* o) const {
    for (Py_ssize_t i = 0; i < nargs; ++i) {
      if (is_tensor(args[i]) && tensor_of(args[i]).is_same(tensor_of(o))) return true;
    }
    return false;
  }

  /// What a tensor that forward returned is: jvp must treat its tangents alike.
  long kind_of(PyObject* o) const {
    if (!is_tensor(o)) return 0;
    const bool written = contains(dirty.get(), o), input = is_input(o);
    const bool plain = contains(non_differentiable.get(), o) || !is_inexact(tensor_of(o).dtype());
    return (written && input ? kWritten : 0) | (plain ? kPlain : 0) |
           (!written && (input || tensor_of(o).impl()->base) ? kView : 0);
  }

  PyObject* finish(PyObject* o, Py_ssize_t count) {
    if (!is_tensor(o)) {
      if (node) node->add_output();
      return Py_NewRef(o);
    }
    bool input = is_input(o), written = contains(dirty.get(), o), plain = contains(non_differentiable.get(), o);
    FACULA_CHECK(!(written && plain), ErrorKind::Runtime,
                 "mark_non_differentiable: a tensor that was changed in place cannot be non-differentiable");
    const Tensor& t = tensor_of(o);
    if (!node) return input && !written ? as_view(o) : Py_NewRef(o);
    if (written) {
      FACULA_CHECK(count == 1 || !input || !t.impl()->base, ErrorKind::Runtime,
                   "mark_dirty: a Function that writes into ", "a view may have one output only, got ", count,
                   " (clone the view, or return the others by a Function ", "of their own)");
      check_writable(t, _PyType_Name(reinterpret_cast<PyTypeObject*>(cls)));
      set_history_in_place(t, node.get(), node->add_output(t));
      return Py_NewRef(o);
    }
    if (plain || !is_inexact(t.dtype())) {
      node->add_plain_output(t);
      return input || requires_grad(t) ? wrap(alias(t)) : Py_NewRef(o);
    }
    // An input, a view of one or a captured tensor becomes a tensor of its own.
    bool own = !input && !t.impl()->base && !requires_grad(t);
    if (own) {
      set_history(t, node.get());
      collect_cycles_through(o);
      return Py_NewRef(o);
    }
    Tensor fresh = alias(t);
    set_history(fresh, node.get());
    Owned made(wrap(fresh));
    collect_cycles_through(made.get());
    return made.release();
  }

  /// An input that comes back as it is becomes a view of itself; a class with __torch_function__ makes its own.
  static PyObject* as_view(PyObject* o) {
    if (is_plain_tensor(o) || !has_own_override(o) || overrides_disabled()) return wrap(alias_view(tensor_of(o)));
    return check(call_python(PyObject_CallMethod, o, "view_as", "O", o));
  }

  void save(PyObject* finished) {
    if (!node || to_save.get() == Py_None) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(to_save.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(to_save.get(), i);
      FACULA_CHECK(item == Py_None || is_tensor(item), ErrorKind::Type,
                   "save_for_backward: can only save tensors, but argument ", i, " is of type ",
                   Py_TYPE(item)->tp_name);
      if (item == Py_None) node->save(Tensor(), false);
      else node->save(tensor_of(item), contains(finished, item) && grad_fn(tensor_of(item).impl()).get() == node.get());
    }
  }
};

void check_dirty(const Outputs& outputs, PyObject* raw) {
  if (outputs.dirty.get() == Py_None) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(outputs.dirty.get()); ++i) {
    const Item item = list_item(outputs.dirty.get(), i);
    FACULA_CHECK(item.get() && is_tensor(item), ErrorKind::Type, "mark_dirty: expects Tensors, but argument ", i,
                 " is of type ", item.get() ? Py_TYPE(item)->tp_name : "none");
    FACULA_CHECK(contains(raw, item), ErrorKind::Runtime,
                 "mark_dirty: forward returns what it marks as written in place, but not argument ", i);
    if (outputs.node && !outputs.is_input(item)) {
      constexpr const char* kText =
          "mark_dirty: argument %zd is no input of forward, and only inputs need to be marked";
      if (PyErr_WarnFormat(PyExc_UserWarning, 1, kText, i) < 0) throw PythonError();
    }
    count_write(tensor_of(item));
  }
}

Owned call_forward(PyObject* cls, PyObject* context, PyObject* const* args, Py_ssize_t nargs) {
  std::optional<budget::RecordsAnyway> recorded;  // what is computed inside may be saved, and computed again
  if (GradMode::enabled()) recorded.emplace();
  GradMode off(false);
  Owned forward = attribute(cls, NAME("forward"));
  if (flag(cls, NAME("_has_setup_context"))) {
    Owned output(check(call_python(PyObject_Vectorcall, forward.get(), args, static_cast<size_t>(nargs), nullptr)));
    Owned inputs(check(PyTuple_New(nargs)));
    for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(inputs.get(), i, Py_NewRef(args[i]));
    Owned setup = attribute(cls, NAME("setup_context"));
    Owned done(
        check(call_python(PyObject_CallFunctionObjArgs, setup.get(), context, inputs.get(), output.get(), nullptr)));
    return output;
  }
  std::vector<PyObject*> all{context};
  all.insert(all.end(), args, args + nargs);
  return Owned(check(call_python(PyObject_Vectorcall, forward.get(), all.data(), all.size(), nullptr)));
}

Owned new_context(PyObject* cls) {
  return Owned(check(call_python(PyObject_CallNoArgs, attribute(cls, NAME("_backward_cls")).get())));
}

// The outputs as the caller gets them. One that forward returned twice is one tensor, which has two places at the node.
Owned finish_all(Outputs& outputs, PyObject* items) {
  const Py_ssize_t count = PyTuple_GET_SIZE(items);
  Owned finished(check(PyTuple_New(count)));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items, i);
    Py_ssize_t first = 0;
    while (PyTuple_GET_ITEM(items, first) != item) ++first;
    PyObject* made = nullptr;
    if (first < i && is_tensor(item)) {
      made = Py_NewRef(PyTuple_GET_ITEM(finished.get(), first));
      if (outputs.node) outputs.node->add_output(tensor_of(made));
    } else {
      made = check(outputs.finish(item, count));
    }
    PyTuple_SET_ITEM(finished.get(), i, made);
  }
  return finished;
}

PyObject* kinds_of(const Outputs& outputs, PyObject* items) {
  Owned kinds(check(PyTuple_New(PyTuple_GET_SIZE(items))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i)
    PyTuple_SET_ITEM(kinds.get(), i, check(PyLong_FromLong(outputs.kind_of(PyTuple_GET_ITEM(items, i)))));
  return kinds.release();
}

PyObject* apply(PyObject* cls, const Owned& context, PyObject* const* args, Py_ssize_t nargs, Owned* kinds = nullptr) {
  uint32_t recorded_flags = 0;
  Owned needs(check(PyTuple_New(nargs)));
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    uint32_t flags = is_tensor(args[i]) ? live_flags(tensor_of(args[i]).impl()) : 0;
    recorded_flags |= recorded(flags);
    PyTuple_SET_ITEM(needs.get(), i, PyBool_FromLong((flags & kRecorded) != 0));
  }
  check(PyObject_SetAttr(context.get(), NAME("needs_input_grad"), needs.get()));
  Owned raw = call_forward(cls, context.get(), args, nargs);
  bool single = !PyTuple_Check(raw.get()) && !PyList_Check(raw.get());
  Owned items(single ? check(PyTuple_Pack(1, raw.get())) : check(PySequence_Tuple(raw.get())));
  Outputs outputs{cls,
                  context.get(),
                  args,
                  nargs,
                  {},
                  attribute(context.get(), NAME("dirty_tensors")),
                  attribute(context.get(), NAME("non_differentiable")),
                  attribute(context.get(), NAME("to_save"))};
  if (recorded_flags) {
    outputs.node = Ref<FunctionNode>::adopt(new FunctionNode(context.get()));
    outputs.node->flags = recorded_flags;
    outputs.node->materialize = flag(context.get(), NAME("materialize_grads"));
    outputs.node->materialize_plain = flag(context.get(), NAME("_materialize_non_diff_grads"));
    for (Py_ssize_t i = 0; i < nargs; ++i) outputs.node->add_input(args[i]);
  }
  check_dirty(outputs, items.get());
  if (kinds) *kinds = Owned(kinds_of(outputs, items.get()));
  Owned finished = finish_all(outputs, items.get());
  outputs.save(finished.get());
  for (PyObject* name : {NAME("to_save"), NAME("dirty_tensors"), NAME("non_differentiable")}) {
    check(PyObject_SetAttr(context.get(), name, Py_None));
  }
  return single ? Py_NewRef(PyTuple_GET_ITEM(finished.get(), 0)) : finished.release();
}

PyObject* apply_recorded(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  Owned context = new_context(cls), result(check(apply(cls, context, args, nargs)));
  check(PyObject_SetAttr(context.get(), NAME("saved_for_forward"), Py_None));
  return result.release();
}

// Whether facula.autograd.function must look at the call first: vmap wrappers, forward mode with a jvp of the user's.
bool is_special(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  if (thread_state.modes & kModePython) return true;
  bool dual = false;
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    if (is_tensor(args[i])) {
      dual |= (tensor_of(args[i]).flags() & kDual) != 0;
      if (!is_plain_tensor(args[i]) && has_attribute(args[i], "_vmap_level")) return true;
    }
  }
  return dual && flag(cls, NAME("_has_jvp"));
}

PyObject* tuple_of(PyObject* const* args, Py_ssize_t nargs) {
  PyObject* tuple = check(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  return tuple;
}

PyObject* apply_positional(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  if (!is_special(cls, args, nargs)) return apply_recorded(cls, args, nargs);
  Owned tuple(tuple_of(args, nargs)), module(check(PyImport_ImportModule("facula.autograd.function")));
  return check(call_python(PyObject_CallMethod, module.get(), "_apply_special", "OO", cls, tuple.get()));
}

PyObject* method_apply(PyObject* cls, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(has_attribute(cls, "_backward_cls"), ErrorKind::Type,
                 "apply: call it on a subclass of autograd.Function, got ",
                 reinterpret_cast<PyTypeObject*>(cls)->tp_name);
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (named == 0 && !flag(cls, NAME("_has_defaults"))) return apply_positional(cls, args, nargs);
    Owned given(tuple_of(args, nargs)), by_name(check(PyDict_New()));
    for (Py_ssize_t i = 0; i < named; ++i) PyDict_SetItem(by_name.get(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]);
    Owned module(check(PyImport_ImportModule("facula.autograd.function")));
    Owned all(
        check(call_python(PyObject_CallMethod, module.get(), "_in_order", "OOO", cls, given.get(), by_name.get())));
    return apply_positional(cls, &PyTuple_GET_ITEM(all.get(), 0), PyTuple_GET_SIZE(all.get()));
  });
}
// The plain call, for _apply_special.
PyObject* method_apply_plain(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] { return apply_recorded(cls, args, nargs); });
}
// The same for jvp, which is called with the context.
PyObject* method_apply_with_context(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&] {
    Owned kinds, context = new_context(cls), result(check(apply(cls, context, args, nargs, &kinds)));
    return check(PyTuple_Pack(3, result.get(), context.get(), kinds.get()));
  });
}

PyMethodDef context_methods[] = {
    {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_apply)),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, "apply(*args, **kwargs): Run forward and record backward."},
    {"_apply_plain", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_apply_plain)),
     METH_FASTCALL | METH_CLASS, "apply without vmap and jvp."},
    {"_apply_with_context", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_apply_with_context)),
     METH_FASTCALL | METH_CLASS, "_apply_plain; gives the result, the context and what each output is (see kind_of)."},
    {}};

}  // namespace

void init_function(PyObject* module) {
  FunctionType.tp_name = "facula._C._FunctionBase";
  FunctionType.tp_base = &NodeType;
  FunctionType.tp_basicsize = sizeof(PyNode);
  FunctionType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  FunctionType.tp_traverse = context_traverse;
  FunctionType.tp_clear = context_clear;
  FunctionType.tp_free = PyObject_GC_Del;
  FunctionType.tp_doc = "Base of autograd.Function and of its contexts.";
  FunctionType.tp_new = PyType_GenericNew;
  FunctionType.tp_dealloc = context_dealloc;
  FunctionType.tp_methods = context_methods;
  FunctionType.tp_getset = context_properties;
  check(PyType_Ready(&FunctionType));
  Py_INCREF(&FunctionType);
  PyModule_AddObject(module, "_FunctionBase", reinterpret_cast<PyObject*>(&FunctionType));
}

}  // namespace facula::python
