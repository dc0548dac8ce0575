// backward(), grad(), grad modes, and nodes as Python objects.
#include <unistd.h>

#include <cstring>
#include <map>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/saved.h"
#include "core/parallel.h"
#include "cpu/packed_weights.h"
#include "functions.h"
#include "python/bindings.h"
#include "python/docs/functions.h"
#include "python/docs/properties.h"
#include "python/docs/tensor.h"
#include "python/docs/types.h"
#include "python/free_threading.h"
#include "python/node_object.h"

namespace facula::python {

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyNode* self_of(PyObject* o) { return reinterpret_cast<PyNode*>(o); }

ShortLock node_locks[64];  // the object that a node points to, and the node that a context points to
ShortLock& node_lock(const void* p) {
  return node_locks[(reinterpret_cast<uintptr_t>(p) >> 6) % std::size(node_locks)];
}

/// Whoever lets go of a node looks whether it has an object, without a lock.
void show_as(Node* node, PyObject* o) { std::atomic_ref<void*>(node->pyobj).store(o, std::memory_order_relaxed); }

void node_dealloc(PyObject* o) {
  PyNode* self = self_of(o);
  if (self->owns_node) {
    Holding guard(node_lock(self->node));
    if (self->node->pyobj == o) show_as(self->node, nullptr);  // else another thread has made another object
  }
  if (self->weak_references) PyObject_ClearWeakRefs(o);
  Py_CLEAR(self->dict);
  if (self->owns_node) release(self->node);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

// ---- saved values as attributes: _saved_self, _saved_dim, ... and _saved_self_sym_sizes where only the shape is kept

// A node's member "self_info" describes the argument self.
std::string attribute_of(const std::string& member) {
  return "_saved_" + (member.ends_with("_info") ? member.substr(0, member.size() - 5) + "_sym_sizes" : member);
}

class SavedNames final : public SavedVisitor {
 public:
  using SavedVisitor::SavedVisitor;
  std::vector<std::string> names;

 protected:
  bool wants(const char* name) override {
    names.push_back(name);
    return false;
  }
  void tensor(const Tensor&) override {}
  void tensors(const std::vector<Tensor>&) override {}
  void number(const Scalar&) override {}
  void ints(IntList) override {}
  void floats(const std::vector<double>&) override {}
  void text(const std::string&) override {}
  void dtype(DType) override {}
  void none() override {}
};

class SavedValue final : public SavedVisitor {
 public:
  SavedValue(const Node& node, const char* name) : SavedVisitor(node), name_(name) {}
  PyObject* take() { return value_ ? value_.release() : Py_NewRef(Py_None); }

 protected:
  bool wants(const char* name) override { return std::strcmp(name, name_) == 0; }
  void tensor(const Tensor& t) override { value_ = Owned(check(wrap(t))); }
  void tensors(const std::vector<Tensor>& list) override { value_ = Owned(check(wrap(list))); }
  void number(const Scalar& s) override { value_ = Owned(check(wrap(s))); }
  void ints(IntList list) override { value_ = Owned(check(wrap_ints(list))); }
  void floats(const std::vector<double>& list) override {
    value_ = Owned(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
    for (size_t i = 0; i < list.size(); ++i)
      PyTuple_SET_ITEM(value_.get(), static_cast<Py_ssize_t>(i), check(PyFloat_FromDouble(list[i])));
  }
  void text(const std::string& s) override { value_ = Owned(check(PyUnicode_FromString(s.c_str()))); }
  void dtype(DType d) override { value_ = Owned(check(wrap_dtype(d))); }
  void none() override { value_ = Owned(Py_NewRef(Py_None)); }

 private:
  const char* name_;
  Owned value_;
};

PyObject* node_saved(PyObject* o, void* member) {
  return guarded([&] {
    const Ref<Node> held = node_of(o);
    const Node& node = *held;
    FACULA_CHECK(!node.freed, ErrorKind::Runtime, node.name(),
                 ": Trying to access saved values after they have already been freed (give "
                 "retain_graph=True to the first backward), got ",
                 attribute_of(static_cast<const char*>(member)));
    SavedValue value(node, static_cast<const char*>(member));
    node.visit_saved(value);
    return value.take();
  });
}

// Kept by the class.
PyGetSetDef* saved_properties(const Node& node) {
  SavedNames found(node);
  node.visit_saved(found);
  auto* properties = new PyGetSetDef[found.names.size() + 1]();
  for (size_t i = 0; i < found.names.size(); ++i) {
    auto* member = new std::string(found.names[i]);
    auto* attribute = new std::string(attribute_of(*member));
    properties[i] = {attribute->c_str(), node_saved, nullptr, "A value that the derivative needs.",
                     const_cast<char*>(member->c_str())};
  }
  return properties;
}

// One number, or the count of a list, that the node kept under a name; -1 when it kept none.
class SavedNumber final : public SavedVisitor {
 public:
  SavedNumber(const Node& node, const char* name) : SavedVisitor(node), name_(name) { node.visit_saved(*this); }
  int64_t value = -1;

 protected:
  bool wants(const char* name) override { return std::strcmp(name, name_) == 0; }
  void tensor(const Tensor&) override {}
  void tensors(const std::vector<Tensor>&) override {}
  void number(const Scalar& s) override { value = s.to_int(); }
  void ints(IntList list) override { value = static_cast<int64_t>(list.size()); }
  void floats(const std::vector<double>&) override {}
  void text(const std::string&) override {}
  void dtype(DType) override {}
  void none() override {}

 private:
  const char* name_;
};

// PyTorch has an op for every number of dimensions.
struct NameByRank {
  const char *list, *before, *after;  // what the node kept for every dimension; the name without their number
};
const std::map<std::string_view, NameByRank> names_by_rank = {
    {"AdaptiveAvgPoolBackward0", {"output_size", "AdaptiveAvgPool", "DBackward0"}},
    {"AdaptiveMaxPoolBackward0", {"output_size", "AdaptiveMaxPool", "DBackward0"}},
    {"AvgPoolBackward0", {"kernel_size", "AvgPool", "DBackward0"}},
    {"FractionalMaxPoolBackward0", {"output_size", "FractionalMaxPool", "DBackward0"}},
    {"MaxPoolBackward0", {"kernel_size", "MaxPool", "DWithIndicesBackward0"}},
};

std::string linear_name(const Node& node) {
  int rank = node.output(0).ndim();
  if (rank == 2) return node.wants(2) ? "AddmmBackward0" : "MmBackward0";
  return rank == 0       ? "MvBackward0"
         : node.wants(2) ? "ViewBackward0"
         : rank == 1     ? "SqueezeBackward4"
                         : "UnsafeViewBackward0";
}

std::string row_norm_name(const Node& node) {
  int64_t channels = SavedNumber(node, "channels").value, numel = 1;
  IntList sizes = node.output(0).sizes();
  for (size_t i = sizes.size(); i > 0 && numel < channels; --i) numel *= sizes[i - 1];
  bool last_dims = SavedNumber(node, "groups").value == 1 && numel == channels;
  return last_dims ? "NativeLayerNormBackward0" : "NativeGroupNormBackward0";
}

std::string grid_sampler_name(const Node& node) {
  return node.output(0).ndim() == 5 ? "GridSampler3DBackward0" : "GridSampler2DBackward0";
}

std::string pow_name(const Node& node) {
  return !node.wants(1) ? "PowBackward0" : node.wants(0) ? "PowBackward1" : "PowBackward2";
}

const std::map<std::string_view, std::string (*)(const Node&)> names_by_use = {
    {"GridSamplerBackward0", grid_sampler_name},
    {"LinearBackward0", linear_name},
    {"PowBackward0", pow_name},
    {"RowNormBackward0", row_norm_name},
};

// Nodes are named after their op's overload; PyTorch counts the overloads of a name. What a program prints is
// PyTorch's.
std::string public_name(const Node& node) {
  static const std::map<std::string_view, std::string_view> names = {
      {"ChannelNormBackward0", "NativeBatchNormBackward0"},
      {"ClampBackward0", "ClampBackward1"},
      {"CrossEntropyBackward0", "NllLossBackward0"},
      {"EntrBackward0", "SpecialEntrBackward0"},
      {"ErfcxBackward0", "SpecialErfcxBackward0"},
      {"GeluErfBackward0", "GeluBackward0"},
      {"GeluTanhBackward0", "GeluBackward0"},
      {"I0eBackward0", "SpecialI0EBackward0"},
      {"I1Backward0", "SpecialI1Backward0"},
      {"I1eBackward0", "SpecialI1EBackward0"},
      {"IndexTensorBackward0", "IndexBackward0"},
      {"LogNdtrBackward0", "SpecialLogNdtrBackward0"},
      {"LogsigmoidBackward0", "LogSigmoidBackward0"},
      {"MaskedFillScalarBackward0", "MaskedFillBackward0"},
      {"MaskedFillTensorBackward0", "MaskedFillBackward1"},
      {"MaxBackward0", "MaxBackward1"},
      {"MaxDimBackward0", "MaxBackward0"},
      {"MaxUnpool2dBackward0", "MaxUnpool2DBackward0"},
      {"MaxUnpool3dBackward0", "MaxUnpool3DBackward0"},
      {"MeanDimBackward0", "MeanBackward1"},
      {"MedianDimBackward0", "MedianBackward1"},
      {"MinBackward0", "MinBackward1"},
      {"MinDimBackward0", "MinBackward0"},
      {"NanmedianDimBackward0", "NanmedianBackward1"},
      {"NdtriBackward0", "SpecialNdtriBackward0"},
      {"NllBackward0", "NllLossBackward0"},
      {"NormalFloatTensorBackward0", "NormalBackward2"},
      {"NormalTensorFloatBackward0", "NormalBackward1"},
      {"NormalTensorTensorBackward0", "NormalBackward3"},
      {"ProdDimIntBackward0", "ProdBackward1"},
      {"ScatterSrcBackward0", "ScatterBackward0"},
      {"ScatterValueBackward0", "ScatterBackward1"},
      {"SelectIntBackward0", "SelectBackward0"},
      {"SortStableBackward0", "SortBackward1"},
      {"SquareBackward0", "PowBackward0"},
      {"SqueezeDimBackward0", "SqueezeBackward1"},
      {"SqueezeDimsBackward0", "SqueezeBackward2"},
      {"SumDimBackward0", "SumBackward1"},
      {"ToDtypeBackward0", "ToCopyBackward0"},
      {"TransposeIntBackward0", "TransposeBackward0"},
      {"Xlog1pyBackward0", "SpecialXlog1PyBackward0"},
      {"ZetaBackward0", "SpecialZetaBackward0"},
  };
  std::string own = node.name();
  if (auto found = names.find(own); found != names.end()) return std::string(found->second);
  if (auto found = names_by_use.find(own); found != names_by_use.end()) return found->second(node);
  auto found = names_by_rank.find(own);
  if (found == names_by_rank.end()) return own;
  int64_t rank = SavedNumber(node, found->second.list).value;
  return rank == 1 ? "SqueezeBackward1" : found->second.before + std::to_string(rank) + found->second.after;
}

// One Python class per derivative, so that type(fn).__name__ tells which.
PyTypeObject* class_of(const Node& node) {
  static std::map<std::string, PyTypeObject*> classes;
  static Mutex making;
  const std::string own = node.name(), name = public_name(node), key = own + ' ' + name;
  Holding guard(making);
  auto found = classes.find(key);
  if (found != classes.end()) return found->second;
  auto* qualified = new std::string("facula.autograd." + name);  // kept by the class
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)}, {Py_tp_getset, saved_properties(node)}, {0, nullptr}};
  PyType_Spec spec = {qualified->c_str(), sizeof(PyNode), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  Owned bases(check(PyTuple_Pack(1, &NodeType)));
  auto* made = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpecWithBases(&spec, bases.get())));
  return classes[key] = made;
}

