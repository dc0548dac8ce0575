// backward(), grad() and grad modes.
#include <unistd.h>

#include <exception>
#include <unordered_set>

#include "autograd/composed.h"
#include "autograd/deep_pass.h"
#include "autograd/engine.h"
#include "budget/budget.h"
#include "core/asking.h"
#include "core/parallel.h"
#include "core/tensor_changes.h"
#include "functions.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/docs/properties.h"
#include "python/docs/tensor.h"
#include "python/docs/types.h"
#include "python/free_threading.h"
#include "python/node_object.h"

namespace facula::python {

namespace {

PyObject* edge_attribute(PyObject* o, const char* name) { return check(PyObject_GetAttrString(o, name)); }

// A Tensor or a GradientEdge.
Edge read_edge(PyObject* o) {
  if (is_tensor(o)) return gradient_edge(tensor_of(o).impl());
  Owned node(edge_attribute(o, "node")), slot(edge_attribute(o, "output_nr"));
  return {node_of(node.get()), static_cast<uint32_t>(to_int(slot.get()))};
}

struct Shape {
  IntList sizes;
  DType dtype;
  Device device;
};

Shape shape_of(PyObject* o, const Edge& edge) {
  if (is_tensor(o)) return {tensor_of(o).sizes(), tensor_of(o).dtype(), tensor_of(o).device()};
  const OutputInfo& info = edge.node->output(edge.slot);
  return {info.sizes(), info.dtype, info.device};
}

Tensor one(const Shape& shape) {
  if (shape.sizes.empty() && shape.device.is_cpu()) return scalar_tensor(Scalar(1.0), shape.dtype);
  return ones(shape.sizes, shape.dtype, shape.device);
}

Tensor implicit_gradient(const Shape& shape, PyObject* root) {
  int64_t numel = 1;
  for (int64_t s : shape.sizes) numel *= s;
  FACULA_CHECK(numel == 1, ErrorKind::Runtime,
               "backward: only a scalar output starts with a gradient of 1 (give a gradient of the "
               "output's shape, or reduce it first, for example with sum()), got shape ",
               shape.sizes);
  FACULA_CHECK(!is_complex(shape.dtype), ErrorKind::Runtime,
               "backward: only a real output starts with a gradient of 1 (give a gradient), got ", shape.dtype);
  if (is_tensor(root) && (tensor_of(root).flags() & kPythonDispatch)) return ones_like(tensor_of(root));
  return one(shape);
}

Tensor checked_gradient(PyObject* given_grad, const Shape& shape, Py_ssize_t i, bool create_graph) {
  FACULA_CHECK(is_tensor(given_grad), ErrorKind::Type, "backward: a gradient is a Tensor or None, got ",
               Py_TYPE(given_grad)->tp_name);
  const Tensor& grad = tensor_of(given_grad);
  FACULA_CHECK(grad.sizes() == shape.sizes, ErrorKind::Runtime, "backward: Mismatch in shape: the gradient of output ",
               i, " must have its shape ", shape.sizes, ", got ", grad.sizes());
  FACULA_CHECK(grad.is_complex() == is_complex(shape.dtype), ErrorKind::Runtime, "backward: for output ", i, " of ",
               shape.dtype, " a gradient of the same kind is expected, got ", grad.dtype());
  return create_graph || !requires_grad(grad) ? grad : alias(grad);
}

[[noreturn]] void report_no_history(Py_ssize_t i, IntList sizes, DType dtype) {
  throw_error(ErrorKind::Runtime, "backward: element ", i,
              " of tensors does not require grad and has no grad_fn (no input of it requires grad, or it was computed "
              "under no_grad()), got shape ",
              sizes, " of ", dtype);
}

/// An input of a transform: an identity whose history leads on to that of the tensor. `begins`: tangents start there.
class TrackedInput final : public Node {
 public:
  TrackedInput(uint32_t flags_now, bool dual) : begins(dual) { flags = flags_now; }
  void apply(const Tensor* grads, Tensor* results) override { results[0] = grads[0]; }
  std::string name() const override { return begins ? "DualInput" : "TrackedInput"; }
  const bool begins;
};

/// Returns what a node is where a graph begins: kRequiresGrad of a leaf, kDual of a forward-mode input.
uint32_t begins(const Node* node) {
  if (node->is_accumulator) return kRequiresGrad;
  const auto* input = dynamic_cast<const TrackedInput*>(node);
  return input && input->begins ? kDual : 0;
}

// _other_inputs(tensor, inputs) -> (leaves, duals): whether its graph leads to leaves, and to forward-mode inputs, that
// are not among them
PyObject* function_other_inputs(PyObject*, PyObject* args) {
  PyObject *o, *list;
  if (!PyArg_ParseTuple(args, "OO!", &o, &PyList_Type, &list)) return nullptr;
  return guarded([&] {
    std::unordered_set<const Node*> own, seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      const Item leaf = list_item(list, i);
      if (leaf.get()) own.insert(gradient_edge(tensor_of(leaf).impl()).node.get());
    }
    std::vector<const Node*> stack;
    const Edge root = gradient_edge(tensor_of(o).impl());
    if (root.node && seen.insert(root.node.get()).second) stack.push_back(root.node.get());
    uint32_t found = 0;
    while (!stack.empty() && found != kRecorded) {
      const Node* node = stack.back();
      stack.pop_back();
      if (!own.count(node)) found |= begins(node);
      for (size_t i = 0; i < node->edge_count(); ++i) {
        const Node* next = node->edge(i).node.get();
        if (next && seen.insert(next).second) stack.push_back(next);
      }
    }
    return Py_BuildValue("(OO)", found & kRequiresGrad ? Py_True : Py_False, found & kDual ? Py_True : Py_False);
  });
}

// Roots, their gradients (ones for scalars) and inputs from Python sequences.
struct Request {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  std::vector<Edge> inputs;
};

Request read_request(PyObject* tensors, PyObject* grads, PyObject* inputs, bool create_graph, bool capture) {
  Request r;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tensors, i);
    Edge edge = read_edge(item);
    if (!edge.node || (is_tensor(item) && !(live_flags(tensor_of(item).impl()) & kRecorded))) {
      report_no_history(i, tensor_of(item).sizes(), tensor_of(item).dtype());
    }
    Shape shape = shape_of(item, edge);
    PyObject* given_grad = PyTuple_GET_ITEM(grads, i);
    if (given_grad != Py_None) r.grads.push_back(checked_gradient(given_grad, shape, i, create_graph));
    else r.grads.push_back(implicit_gradient(shape, item));
    r.roots.push_back(std::move(edge));
  }
  for (Py_ssize_t i = 0; inputs != Py_None && i < PyTuple_GET_SIZE(inputs); ++i) {
    Edge edge = read_edge(PyTuple_GET_ITEM(inputs, i));
    FACULA_CHECK(edge.node, ErrorKind::Runtime, capture ? "grad" : "backward",
                 ": an input to differentiate by does not require grad, got input ", i);
    r.inputs.push_back(std::move(edge));
  }
  return r;
}

