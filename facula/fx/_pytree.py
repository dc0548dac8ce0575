"""Flatten nested arguments of graphs by a spec that was made when they were traced."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

from facula.utils._pytree import PyTree, TreeSpec, is_structseq, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Say how objects of a class are taken apart by a spec.

    Args:
        cls: the class.
        flatten_fn_spec: (object, spec) -> list of children.
        flatten_fn_exact_match_spec: (object, spec) -> whether the object has exactly the children of the spec.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec):
    """Return the leaves of `pytree`, which has the structure `spec`."""
    if spec.is_leaf():
        return [pytree]
    flatten = SUPPORTED_NODES.get(spec.type)
    children = flatten(pytree, spec) if flatten is not None else _children(pytree, spec)
    found = []
    for child, child_spec in zip(children, spec.children_specs):
        found.extend(tree_flatten_spec(child, child_spec))
    return found


def _children(pytree, spec):
    if spec.type in (list, tuple, namedtuple, deque) or is_structseq(spec.type):  # of a Proxy, too, which knows no class
        return [pytree[at] for at in range(len(spec.children_specs))]
    if spec.type in (dict, OrderedDict, defaultdict):
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        return [pytree[key] for key in keys]
    if spec.type is not type(pytree):
        raise RuntimeError(f"tree_flatten_spec: expected a {spec.type.__name__}, got {type(pytree).__name__}")
    leaves, _ = tree_flatten(pytree, is_leaf=lambda part: part is not pytree)
    return leaves
