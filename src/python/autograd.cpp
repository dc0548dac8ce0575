// backward(), grad(), grad modes, hooks, and nodes as Python objects.
#include "autograd/engine.h"

#include "functions.h"
#include "python/bindings.h"

namespace facula::python {
namespace {

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

struct PyNode {
  PyObject_HEAD
  Ref<Node> node;
};

PyObject* wrap_node(Ref<Node> node) {
  if (!node) Py_RETURN_NONE;
  if (node->pyobj) return Py_NewRef(static_cast<PyObject*>(node->pyobj));
  auto* o = reinterpret_cast<PyNode*>(check(NodeType.tp_alloc(&NodeType, 0)));
  node->pyobj = o;
  new (&o->node) Ref<Node>(std::move(node));
  return reinterpret_cast<PyObject*>(o);
}

const Ref<Node>& node_of(PyObject* o) { return reinterpret_cast<PyNode*>(o)->node; }

void node_dealloc(PyObject* o) {
  auto* self = reinterpret_cast<PyNode*>(o);
  self->node->pyobj = nullptr;
  self->node.~Ref<Node>();
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
}

PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(node_of(o)->name().c_str()); }
PyObject* node_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", node_of(o)->name().c_str(), o); }
PyObject* node_next(PyObject* o, void*) {
  return guarded([&] {
    const Node& node = *node_of(o);
    PyObject* tuple = check(PyTuple_New(static_cast<Py_ssize_t>(node.edge_count())));
    for (size_t i = 0; i < node.edge_count(); ++i) {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i),
                       Py_BuildValue("(NI)", wrap_node(node.edge(i).node), node.edge(i).slot));
    }
    return tuple;
  });
}
PyObject* node_variable(PyObject* o, void*) {
  auto* accumulate = dynamic_cast<AccumulateGrad*>(node_of(o).get());
  if (!accumulate) {
    PyErr_SetString(PyExc_AttributeError, "variable: only an AccumulateGrad node has it");
    return nullptr;
  }
  return guarded([&] { return wrap(accumulate->leaf()); });
}

PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, "The name of the derivative."}, {}};
PyGetSetDef node_properties[] = {
    {"next_functions", node_next, nullptr, "Pairs of the nodes that receive this one's results, and the slot there.", nullptr},
    {"variable", node_variable, nullptr, "The leaf of an AccumulateGrad node.", nullptr},
    {}};

PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] { return wrap_node(tensor_of(o).requires_grad() ? grad_fn(tensor_of(o).impl()) : Ref<Node>()); });
}

// Hooks

void check_signals() {
  WithLock lock;
  if (PyErr_CheckSignals() < 0) throw PythonError{};
}

// Roots, their gradients (ones for scalars) and inputs from Python sequences.
struct Request {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  std::vector<Edge> inputs;
};

Request read_request(PyObject* tensors, PyObject* grads, PyObject* inputs, bool create_graph) {
  Request r;
  Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Tensor& t = tensor_of(PyTuple_GET_ITEM(tensors, i));
    FACULA_CHECK(t.requires_grad(), ErrorKind::Runtime, "backward: element ", i,
                 " of tensors does not require grad and does not have a grad_fn, got shape ", t.sizes());
    PyObject* given_grad = PyTuple_GET_ITEM(grads, i);
    Tensor grad;
    if (given_grad == Py_None) {
      FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime,
                   "backward: grad can be implicitly created only for scalar outputs, got shape ", t.sizes());
      FACULA_CHECK(!t.is_complex(), ErrorKind::Runtime, "backward: grad can be implicitly created only for real scalar outputs, got ", t.dtype());
      grad = ones_like(alias(t));
    } else {
      grad = tensor_of(given_grad);
      FACULA_CHECK(grad.sizes() == t.sizes(), ErrorKind::Runtime, "backward: Mismatch in shape: the gradient of output ", i,
                   " must have its shape ", t.sizes(), ", got ", grad.sizes());
      FACULA_CHECK(grad.is_complex() == t.is_complex(), ErrorKind::Runtime, "backward: for output ", i, " of ", t.dtype(),
                   " a gradient of the same kind is expected, got ", grad.dtype());
      if (!create_graph && grad.requires_grad()) grad = alias(grad);
    }
    r.roots.push_back(gradient_edge(t.impl()));
    r.grads.push_back(std::move(grad));
  }
  for (Py_ssize_t i = 0; inputs != Py_None && i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* item = PyTuple_GET_ITEM(inputs, i);
    const Tensor& t = tensor_of(item);
    FACULA_CHECK(t.requires_grad(), ErrorKind::Runtime, "grad: One of the differentiated Tensors does not require grad, got input ", i);
    r.inputs.push_back(gradient_edge(t.impl()));
  }
  return r;
}