// A node dies: its metadata go with it.
void node_destroyed(Node* node) {
  NodeExtra* extra = node->extra_if_any();
  if (!extra || !extra->metadata) return;
  WithLock lock;
  Py_DECREF(static_cast<PyObject*>(extra->metadata));
  extra->metadata = nullptr;
}

}  // namespace

PyObject* wrap_node(Ref<Node> node) {
  if (!node) Py_RETURN_NONE;
  Node* shown = node.get();
  const auto present = [&]() -> PyObject* {
    auto* o = static_cast<PyObject*>(shown->pyobj);
    return o && try_reference(o) ? o : nullptr;  // one that dies is replaced
  };
  {
    Holding guard(node_lock(shown));
    if (PyObject* o = present()) return o;
  }
  PyTypeObject* type = class_of(*shown);
  Owned made(check(type->tp_alloc(type, 0)));
  allow_try_reference(made.get());
  self_of(made.get())->node = node.detach();
  self_of(made.get())->owns_node = true;
  Holding guard(node_lock(shown));
  if (PyObject* o = present()) return o;  // another thread was faster; `made` dies after the lock
  show_as(shown, made.get());
  return made.release();
}

Ref<Node> node_of_context(PyObject* context) {
  Holding guard(node_lock(context));
  Node* node = self_of(context)->node;
  return node && node->refs.increment_if_alive() ? Ref<Node>::adopt(node) : Ref<Node>();
}

