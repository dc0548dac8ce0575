// Nodes of the graph as Python objects: one for each node, with what its op saved as attributes, under PyTorch's names.
#include "python/node_object.h"

#include <cstring>
#include <map>
#include <string>
#include <typeinfo>

#include "autograd/saved.h"
#include "python/bindings.h"
#include "python/docs/types.h"
#include "python/free_threading.h"

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

/// The node that nobody but its object keeps alive: neither a tensor nor another node leads to it.
Node* own_node(PyObject* o) {
  PyNode* self = self_of(o);
  return self->owns_node && self->node->refs.load() == 1 ? self->node : nullptr;
}

int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(self_of(o)->dict);
  Node* node = own_node(o);
  return node ? visit_hooks(node, visit, arg) : 0;
}

int node_clear(PyObject* o) {
  Py_CLEAR(self_of(o)->dict);
  if (Node* node = own_node(o)) clear_hooks(node);
  return 0;
}

void node_dealloc(PyObject* o) {
  if (PyObject_IS_GC(o)) PyObject_GC_UnTrack(o);
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

// ---- saved values as attributes: _saved_self, _saved_dim, ... and _saved_self_sym_sizes where only the shape is saved

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
    const AloneWith alone(*held);
    FACULA_CHECK(!node.freed, ErrorKind::Runtime, node.name(),
                 ": Trying to access saved values after they have already been freed (give "
                 "retain_graph=True to the first backward), got ",
                 attribute_of(static_cast<const char*>(member)));
    SavedValue value(node, static_cast<const char*>(member));
    node.visit_saved(value);
    return value.take();
  });
}

// Owned by the class.
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

// One number, or the count of a list, that the node saved under a name; -1 when it saved none.
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
  const char *list, *before, *after;  // what the node saved for every dimension; the name without their number
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
  if (rank == 2) return node.wants(0) ? "AddmmBackward0" : "MmBackward0";
  return rank == 0       ? "MvBackward0"
         : node.wants(0) ? "ViewBackward0"
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
  return node.edge_count() < 2 || !node.wants(1) ? "PowBackward0" : node.wants(0) ? "PowBackward1" : "PowBackward2";
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
      {"ConvertedBackward0", "ToSparseBackward0"},
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

// One Python class per derivative, so that type(fn).__name__ says which.
PyTypeObject* class_of(const Node& node) {
  static std::map<std::string, PyTypeObject*> classes;
  static Mutex making;
  const std::string name = public_name(node), key = typeid(node).name() + (' ' + name);  // two may have one name
  Holding guard(making);
  auto found = classes.find(key);
  if (found != classes.end()) return found->second;
  auto* qualified = new std::string("facula.autograd." + name);  // owned by the class
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                         {Py_tp_getset, saved_properties(node)},
                         {0, nullptr}};
  PyType_Spec spec = {qualified->c_str(), sizeof(PyNode), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
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
/// A gradient that a program gives a node by hand; undefined for None.
Tensor given_gradient(const Node& node, PyObject* given, size_t slot) {
  FACULA_CHECK(given == Py_None || is_tensor(given), ErrorKind::Type, node.name(),
               ": gradients are Tensors or None, got ", Py_TYPE(given)->tp_name);
  if (given == Py_None) return {};
  const Tensor& grad = operand_tensor_of(given);
  const OutputInfo& info = node.output(slot);
  FACULA_CHECK(info.ndim() < 0 || (grad.sizes() == info.sizes() && grad.dtype() == info.dtype), ErrorKind::Runtime,
               node.name(), ": gradient ", slot, " must have the shape ", info.sizes(), " and dtype ", info.dtype,
               " of the output, got ", grad.sizes(), " of ", grad.dtype());
  return grad;
}

/// What the derivative makes of gradients of the outputs; hooks are not called.
PyObject* node_call(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    const Ref<Node> node = node_of(o);
    const auto given = static_cast<size_t>(PyTuple_GET_SIZE(args));
    FACULA_CHECK(!kwargs || PyDict_GET_SIZE(kwargs) == 0, ErrorKind::Type, node->name(),
                 ": gradients are given by position, got keywords");
    FACULA_CHECK(given == node->output_count(), ErrorKind::Type, node->name(), ": expected ", node->output_count(),
                 " gradients (one for each output), got ", given);
    std::vector<Tensor> grads, results(node->edge_count());
    for (size_t i = 0; i < given; ++i)
      grads.push_back(given_gradient(*node, PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)), i));
    {
      WithoutLock no_lock;
      node->apply(grads.data(), results.data());
    }
    return results.size() == 1 ? wrap(std::move(results[0])) : wrap(results);
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

PyObject* function_install_node_methods(PyObject*, PyObject* methods) {
  if (PyDict_Update(NodeType.tp_dict, methods) < 0) return nullptr;
  PyType_Modified(&NodeType);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_install_node_methods", function_install_node_methods, METH_O, "Adds Python functions to the type of nodes."},
    {}};

}  // namespace

void init_node(PyObject* module) {
  NodeType.tp_name = "torch.autograd.graph.Node";
  NodeType.tp_basicsize = sizeof(PyNode);
  NodeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  NodeType.tp_doc = docs::types::kNode;
  NodeType.tp_new = node_new;
  NodeType.tp_dealloc = node_dealloc;
  NodeType.tp_repr = node_repr;
  NodeType.tp_call = node_call;
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
  host.node_destroyed = node_destroyed;
}

}  // namespace facula::python
