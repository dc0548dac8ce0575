"""Flatten nested containers ("pytrees") to a list of leaves, and rebuild them from the leaves and a spec.

Dicts, lists, tuples, namedtuples, OrderedDicts, defaultdicts and deques are containers; `register_pytree_node` adds more
classes. Everything else is a leaf. `_pytree_containers` has what is known of each class.
"""

from __future__ import annotations

import functools
import json
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from ._pytree_containers import (  # noqa: F401, I001  (PyTorch has all of these names here)
    BUILTIN_TYPES,
    CONSTANT_NODES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    FlattenFunc,
    FlattenWithKeysFunc,
    FromDumpableContextFn,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    ToDumpableContextFn,
    UnflattenFunc,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_flatten_with_keys,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _is_namedtuple_instance,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _tuple_flatten,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_constant,
    register_dataclass,
    register_pytree_node,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn", "FromDumpableContextFn",
    "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node", "tree_is_leaf", "tree_flatten",
    "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure",
    "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all", "tree_any", "tree_all_only",
    "tree_any_only", "treespec_dumps", "treespec_loads", "treespec_pprint", "is_namedtuple", "is_namedtuple_class",
    "is_namedtuple_instance", "is_structseq", "is_structseq_class", "is_structseq_instance",
]  # fmt: skip


PyTree = Any
Context = Any
KeyPath = tuple


# -- keys: where a leaf is ------------------------------------------------------------------------------


def keystr(key_path):
    """Return a key path as text: "['a'][0].b"."""
    return "".join(str(key) for key in key_path)


def key_get(obj, key_path):
    """Return what lies at `key_path` of `obj`."""
    for key in key_path:
        obj = key.get(obj)
    return obj


def tree_is_leaf(tree, is_leaf=None):
    """Return True if `tree` is a leaf: no registered container, or one for which `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


FlattenFn, UnflattenFn = FlattenFunc, UnflattenFunc
DumpableContext = object

# -- specs ----------------------------------------------------------------------------------------------


class TreeSpec:
    """Describe the structure of a tree: the class of each container, its context, and the specs of its children."""

    __slots__ = ("type", "context", "_children", "num_nodes", "num_leaves", "num_children", "__weakref__")

    def __init__(self, type: Any, context: Sequence[str] | None, children_specs: Sequence[LeafSpec | TreeSpec]) -> None:
        self.type: Any = type
        self.context: Sequence[str] | None = context
        self._children = list(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves: int = sum(child.num_leaves for child in self._children) if type is not None else 1
        self.num_children: int = len(self._children)

    @property
    def children_specs(self) -> list[LeafSpec | TreeSpec]:
        return self._children

    def children(self) -> list[Any]:
        return list(self._children)

    def child(self, index: int) -> Any:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return the tree of this structure with these leaves."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"tree_unflatten: the spec has {self.num_leaves} leaves, got {len(leaves)}; spec {self}"
            )
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Sequence[Sequence[int] | int]) -> list[int | list[int]]:
        """Return the subtrees of `tree` where this structure has leaves."""
        subtrees = []
        self._flatten_up_to(tree, subtrees)
        return subtrees

    def _flatten_up_to(self, tree, subtrees):
        if self.type is None:
            subtrees.append(tree)
            return
        node_type = _get_node_type(tree)
        if node_type is not self.type and not {node_type, self.type} <= {dict, OrderedDict, defaultdict}:
            raise ValueError(f"flatten_up_to: expected {self.type.__name__}, got {type(tree).__name__}")
        children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
        keys = _keys_of(self.type, self.context)
        if keys is not None:
            if set(keys) != set(tree):
                raise ValueError(f"flatten_up_to: expected keys {keys}, got {list(tree)}")
            children = [tree[key] for key in keys]
        elif len(children) != len(self._children) or (
            self.type not in (list, tuple, deque) and context != self.context
        ):
            raise ValueError(f"flatten_up_to: {type(tree).__name__} differs from the spec {self}")
        for spec, child in zip(self._children, children):
            spec._flatten_up_to(child, subtrees)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self.context == other.context and self._children == other._children

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self._children)))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent):
        if self.type is None:
            return "*"
        indent += 2
        children = f",\n{' ' * indent}".join(child._text(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{children}])"


def _keys_of(kind, context):
    if kind in (dict, OrderedDict):
        return context
    return context[1] if kind is defaultdict else None


class LeafSpec(TreeSpec):
    """Describe the structure of a single leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()
PyTreeSpec = TreeSpec


def treespec_leaf():
    return _LEAF