void forget_node(PyObject* context) {
  Holding guard(node_lock(context));
  self_of(context)->node = nullptr;
}

Ref<Node> node_of(PyObject* o) {
  FACULA_CHECK(PyObject_TypeCheck(o, &NodeType), ErrorKind::Type, "Node: expected a node of the graph, got ",
               Py_TYPE(o)->tp_name);
  Ref<Node> node = self_of(o)->owns_node ? Ref<Node>::share(self_of(o)->node) : node_of_context(o);
  FACULA_CHECK(node, ErrorKind::Runtime, "Node: the graph that it belonged to is gone, got ", Py_TYPE(o)->tp_name);
  return node;
}

void add_to_type(PyTypeObject& type, PyMethodDef* methods, PyGetSetDef* properties) {
  for (PyMethodDef* m = methods; m && m->ml_name; ++m) {
    Owned descriptor(check(PyDescr_NewMethod(&type, m)));
    check(PyDict_SetItemString(type.tp_dict, m->ml_name, descriptor.get()));
  }
  for (PyGetSetDef* g = properties; g && g->name; ++g) {
    Owned descriptor(check(PyDescr_NewGetSet(&type, g)));
    check(PyDict_SetItemString(type.tp_dict, g->name, descriptor.get()));
  }
  PyType_Modified(&type);
}