/// As run_backward, which it calls without the interpreter's lock; deep inside of other passes on a thread of its own.
std::vector<Tensor> run_pass_now(Request& r, const BackwardOptions& options) {
  if (pass_depth() < kDeepPass) {
    WithoutLock no_lock;
    return run_backward(r.roots, std::move(r.grads), r.inputs, options);
  }
  std::vector<Tensor> captured;
  std::exception_ptr failure;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  {
    WithoutLock no_lock;
    run_on_another_thread([&] {
      WithLock attached;  // an error that is set belongs to the thread's state, which must outlive it
      try {
        WithoutLock detached;
        captured = run_backward(r.roots, std::move(r.grads), r.inputs, options);
      } catch (const PythonError&) {
        PyErr_Fetch(&type, &value, &trace);
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  if (failure) std::rethrow_exception(failure);
  if (!type) return captured;
  PyErr_Restore(type, value, trace);
  throw PythonError{};
}

std::vector<Tensor> run_pass(Request& r, const BackwardOptions& options) {
  std::vector<Tensor> captured = run_pass_now(r, options);
  if (__builtin_expect((watching() & kWatchBudget) != 0, 0)) budget::each_budget(budget::warn_of_dear_step);
  return captured;
}

// _run_backward(tensors, grads, inputs or None, keep_graph, create_graph, accumulate, forward=False) -> tuple
PyObject* function_run_backward(PyObject*, PyObject* args) {
  PyObject *tensors, *grads, *inputs;
  int keep, create, accumulate, forward = 0;
  if (!PyArg_ParseTuple(args, "O!O!Oppp|p", &PyTuple_Type, &tensors, &PyTuple_Type, &grads, &inputs, &keep, &create,
                        &accumulate, &forward))
    return nullptr;
  return guarded([&] {
    Request r = read_request(tensors, grads, inputs, create, !accumulate);
    return wrap(run_pass(r, {keep != 0, create != 0, accumulate != 0, forward ? kDual : kRequiresGrad}));
  });
}

constexpr const char* kSteppedPass = "facula.SteppedPass";

// _stepped_pass(tensors, keep_graph) -> capsule: a pass whose roots get their gradients one by one
PyObject* function_stepped_pass(PyObject*, PyObject* args) {
  PyObject* tensors;
  int keep;
  if (!PyArg_ParseTuple(args, "O!p", &PyTuple_Type, &tensors, &keep)) return nullptr;
  return guarded([&] {
    std::vector<Edge> roots;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
      roots.push_back(read_edge(PyTuple_GET_ITEM(tensors, i)));
      FACULA_CHECK(roots.back().node, ErrorKind::Runtime, "backward: a root must require grad, got root ", i);
    }
    auto pass = std::make_unique<SteppedPass>(std::move(roots), keep != 0);
    PyObject* made = check(PyCapsule_New(pass.get(), kSteppedPass, [](PyObject* o) {
      delete static_cast<SteppedPass*>(PyCapsule_GetPointer(o, kSteppedPass));
    }));
    pass.release();
    return made;
  });
}

// _stepped_pass_step(capsule, first root, gradients or None) -> [(leaf, gradient)]
PyObject* function_stepped_pass_step(PyObject*, PyObject* args) {
  PyObject *capsule, *given;
  Py_ssize_t first;
  if (!PyArg_ParseTuple(args, "OnO!", &capsule, &first, &PyTuple_Type, &given)) return nullptr;
  auto* pass = static_cast<SteppedPass*>(PyCapsule_GetPointer(capsule, kSteppedPass));
  if (!pass) return nullptr;
  return guarded([&] {
    FACULA_CHECK(first >= 0, ErrorKind::Value, "backward: the first root has a number from 0 on, got ", first);
    std::vector<Tensor> grads;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
      PyObject* item = PyTuple_GET_ITEM(given, i);
      FACULA_CHECK(item == Py_None || is_tensor(item), ErrorKind::Type,
                   "backward: a gradient is a Tensor or None, got ", Py_TYPE(item)->tp_name);
      grads.push_back(item == Py_None ? Tensor() : tensor_of(item));
    }
    std::vector<LeafGradient> leaves;
    {
      WithoutLock no_lock;
      leaves = pass->step(static_cast<size_t>(first), std::move(grads));
    }
    Owned list(check(PyList_New(0)));
    for (LeafGradient& leaf : leaves) {
      Owned pair(check(Py_BuildValue("(NN)", wrap(std::move(leaf.leaf)), wrap(std::move(leaf.grad)))));
      if (PyList_Append(list.get(), pair.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

// backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)
PyObject* method_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  if (n > 0 || kwnames || !is_plain_tensor(self) || (thread_state.modes & kModePython)) {
    Owned module(PyImport_ImportModule("facula.autograd"));
    if (!module) return nullptr;
    Owned function(PyObject_GetAttrString(module.get(), "_tensor_backward"));
    if (!function) return nullptr;
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return call_python(PyObject_Vectorcall, function.get(), all.data(), static_cast<size_t>(n + 1), kwnames);
  }
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    if (!(live_flags(t.impl()) & kRequiresGrad)) report_no_history(0, t.sizes(), t.dtype());
    Request r;
    r.roots.push_back(gradient_edge(t.impl()));
    r.grads.push_back(implicit_gradient({t.sizes(), t.dtype(), t.device()}, self));
    run_pass(r, {});
    return Py_NewRef(Py_None);
  });
}

// ---- methods and properties of tensors

PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] {
    TensorImpl* impl = tensor_of(o).impl();
    Ref<Node> node = live_flags(impl) & kRequiresGrad ? grad_fn(impl) : Ref<Node>();
    if (node) collect_cycles_through(o);  // hooks and attributes of the node may lead back to the tensor
    return wrap_node(std::move(node));
  });
}
PyObject* get_output_nr(PyObject* o, void*) {
  return guarded([&] {
    Edge edge = gradient_edge(tensor_of(o).impl());
    return PyLong_FromUnsignedLong(edge.slot);
  });
}
PyObject* get_retains_grad(PyObject* o, void*) {
  AutogradMeta* meta = autograd_meta(tensor_of(o).impl());
  return PyBool_FromLong(meta && meta->retains_grad);
}
PyObject* method_retain_grad(PyObject* self, PyObject*) {
  return guarded([&] {
    retain_grad(tensor_of(self));
    return Py_NewRef(Py_None);
  });
}
PyObject* method_detach(PyObject* self, PyObject*) {
  bool overridden =
      ((!is_plain_tensor(self) && has_override(self)) || (thread_state.modes & kModePython)) && !overrides_disabled();
  if (overridden) return call_override("detach", true, self, nullptr, 0, nullptr);
  return guarded([&] { return wrap(alias(operand_tensor_of(self))); });
}
PyObject* method_detach_(PyObject* self, PyObject*) {
  if (is_overridden(self)) return call_override("detach_", true, self, nullptr, 0, nullptr);
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(
        !t.impl()->base, ErrorKind::Runtime,
        "detach_: Can't detach views in-place (use detach(), which gives a tensor of its own), got a view of shape ",
        t.sizes());
    notify_tensor_changes(t);
    clear_history(t);
    return Py_NewRef(self);
  });
}
// The accumulator of a leaf, as grad_fn of a tensor that has none.
PyObject* method_accumulator(PyObject* self, PyObject*) {
  return guarded([&] { return wrap_node(gradient_edge(tensor_of(self).impl()).node); });
}