def treespec_tuple(children=()):
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping=(), /, **kwargs):
    items = dict(mapping, **kwargs)
    return TreeSpec(dict, list(items), items.values())


# -- flattening and mapping -----------------------------------------------------------------------------


def tree_flatten(tree, is_leaf=None):
    """Return (leaves, spec) of `tree`."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree, leaves, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves, treespec):
    """Return the tree of structure `treespec` with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """Yield the leaves."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    """Return the leaves as a list."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """Return the spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """Return `tree` with each leaf x replaced by func(x, *the same places of the other trees)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns)])


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call func as `tree_map` does, for its effects; return `tree`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*row)
    return tree


def _matcher(types):
    if callable(types) and not isinstance(types, type):
        return types
    return lambda leaf: isinstance(leaf, types)


def map_only(type_or_types_or_pred, /):
    """Return a decorator: the function applies to leaves of these types, others stay."""
    matches = _matcher(type_or_types_or_pred)

    def wrap(func):
        @functools.wraps(func)
        def apply(leaf):
            return func(leaf) if matches(leaf) else leaf

        return apply

    return wrap


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Return `tree_map` for leaves of some types (or for which a predicate holds)."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Return the leaves of `tree` repeated so that it has the structure `treespec`; None where it cannot have it."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if context != treespec.context or len(children) != treespec.num_children:
        return None
    parts = [
        _broadcast_to_and_flatten(c, spec, is_leaf) for c, spec in zip(children, treespec.children_specs)
    ]
    return None if any(part is None for part in parts) else [leaf for part in parts for leaf in part]


# -- with paths -----------------------------------------------------------------------------------------


def tree_iter_with_path(tree, is_leaf=None, _path=()):
    """Yield (key path, leaf)."""
    if tree_is_leaf(tree, is_leaf):
        yield _path, tree
        return
    kind = _get_node_type(tree)
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(
            f"tree_flatten_with_path: {kind.__name__} was registered without flatten_with_keys_fn"
        )
    for key, child in with_keys(tree)[0]:
        yield from tree_iter_with_path(child, is_leaf, (*_path, key))


def tree_leaves_with_path(tree, is_leaf=None):
    return list(tree_iter_with_path(tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """Return ([(key path, leaf)], spec)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Return `tree_map` whose function gets the key path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(
        [func(*row) for row in zip(*(map(list, zip(*pairs)) if pairs else [[], []]), *columns)]
    )


# -- specs as text --------------------------------------------------------------------------------------


def treespec_dumps(treespec, protocol=None):
    """Return a spec as JSON text; contexts must be JSON values or have been registered with a way to become one."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {type(treespec).__name__}")
    _check_protocol("treespec_dumps", _PROTOCOL if protocol is None else protocol)
    return json.dumps([_PROTOCOL, _to_json(treespec)])


_PROTOCOL = 1


def _check_protocol(name, protocol):
    if protocol != _PROTOCOL:
        raise ValueError(f"{name}: the protocol must be {_PROTOCOL}, got {protocol!r}")


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_SERIALIZED_TYPES[spec.type]
    unnamed = node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND
    if unnamed and hasattr(spec.type, "n_sequence_fields"):  # results with names, which are plain tuples elsewhere
        return {"type": "builtins.tuple", "context": "null", "children_spec": [_to_json(c) for c in spec.children_specs]}
    if node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"treespec_dumps: No registered serialization name for {spec.type.__name__}; give register_pytree_node a "
            "serialized_type_name"
        )
    context = node.to_dumpable_context(spec.context) if node.to_dumpable_context else json.dumps(spec.context)
    return {
        "type": node.serialized_type_name,
        "context": context,
        "children_spec": [_to_json(child) for child in spec.children_specs],
    }


def treespec_loads(serialized):
    """Return the spec that `treespec_dumps` wrote."""
    version, data = json.loads(serialized)
    _check_protocol("treespec_loads", version)
    return _from_json(data)


def _from_json(data):
    if data["type"] is None:
        return _LEAF
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE[data["type"]]
    from_dumpable = SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    context = from_dumpable(data["context"]) if from_dumpable else json.loads(data["context"])
    return TreeSpec(cls, context, [_from_json(child) for child in data["children_spec"]])


def treespec_pprint(treespec):
    """Return a spec as text, with * in the place of leaves."""
    return repr(tree_unflatten([_Star()] * treespec.num_leaves, treespec))


class _Star:
    def __repr__(self):
        return "*"


def arg_tree_leaves(*args, **kwargs):
    """Return the leaves of a call's arguments."""
    return [*tree_leaves(args), *tree_leaves(kwargs)]