namespace {

PyObject* node_name(PyObject* o, PyObject*) {
  return guarded([&] { return PyUnicode_FromString(public_name(*node_of(o)).c_str()); });
}
PyObject* node_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", _PyType_Name(Py_TYPE(o)), o); }
PyObject* node_next(PyObject* o, void*) {
  return guarded([&] {
    const Ref<Node> held = node_of(o);
    const Node& node = *held;
    Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(node.edge_count()))));
    for (size_t i = 0; i < node.edge_count(); ++i) {
      const Edge& edge = node.edge(i);
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       check(Py_BuildValue("(NI)", wrap_node(edge.node), edge.slot)));
    }
    return tuple.release();
  });
}
PyObject* node_variable(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    const Ref<Node> held = node_of(o);
    auto* accumulate = dynamic_cast<AccumulateGrad*>(held.get());
    FACULA_CHECK(accumulate, ErrorKind::Attribute, "variable: only an AccumulateGrad node has it, got ",
                 Py_TYPE(o)->tp_name);
    return wrap(accumulate->leaf());
  });
}
PyObject* node_metadata(PyObject* o, void*) {
  return guarded([&] {
    static Mutex making;
    const Ref<Node> node = node_of(o);
    NodeExtra& extra = node->extra();
    Holding guard(making);
    if (!extra.metadata) {
      Owned made(check(PyDict_New()));
      if (!extra.traceback.empty()) {
        Owned text(PyUnicode_FromString(extra.traceback.c_str()));
        PyDict_SetItemString(made.get(), "traceback_", text.get());
      }
      extra.metadata = made.release();
    }
    return Py_NewRef(static_cast<PyObject*>(extra.metadata));
  });
}
PyObject* node_sequence(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(node_of(o)->sequence()); });
}
PyObject* node_input_metadata(PyObject* o, void*) {
  return guarded([&] {
    const Ref<Node> held = node_of(o);
    const Node& node = *held;
    Owned tuple(check(PyTuple_New(static_cast<Py_ssize_t>(node.output_count()))));
    for (size_t i = 0; i < node.output_count(); ++i) {
      const OutputInfo& info = node.output(i);
      PyTuple_SET_ITEM(
          tuple.get(), static_cast<Py_ssize_t>(i),
          check(Py_BuildValue("(NNN)", wrap_size(info.sizes()), wrap_dtype(info.dtype), wrap_device(info.device))));
    }
    return tuple.release();
  });
}
PyObject* node_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "Node: nodes are made by recorded ops only");
  return nullptr;
}

PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, docs::types::kName},
                              {"_sequence_nr", node_sequence, METH_NOARGS, "The number that orders nodes of a thread."},
                              {}};
PyGetSetDef node_properties[] = {
    {"next_functions", node_next, nullptr, "Pairs of the nodes that receive this one's results, and the slot there.",
     nullptr},
    {"variable", node_variable, nullptr, "The leaf of an AccumulateGrad node.", nullptr},
    {"metadata", node_metadata, nullptr, "A dict that lives as long as the node.", nullptr},
    {"_input_metadata", node_input_metadata, nullptr, "(shape, dtype, device) of the gradients it takes.", nullptr},
    {}};

// ---- requests

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
               "backward: grad can be implicitly created only for scalar outputs (give a gradient of the "
               "output's shape, or reduce it first, for example with sum()), got shape ",
               shape.sizes);
  FACULA_CHECK(!is_complex(shape.dtype), ErrorKind::Runtime,
               "backward: grad can be implicitly created only for real scalar outputs, got ", shape.dtype);
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
              " of tensors does not require grad and does not have a grad_fn, got shape ", sizes, " of ", dtype);
}

class DualInput final : public Node {
 public:
  void apply(const Tensor* grads, Tensor* results) override { results[0] = grads[0]; }
  std::string name() const override { return "DualInput"; }
};

// _reaches_other_leaves(tensor, leaves): whether its graph leads to a leaf (or a forward-mode input) that is not among
// them
PyObject* function_reaches_other_leaves(PyObject*, PyObject* args) {
  PyObject *o, *list;
  if (!PyArg_ParseTuple(args, "OO!", &o, &PyList_Type, &list)) return nullptr;
  return guarded([&] {
    std::unordered_set<const Node*> seen;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      const Item leaf = list_item(list, i);
      if (leaf.get()) seen.insert(gradient_edge(tensor_of(leaf).impl()).node.get());
    }
    std::vector<const Node*> stack;
    Edge root = gradient_edge(tensor_of(o).impl());
    if (root.node && seen.insert(root.node.get()).second) stack.push_back(root.node.get());
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (node->is_accumulator || dynamic_cast<const DualInput*>(node)) return Py_NewRef(Py_True);
      for (size_t i = 0; i < node->edge_count(); ++i) {
        const Node* next = node->edge(i).node.get();
        if (next && seen.insert(next).second) stack.push_back(next);
      }
    }
    return Py_NewRef(Py_False);
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
    if (!edge.node || (is_tensor(item) && !requires_grad(tensor_of(item)) && !(tensor_of(item).flags() & kDual))) {
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
                 ": One of the differentiated Tensors does not require grad, got input ", i);
    r.inputs.push_back(std::move(edge));
  }
  return r;
}