// ---- modes

PyObject* function_is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(GradMode::enabled()); }
PyObject* function_set_grad_enabled(PyObject*, PyObject* value) {
  bool before = thread_state.grad_enabled;
  thread_state.grad_enabled = PyObject_IsTrue(value) == 1;
  return PyBool_FromLong(before);
}
PyObject* function_is_forward_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(thread_state.forward_grad_enabled);
}
PyObject* function_set_forward_enabled(PyObject*, PyObject* value) {
  bool before = thread_state.forward_grad_enabled;
  thread_state.forward_grad_enabled = PyObject_IsTrue(value) == 1;
  return PyBool_FromLong(before);
}
PyObject* function_set_composed(PyObject*, PyObject* value) {
  return PyBool_FromLong(set_derivatives_are_composed(PyObject_IsTrue(value) == 1));
}
PyObject* set_mode(Mode mode, bool on) {
  bool before = thread_state.modes & mode;
  if (on) thread_state.modes |= mode;
  else thread_state.modes &= ~static_cast<uint32_t>(mode);
  return PyBool_FromLong(before);
}
PyObject* function_is_inference_mode(PyObject*, PyObject*) {
  return PyBool_FromLong((thread_state.modes & kModeInference) != 0);
}
PyObject* function_set_inference_mode(PyObject*, PyObject* value) {
  return set_mode(kModeInference, PyObject_IsTrue(value) == 1);
}

