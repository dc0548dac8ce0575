"""Register the container classes of pytrees: how each class is flattened and rebuilt, and the keys of its items.

A flatten function gives (list of children, context), one with keys (list of (key, child), context); an unflatten function
makes the container from (children, context). A context must compare equal for equal structure.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

FlattenFunc = Callable[[Any], tuple[list, Any]]
UnflattenFunc = Callable[[Iterable, Any], Any]
FlattenWithKeysFunc = Callable[[Any], tuple[list, Any]]
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = Callable[[Any], Any]
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """Name an item of a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """Name an item of a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """Name an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """Hold the registered functions of a container class."""

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
        # Fields that are None are part of the structure and no leaves, as in PyTorch.
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
        if is_namedtuple_class(cls):  # each program has classes of its own, which share one entry
            return namedtuple
        if _is_result_class(cls):
            _register_result_class(cls)
    return cls