// _run_backward(tensors, grads, inputs or None, keep_graph, create_graph, accumulate) -> tuple
PyObject* function_run_backward(PyObject*, PyObject* args) {
  PyObject *tensors, *grads, *inputs;
  int keep, create, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!Oppp", &PyTuple_Type, &tensors, &PyTuple_Type, &grads, &inputs, &keep, &create,
                        &accumulate))
    return nullptr;
  return guarded([&] {
    Request r = read_request(tensors, grads, inputs, create, !accumulate);
    std::vector<Tensor> captured;
    {
      WithoutLock no_lock;
      captured = run_backward(r.roots, std::move(r.grads), r.inputs, {keep != 0, create != 0, accumulate != 0});
    }
    return wrap(captured);
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
    return PyObject_Vectorcall(function.get(), all.data(), static_cast<size_t>(n + 1), kwnames);
  }
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    if (!(live_flags(t.impl()) & kRequiresGrad)) report_no_history(0, t.sizes(), t.dtype());
    std::vector<Edge> roots;
    roots.push_back(gradient_edge(t.impl()));
    std::vector<Tensor> grads;
    grads.push_back(implicit_gradient({t.sizes(), t.dtype(), t.device()}, self));
    {
      WithoutLock no_lock;
      run_backward(roots, std::move(grads), {}, {});
    }
    return Py_NewRef(Py_None);
  });
}

// ---- methods and properties of tensors

PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] {
    TensorImpl* impl = tensor_of(o).impl();
    return wrap_node(live_flags(impl) & kRequiresGrad ? grad_fn(impl) : Ref<Node>());
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
  return guarded([&] { return wrap(alias(settled_tensor_of(self))); });
}
PyObject* method_detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(
        !t.impl()->base, ErrorKind::Runtime,
        "detach_: Can't detach views in-place (use detach(), which gives a tensor of its own), got a view of shape ",
        t.sizes());
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

// ---- forward mode: an input is an identity node that carries a tangent; what depends on it is marked and recorded,
// and its tangent is derived when asked for (facula/autograd/forward_ad.py)

PyObject* function_make_dual(PyObject*, PyObject* o) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(o), ErrorKind::Type, "make_dual: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    const Tensor& primal = strided_tensor_of(o);
    auto node = Ref<DualInput>::adopt(new DualInput);
    uint32_t marks = live_flags(primal.impl()) & kRecorded;
    node->marks = marks | kDual;
    node->add_edge(gradient_edge(primal.impl()));
    Tensor dual = alias(primal), origin = alias(primal);
    set_history(dual, node.get());
    set_grad_fn(own_autograd_meta(origin.impl()), Ref<Node>::share(node.get()), 0);
    origin.impl()->flags |= node->marks;
    return Py_BuildValue("(NN)", wrap(std::move(dual)), wrap(std::move(origin)));
  });
}
PyObject* function_is_dual(PyObject*, PyObject* o) {
  return PyBool_FromLong(is_tensor(o) && (live_flags(tensor_of(o).impl()) & kDual));
}
PyObject* function_clear_dual(PyObject*, PyObject* o) {
  tensor_of(o).impl()->flags &= ~static_cast<uint32_t>(kDual);
  Py_RETURN_NONE;
}
// Marks a recorded tensor, so that what follows from it is recorded in forward mode too.
PyObject* function_mark_dual(PyObject*, PyObject* o) {
  tensor_of(o).impl()->flags |= kDual;
  Py_RETURN_NONE;
}