// ---- forward mode: an input is an identity node that carries a tangent; what depends on it is flagged and recorded,
// and its tangent is derived when it is needed (facula/autograd/forward_ad.py)

PyObject* tracked(PyObject* o, uint32_t flag) {
  const Tensor& primal = strided_tensor_of(o);
  auto node = Ref<TrackedInput>::adopt(new TrackedInput((live_flags(primal.impl()) & kRecorded) | flag, flag == kDual));
  node->add_edge(gradient_edge(primal.impl()));
  Tensor input = alias(primal), origin = alias(primal);
  set_history(input, node.get());
  set_grad_fn(own_autograd_meta(origin.impl()), Ref<Node>::share(node.get()), 0);
  origin.impl()->flags |= node->flags;
  return Py_BuildValue("(NN)", wrap(std::move(input)), wrap(std::move(origin)));
}
PyObject* function_make_dual(PyObject*, PyObject* o) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(o), ErrorKind::Type, "make_dual: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    return tracked(o, kDual);
  });
}
PyObject* function_make_tracked(PyObject*, PyObject* o) {
  return guarded([&] { return tracked(o, kRequiresGrad); });
}
PyObject* function_is_dual(PyObject*, PyObject* o) {
  return PyBool_FromLong(is_tensor(o) && (live_flags(tensor_of(o).impl()) & kDual));
}
PyObject* function_clear_dual(PyObject*, PyObject* o) {
  tensor_of(o).impl()->flags &= ~static_cast<uint32_t>(kDual);
  Py_RETURN_NONE;
}
std::atomic<int64_t> questions{0}, questions_with_lock{0};  // of the main thread

