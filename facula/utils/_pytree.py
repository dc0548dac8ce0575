"""Nested containers ("pytrees") as a flat list of leaves and a spec to put them together again.

Dicts, lists, tuples, namedtuples, OrderedDicts, defaultdicts and deques are containers;
`register_pytree_node` adds more classes. Everything else is a leaf. Long because PyTorch has all of it in one file of this
name: first what is known of classes of containers, then specs and the functions on trees.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

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
FlattenFunc = Callable[[Any], tuple[list, Any]]
UnflattenFunc = Callable[[Iterable, Any], Any]
FlattenWithKeysFunc = Callable[[Any], tuple[list, Any]]
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = Callable[[Any], Any]
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


# -- keys: where a leaf is ------------------------------------------------------------------------------


# ---- Containers of pytrees: the keys of their items, how each class is taken apart, and the classes that programs register


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """An item of a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """An item of a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(key_path):
    """Return a key path as text: "['a'][0].b"."""
    return "".join(str(key) for key in key_path)


def key_get(obj, key_path):
    """Return what lies at `key_path` of `obj`."""
    for key in key_path:
        obj = key.get(obj)
    return obj


# -- how each container is taken apart ------------------------------------------------------------------


class NodeDef(NamedTuple):
    """What is registered for a container class."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: FlattenWithKeysFunc | None = None


class _SerializeNodeDef(NamedTuple):
    typ: type
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None



