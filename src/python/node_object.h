// Defines autograd nodes as Python objects, shared by autograd.cpp, hooks.cpp and function.cpp.
#pragma once

#include <optional>

#include "autograd/node_lock.h"
#include "python/objects.h"

namespace facula::python {

/// For who reads what a node saved: no pass on another thread runs the node meanwhile and lets go of the values. The
/// interpreter's lock is free during the wait, since the pass may need it.
class AloneWith {
 public:
  explicit AloneWith(Node& node) {
    if (NodeLock::held(node)) return;
    WithoutLock released;
    lock_.emplace(node);
  }

 private:
  std::optional<NodeLock> lock_;
};

/// What Python sees of a node. An ordinary one keeps its node alive; the context of an autograd.Function is kept alive
/// by its node, and is left without one when the node goes.
struct PyNode {
  PyObject_HEAD Node* node;
  bool owns_node;
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject NodeType;      // facula._C._Node
extern PyTypeObject FunctionType;  // facula._C._FunctionBase

/// A new reference to the object of a node; None for no node.
PyObject* wrap_node(Ref<Node> node);
/// The node of a Node object; throws when it is gone.
Ref<Node> node_of(PyObject* o);
/// The node that keeps a context alive, null when it is gone or about to go; another thread may be at that.
Ref<Node> node_of_context(PyObject* context);
/// The context forgets its node, which dies.
void forget_node(PyObject* context);
/// One dict of hooks per place, made when it is first needed: what RemovableHandle removes from.
PyObject* tensor_hook_dict(const Tensor& tensor);

// Garbage collection of cycles that lead from a tensor through its history (hooks, contexts of Functions) back to it.
/// Visits the Python objects that only this tensor keeps alive through its history.
int visit_history(const Tensor& tensor, visitproc visit, void* arg);
/// Lets go of them.
void clear_python_history(const Tensor& tensor);
/// The same of the hooks and metadata of a node that only its object keeps alive.
int visit_hooks(Node* node, visitproc visit, void* arg);
void clear_hooks(Node* node);
/// From now on the object of the tensor takes part in garbage collection.
void collect_cycles_through(PyObject* tensor);
/// The context behind a node, which holds one reference to it; null for other nodes.
PyObject* context_of(Node* node);

/// The storage whose bytes `.data` shows, for the storage of a `.data`; any other storage itself.
Storage* shared_storage(Storage* storage);
/// The class of examples inside vmap.
PyTypeObject* batched_type();

void init_node(PyObject* module);
void init_batching(PyObject* module);
void init_hooks(PyObject* module);
void init_function(PyObject* module);
void init_autocast(PyObject* module);
/// Adds methods and properties to an existing type.
void add_to_type(PyTypeObject& type, PyMethodDef* methods, PyGetSetDef* properties);

}  // namespace facula::python