PyObject* function_install_node_methods(PyObject*, PyObject* methods) {
  if (PyDict_Update(NodeType.tp_dict, methods) < 0) return nullptr;
  PyType_Modified(&NodeType);
  Py_RETURN_NONE;
}

void check_signals() {
  if (gettid() != getpid()) return;  // signals are the main thread's; others need not wait for the lock
  WithLock lock;
  if (PyErr_CheckSignals() >= 0) return;
  cpu::distrust_packed_weights();
  throw PythonError{};
}

PyMethodDef functions[] = {
    {"_stepped_pass", function_stepped_pass, METH_VARARGS,
     "A backward pass whose roots get their gradients one by one, for distributed.autograd."},
    {"_stepped_pass_step", function_stepped_pass_step, METH_VARARGS,
     "Gives some roots their gradients and runs what is ready; [(leaf, its gradient)]."},
    {"_run_backward", function_run_backward, METH_VARARGS,
     "Evaluates the graph backwards; facula.autograd is the public face."},
    {"is_grad_enabled", function_is_grad_enabled, METH_NOARGS, docs::functions::kIsGradEnabled},
    {"_set_grad_enabled", function_set_grad_enabled, METH_O, "Switches recording on this thread; returns what it was."},
    {"_is_fwd_grad_enabled", function_is_forward_enabled, METH_NOARGS,
     "Whether forward mode follows ops on this thread."},
    {"_set_fwd_grad_enabled", function_set_forward_enabled, METH_O,
     "Switches forward mode on this thread; returns what it was."},
    {"is_inference_mode_enabled", function_is_inference_mode, METH_NOARGS, docs::functions::kIsInferenceModeEnabled},
    {"_set_inference_mode", function_set_inference_mode, METH_O, "Switches inference mode; returns what it was."},
    {"_install_node_methods", function_install_node_methods, METH_O, "Adds Python functions to the type of nodes."},
    {"_reaches_other_leaves", function_reaches_other_leaves, METH_VARARGS,
     "Whether a graph leads to leaves beyond those given."},
    {"_make_dual", function_make_dual, METH_O,
     "(dual, origin): two aliases of a tensor that forward mode follows; writes leave the history of the second."},
    {"_is_dual", function_is_dual, METH_O, "Whether forward mode follows the tensor."},
    {"_mark_dual", function_mark_dual, METH_O, "Makes forward mode follow a recorded tensor."},
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
  NodeType.tp_name = "torch.autograd.graph.Node";
  NodeType.tp_basicsize = sizeof(PyNode);
  NodeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  NodeType.tp_doc = docs::types::kNode;
  NodeType.tp_new = node_new;
  NodeType.tp_dealloc = node_dealloc;
  NodeType.tp_repr = node_repr;
  NodeType.tp_getattro = PyObject_GenericGetAttr;
  NodeType.tp_setattro = PyObject_GenericSetAttr;
  NodeType.tp_dictoffset = offsetof(PyNode, dict);
  NodeType.tp_weaklistoffset = offsetof(PyNode, weak_references);
  NodeType.tp_methods = node_methods;
  NodeType.tp_getset = node_properties;
  check(PyType_Ready(&NodeType));
  Py_INCREF(&NodeType);
  PyModule_AddObject(module, "_Node", reinterpret_cast<PyObject*>(&NodeType));
  check(PyModule_AddFunctions(module, functions));
  add_to_type(TensorType, methods, properties);
  host.check_interrupt = check_signals;
  host.node_destroyed = node_destroyed;
  init_batching(module);
  init_hooks(module);
  init_function(module);
  init_autocast(module);
}

}  // namespace facula::python