// _run_backward(tensors, grads, inputs or None, keep_graph, create_graph, accumulate) -> tuple
PyObject* function_run_backward(PyObject*, PyObject* args) {
  PyObject *tensors, *grads, *inputs;
  int keep, create, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!Oppp", &PyTuple_Type, &tensors, &PyTuple_Type, &grads, &inputs, &keep, &create, &accumulate)) return nullptr;
  return guarded([&] {
    Request r = read_request(tensors, grads, inputs, create);
    std::vector<Tensor> captured;
    {
      WithoutLock no_lock;
      captured = run_backward(r.roots, std::move(r.grads), r.inputs, {keep != 0, create != 0, accumulate != 0});
    }
    return wrap(captured);
  });
}

// The common call: y.backward()
PyObject* method_backward_fast(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(t.requires_grad(), ErrorKind::Runtime,
                 "backward: element 0 of tensors does not require grad and does not have a grad_fn, got shape ", t.sizes());
    FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime, "backward: grad can be implicitly created only for scalar outputs, got shape ", t.sizes());
    FACULA_CHECK(!t.is_complex(), ErrorKind::Runtime, "backward: grad can be implicitly created only for real scalar outputs, got ", t.dtype());
    std::vector<Edge> roots{gradient_edge(t.impl())};
    std::vector<Tensor> grads{ones_like(alias(t))};
    WithoutLock no_lock;
    run_backward(roots, std::move(grads), {}, {});
    return Py_NewRef(Py_None);
  });
}

PyObject* function_is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(GradMode::enabled()); }
PyObject* function_set_grad_enabled(PyObject*, PyObject* value) {
  bool before = thread_state.grad_enabled;
  thread_state.grad_enabled = PyObject_IsTrue(value) == 1;
  return PyBool_FromLong(before);
}
PyObject* function_is_inference_mode(PyObject*, PyObject*) { return PyBool_FromLong((thread_state.modes & kModeInference) != 0); }
PyObject* function_set_inference_mode(PyObject*, PyObject* value) {
  bool before = thread_state.modes & kModeInference;
  if (PyObject_IsTrue(value) == 1) thread_state.modes |= kModeInference;
  else thread_state.modes &= ~static_cast<uint32_t>(kModeInference);
  return PyBool_FromLong(before);
}

PyMethodDef functions[] = {
    {"_run_backward", function_run_backward, METH_VARARGS, "Evaluates the graph backwards; facula.autograd is the public face."},
    {"is_grad_enabled", function_is_grad_enabled, METH_NOARGS, "is_grad_enabled(): whether ops on this thread are recorded."},
    {"_set_grad_enabled", function_set_grad_enabled, METH_O, "Switches recording on this thread; returns what it was."},
    {"is_inference_mode_enabled", function_is_inference_mode, METH_NOARGS, "Whether inference mode is on."},
    {"_set_inference_mode", function_set_inference_mode, METH_O, "Switches inference mode; returns what it was."},
    {}};
PyMethodDef methods[] = {{"_backward_fast", method_backward_fast, METH_NOARGS, "backward() of a scalar without options."}, {}};
PyGetSetDef properties[] = {{"grad_fn", get_grad_fn, nullptr, "The node that made the tensor, or None.", nullptr}, {}};

}  // namespace

void init_autograd(PyObject* module) {
  NodeType.tp_name = "torch.autograd.graph.Node";
  NodeType.tp_basicsize = sizeof(PyNode);
  NodeType.tp_flags = Py_TPFLAGS_DEFAULT;
  NodeType.tp_doc = "A recorded derivative.";
  NodeType.tp_dealloc = node_dealloc;
  NodeType.tp_repr = node_repr;
  NodeType.tp_methods = node_methods;
  NodeType.tp_getset = node_properties;
  check(PyType_Ready(&NodeType));
  Py_INCREF(&NodeType);
  PyModule_AddObject(module, "_Node", reinterpret_cast<PyObject*>(&NodeType));
  check(PyModule_AddFunctions(module, functions));
  for (PyMethodDef* m = methods; m->ml_name; ++m) {
    Owned descriptor(check(PyDescr_NewMethod(&TensorType, m)));
    check(PyDict_SetItemString(TensorType.tp_dict, m->ml_name, descriptor.get()));
  }
  for (PyGetSetDef* g = properties; g->name; ++g) {
    Owned descriptor(check(PyDescr_NewGetSet(&TensorType, g)));
    check(PyDict_SetItemString(TensorType.tp_dict, g->name, descriptor.get()));
  }
  check_interrupt = check_signals;
}

}  // namespace facula::python