SUPPORTED_NODES = {}
SUPPORTED_SERIALIZED_TYPES = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {}
CONSTANT_NODES = set()
BUILTIN_TYPES = {tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque}


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Make `cls` a container.

    Args:
        flatten_fn: obj -> (list of children, context); the context must compare equal for equal structure.
        unflatten_fn: (children, context) -> obj.
        serialized_type_name: name of the class in `treespec_dumps`.
        to_dumpable_context, from_dumpable_context: context to a JSON value and back.
        flatten_with_keys_fn: obj -> (list of (key, child), context).
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: expected a new class, got {cls!r}, which is already registered")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            "register_pytree_node: Both to_dumpable_context and from_dumpable_context must be given, or none, got one of them "
            f"for {cls.__name__}"
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **options):
    """Do as `register_pytree_node`, of which this is the older private name; registering again replaces, with a UserWarning."""
    warnings.warn(
        "torch.utils._pytree._register_pytree_node is deprecated; use torch.utils._pytree.register_pytree_node",
        FutureWarning,
        stacklevel=2,
    )
    if cls in SUPPORTED_NODES:
        warnings.warn(f"_register_pytree_node: {cls} is already registered; the new functions replace the old", stacklevel=2)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls):
    del SUPPORTED_NODES[cls]
    node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(node.serialized_type_name, None)
    CONSTANT_NODES.discard(cls)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Make a dataclass a container of its fields (those of `field_names`, without `drop_field_names`)."""
    names = (
        [field.name for field in dataclasses.fields(cls) if field.init]
        if field_names is None
        else list(field_names)
    )
    names = [name for name in names if name not in (drop_field_names or ())]

    def flatten(obj):
        present = [name for name in names if getattr(obj, name) is not None]
        absent = [name for name in names if getattr(obj, name) is None]
        return [getattr(obj, name) for name in present], [present, absent]

    def unflatten(children, context):
        return cls(**dict(zip(context[0], children)), **dict.fromkeys(context[1]))

    def flatten_with_keys(obj):
        children, context = flatten(obj)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children)], context

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def register_constant(cls):
    """Make instances of `cls` part of the structure: no leaves, compared by `==`."""
    if cls.__eq__ is object.__eq__:
        raise TypeError(f"register_constant: {cls.__name__} must define __eq__")
    _private_register_pytree_node(
        cls,
        lambda obj: ([], obj),
        lambda children, context: context,
        flatten_with_keys_fn=lambda obj: ([], obj),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], list(d.keys())


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _list_flatten(items):
    return items, None


def _list_flatten_with_keys(items):
    return [(SequenceKey(i), item) for i, item in enumerate(items)], None


def _list_unflatten(values, context):
    return list(values)


def _tuple_flatten(items):
    return list(items), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _namedtuple_flatten(items):
    return list(items), type(items)


def _namedtuple_flatten_with_keys(items):
    return [(GetAttrKey(name), item) for name, item in zip(items._fields, items)], type(items)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(items):
    return list(items), items.maxlen


def _deque_flatten_with_keys(items):
    return [(SequenceKey(i), item) for i, item in enumerate(items)], items.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _register_namedtuple(cls, *, serialized_type_name):
    """Give a class of named tuples the name that `treespec_dumps` writes."""
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _class_as_text(cls):
    """Return the context of named tuples in JSON: the name that `_register_namedtuple` gave."""
    node = SUPPORTED_SERIALIZED_TYPES.get(cls)
    if node is None or node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            "treespec_dumps: expected a class of named tuples with a name. Please register using `_register_namedtuple`, "
            f"got {cls}"
        )
    return node.serialized_type_name


def _class_of_text(name):
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            "treespec_loads: expected a registered class of named tuples. Please register using `_register_namedtuple`, "
            f"got {name!r}"
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[name]


def _defaultdict_as_json(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


#: What a text may name as the factory of a defaultdict: no code is looked up by a name in a file.
_FACTORIES = {("builtins", cls.__name__): cls for cls in (list, dict, set, int, float, str, tuple, bool)}


def _defaultdict_of_json(data):
    factory = _FACTORIES.get((data["default_factory_module"], data["default_factory_name"]))
    if factory is None:
        raise NotImplementedError(
            f"treespec_loads: expected a built-in class as a defaultdict's factory, got {data['default_factory_module']}."
            f"{data['default_factory_name']}"
        )
    return [factory, data["dict_context"]]


_CONTEXTS = {namedtuple: (_class_as_text, _class_of_text), defaultdict: (_defaultdict_as_json, _defaultdict_of_json)}


def _register_builtin_containers():
    rows = (
        (tuple, _tuple_flatten, _tuple_unflatten, _list_flatten_with_keys, "builtins.tuple"),
        (list, _list_flatten, _list_unflatten, _list_flatten_with_keys, "builtins.list"),
        (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict"),
        (
            namedtuple,
            _namedtuple_flatten,
            _namedtuple_unflatten,
            _namedtuple_flatten_with_keys,
            "collections.namedtuple",
        ),
        (
            OrderedDict,
            _dict_flatten,
            _ordereddict_unflatten,
            _dict_flatten_with_keys,
            "collections.OrderedDict",
        ),
        (
            defaultdict,
            _defaultdict_flatten,
            _defaultdict_unflatten,
            _defaultdict_flatten_with_keys,
            "collections.defaultdict",
        ),
        (deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys, "collections.deque"),
    )
    for cls, flatten, unflatten, with_keys, name in rows:
        _private_register_pytree_node(
            cls,
            flatten,
            unflatten,
            serialized_type_name=name,
            to_dumpable_context=_CONTEXTS.get(cls, (None, None))[0],
            from_dumpable_context=_CONTEXTS.get(cls, (None, None))[1],
            flatten_with_keys_fn=with_keys,
        )


_register_builtin_containers()


def is_namedtuple_class(cls):
    """Return True if `cls` is a class that `collections.namedtuple` or typing.NamedTuple made."""
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    )


def is_namedtuple(obj):
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance = is_namedtuple


def is_structseq(obj):
    """Return True if `obj` is of a tuple class with named fields that the interpreter or the core made."""
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__bases__ == (tuple,) and isinstance(getattr(cls, "n_sequence_fields", None), int)


def is_structseq_class(cls):
    """Return whether `cls` is a tuple class with named fields that the interpreter or the core made."""
    return isinstance(cls, type) and is_structseq(cls)


def is_structseq_instance(obj):
    """Return whether `obj` is an instance of such a class."""
    return is_structseq_class(type(obj))


def _is_result_class(cls):
    """Return True if an op with named results made the class, one of facula.return_types."""
    return cls.__module__.endswith(".return_types") and is_structseq(cls)


def _register_result_class(cls):
    # These classes come into being with the first call of their op: so they register when they are first met.
    _private_register_pytree_node(
        cls, _tuple_flatten, lambda values, context: cls(values), flatten_with_keys_fn=_list_flatten_with_keys
    )


def _get_node_type(tree):
    """Return the class under which `tree` is registered, if it is; all classes of named tuples are of one kind."""
    cls = type(tree)
    if cls not in SUPPORTED_NODES:
        if is_namedtuple_class(cls):
            return namedtuple
        if _is_result_class(cls):
            _register_result_class(cls)
    return cls


def tree_is_leaf(tree, is_leaf=None):
    """Return True if `tree` is a leaf: no registered container, or one for which `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


FlattenFn, UnflattenFn = FlattenFunc, UnflattenFunc
DumpableContext = object

# -- specs ----------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: the class of each container, its context, and the specs of its children."""

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
    """The structure of a single leaf."""

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
