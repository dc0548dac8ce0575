// Autograd nodes as Python objects, shared by autograd.cpp, hooks.cpp and function.cpp.
#pragma once

#include "python/objects.h"

namespace facula::python {

/// What Python sees of a node. An ordinary one keeps its node alive; the context of an autograd.Function is kept alive by
/// its node, and is left without one when the node goes.
struct PyNode {
  PyObject_HEAD
  Node* node;
  bool owns_node;
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject NodeType;      // facula._C._Node
extern PyTypeObject FunctionType;  // facula._C._FunctionBase

/// A new reference to the object of a node; None for no node.
PyObject* wrap_node(Ref<Node> node);
/// The node of a Node object; throws when it is gone.
Node& node_of(PyObject* o);
/// One dict of hooks per place, made when first asked for: what RemovableHandle removes from.
PyObject* tensor_hook_dict(const Tensor& tensor);

void init_hooks(PyObject* module);
void init_function(PyObject* module);
void init_autocast(PyObject* module);
/// Adds methods and properties to an existing type.
void add_to_type(PyTypeObject& type, PyMethodDef* methods, PyGetSetDef* properties);

}  // namespace facula::python