void check_signals() {
  if (gettid() != getpid()) return;  // signals are the main thread's; others need not wait for the lock
  ++questions;
  if (PyGILState_Check()) ++questions_with_lock;
  WithLock lock;
  if (PyErr_CheckSignals() >= 0) return;
  throw PythonError{};
}

/// (how often loops of the main thread looked whether to stop, how often of these with the interpreter's lock)
PyObject* function_questions(PyObject*, PyObject*) {
  return Py_BuildValue("(LL)", static_cast<long long>(questions), static_cast<long long>(questions_with_lock));
}
PyObject* function_set_ask_interval(PyObject*, PyObject* milliseconds) {
  return guarded([&] {
    const int before = ask_interval();
    set_ask_interval(static_cast<int>(to_int(milliseconds)));
    return PyLong_FromLong(before);
  });
}

PyMethodDef functions[] = {
    {"_questions", function_questions, METH_NOARGS,
     "How often loops of the main thread looked whether to stop, and how often of these with the interpreter's lock."},
    {"_set_ask_interval", function_set_ask_interval, METH_O,
     "Lets loops look after so many milliseconds; returns what it was. For tests."},
    {"_stepped_pass", function_stepped_pass, METH_VARARGS,
     "A backward pass whose roots get their gradients one by one, for distributed.autograd."},
    {"_stepped_pass_step", function_stepped_pass_step, METH_VARARGS,
     "Gives some roots their gradients and runs what is ready; [(leaf, its gradient)]."},
    {"_run_backward", function_run_backward, METH_VARARGS,
     "Evaluates the graph backwards; facula.autograd is the public face."},
    {"_set_derivatives_are_composed", function_set_composed, METH_O,
     "Lets formulas of this thread keep no argument of the forward pass, for transforms; returns what it was."},
    {"is_grad_enabled", function_is_grad_enabled, METH_NOARGS, docs::functions::kIsGradEnabled},
    {"_set_grad_enabled", function_set_grad_enabled, METH_O, "Switches recording on this thread; returns what it was."},
    {"_is_fwd_grad_enabled", function_is_forward_enabled, METH_NOARGS,
     "Whether forward mode follows ops on this thread."},
    {"_set_fwd_grad_enabled", function_set_forward_enabled, METH_O,
     "Switches forward mode on this thread; returns what it was."},
    {"is_inference_mode_enabled", function_is_inference_mode, METH_NOARGS, docs::functions::kIsInferenceModeEnabled},
    {"_set_inference_mode", function_set_inference_mode, METH_O, "Switches inference mode; returns what it was."},
    {"_other_inputs", function_other_inputs, METH_VARARGS,
     "Whether a graph leads to leaves, and to forward-mode inputs, beyond those given."},
    {"_make_dual", function_make_dual, METH_O,
     "(dual, origin): two aliases of a tensor that forward mode follows; writes leave the history of the second."},
    {"_is_dual", function_is_dual, METH_O, "Whether forward mode follows the tensor."},
    {"_make_tracked", function_make_tracked, METH_O,
     "(input, origin): two aliases of a tensor that backward passes follow, and with it what the tensor depends on."},
    {"_clear_dual", function_clear_dual, METH_O, "Makes forward mode follow the tensor no longer."},
    {}};
PyMethodDef methods[] = {
    {"backward", as_function(method_backward), METH_FASTCALL | METH_KEYWORDS, docs::tensor::kBackward},
    {"retain_grad", method_retain_grad, METH_NOARGS, docs::tensor::kRetainGrad},
    {"detach", method_detach, METH_NOARGS, docs::tensor::kDetach},
    {"detach_", method_detach_, METH_NOARGS, docs::tensor::kDetachInPlace},
    {"_accumulator", method_accumulator, METH_NOARGS, "The node that receives the gradient of the tensor."},
    {}};
PyGetSetDef properties[] = {{"grad_fn", get_grad_fn, nullptr, docs::properties::kGradFn, nullptr},
                            {"output_nr", get_output_nr, nullptr, docs::properties::kOutputNr, nullptr},
                            {"retains_grad", get_retains_grad, nullptr, docs::properties::kRetainsGrad, nullptr},
                            {}};

}  // namespace

void init_autograd(PyObject* module) {
  init_node(module);
  check(PyModule_AddFunctions(module, functions));
  add_to_type(TensorType, methods, properties);
  host.check_interrupt = check_signals;
  init_batching(module);
  init_hooks(module);
  init_function(module);
  init_autocast(module);
}

}  // namespace facula::python
