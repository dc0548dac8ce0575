"""Define Node, one step of a graph, which records the nodes that it uses and the nodes that use it.

Long because Node is one class, most of whose methods have an example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import facula
from facula import _C
from facula._operators.namespaces import OpOverload
from facula.fx import _public
from facula.fx._compatibility import compatibility
from facula.fx._effects import _is_impure_function, _side_effectful_functions
from facula.fx._public import _type_repr
from facula.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from facula.fx.graph import Graph
    from facula.fx.operator_schemas import ArgsKwargsPair
    from facula.nn.modules.module import Module

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

BaseArgumentTypes = Union[
    str, int, float, bool, complex, facula.dtype, facula.Tensor, facula.device, facula.memory_format, facula.layout, None
]
base_types: tuple[Any, ...] = (*BaseArgumentTypes.__args__, facula.Size, OpOverload)
Target = Union[Callable[..., Any], str]
Argument = Any

_legal_ops = dict.fromkeys(
    ["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"]
)
dtype_abbrs: dict[Any, Any] = {
    facula.bfloat16: "bf16", facula.float64: "f64", facula.float32: "f32", facula.float16: "f16", facula.complex32: "c32",
    facula.complex64: "c64", facula.complex128: "c128", facula.int8: "i8", facula.int16: "i16", facula.int32: "i32",
    facula.int64: "i64", facula.bool: "b8", facula.uint8: "u8", facula.uint16: "u16", facula.uint32: "u32",
    facula.uint64: "u64",
}  # fmt: skip


@compatibility(is_backward_compatible=False)
def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function: calls of it stay in a graph though nobody uses their result. Usable as a decorator.

    Args:
        fn: the function, which is given back.

    >>> @facula.fx.has_side_effect
    ... def note(x):
    ...     print("noted", x)
    >>> graph = facula.fx.Graph()
    >>> call = graph.call_function(note, (graph.placeholder("x"),))
    >>> call.is_impure(), graph.eliminate_dead_code()
    (True, False)
    """
    _side_effectful_functions.add(fn)
    return fn


def _get_qualified_name(func):
    return _public.qualified_name(func)


def _find_module_of_method(orig_method):
    return _public.torch_module(_public._module_of(orig_method) or "torch")


def _last_uses(nodes):
    """Return {user: the nodes that nobody uses after it}."""
    seen, found = set(), {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


def _format_arg(arg, max_list_len=float("inf")):
    """Return an argument as the text of a graph shows it, a node with a percent sign."""
    if isinstance(arg, (list, tuple)):
        parts = [_format_arg(item) for at, item in enumerate(arg) if at < max_list_len]
        if len(arg) > len(parts):
            parts.append(f"...[total_len={len(arg)}]")
        text = ", ".join(parts)
        if isinstance(arg, list):
            return f"[{text}]"
        return f"({text},)" if len(arg) == 1 else f"({text})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """Represent one step of a graph.

    Args:
        graph: the graph that it belongs to; use the graph's methods to make nodes.
        name: its name, unlike that of every other node there.
        op: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target: the function that is called, or the name of the method, module, attribute or input.
        args, kwargs: arguments: nodes, numbers, strings, types, and lists, tuples, dicts and slices of them.
        return_type: a type for the result, or None.

    Nodes of a graph can be compared: `a < b` says that `a` runs before `b`. `users` is a dict whose keys are the nodes that use
    this one, `meta` a dict for passes.

    >>> gm = facula.fx.symbolic_trace(lambda x: facula.add(x, 1) * 2)
    >>> x, plus, times, end = gm.graph.nodes
    >>> plus.op, plus.target is facula.add, plus.args, list(plus.users)
    ('call_function', True, (x, 1), [mul])
    >>> plus.update_arg(1, 5)
    >>> times.replace_input_with(plus, x)
    >>> plus.replace_all_uses_with(times)
    []
    >>> x.append(times)
    >>> times.prepend(plus)
    >>> print(gm.graph)
    graph():
        %x : [num_users=2] = placeholder[target=x]
        %add : [num_users=0] = call_function[target=torch.add](args = (%x, 5), kwargs = {})
        %mul : [num_users=1] = call_function[target=operator.mul](args = (%x, 2), kwargs = {})
        return mul
    """

    __slots__ = (
        "graph", "name", "_op", "_target", "_args", "_kwargs", "_input_nodes", "users", "type", "_prev", "_next", "_erased",
        "_order", "_repr_fn", "meta", "__dict__", "__weakref__",
    )  # fmt: skip
    graph: Graph
    name: str
    op: str
    target: Target
    users: dict[Any, Any]
    type: Any
    meta: dict[Any, Any]

    def __init__(self, graph: Graph, name: str, op: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
                 return_type: Any = None) -> None:  # fmt: skip
        if op not in _legal_ops:
            raise AssertionError(f"Node: op must be {_C._one_of(op, _legal_ops)}")
        _check_target(graph, name, op, target)
        self.graph, self.name, self._op, self._target, self.type = graph, name, op, target, return_type
        self._input_nodes, self.users, self.meta = {}, {}, {}
        self._prev = self._next = self
        self._erased, self._repr_fn, self._order = False, None, 0
        self._args, self._kwargs = (), {}
        # map_aggregate makes lists and dicts immutable: a change in place would not update the users of nodes.
        self._set_arguments(map_aggregate(args, _same), map_aggregate(kwargs, _same))

    # ---- arguments and users

    def _set_arguments(self, args, kwargs):
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = args, kwargs, {}
        _collect(args, self._input_nodes)
        if kwargs:
            _collect(kwargs, self._input_nodes)
        for used in self._input_nodes:
            used.users[self] = None

    _update_args_kwargs = _set_arguments

    @property
    def args(self) -> tuple[()]:
        """Positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, value: Any) -> None:
        self._set_arguments(map_aggregate(tuple(value), _same), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments. Assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Any) -> None:
        self._set_arguments(self._args, map_aggregate(dict(value), _same))

    def update_arg(self, idx: int, arg: int) -> None:
        """Put `arg` in the place of positional argument `idx`.

        Args:
            idx: the place, counted from 0.
            arg: the new argument.
        """
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put `arg` before positional argument `idx`.

        Args:
            idx: the place, from 0 to the number of arguments.
            arg: the new argument.

        Errors: AssertionError for another place.

        >>> graph = facula.fx.Graph()
        >>> call = graph.call_function(facula.sub, (graph.placeholder("x"),))
        >>> call.insert_arg(0, 1)
        >>> call.args
        (1, x)
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_arg: expected an index from 0 to {len(self._args)}, got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: Any, arg: int) -> None:
        """Set a keyword argument.

        Args:
            key: its name.
            arg: the new value.

        >>> graph = facula.fx.Graph()
        >>> call = graph.call_function(facula.add, (graph.placeholder("x"), 1))
        >>> call.update_kwarg("alpha", 2)
        >>> call.kwargs
        {'alpha': 2}
        """
        self.kwargs = {**self._kwargs, key: arg}

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put `new_input` in every place of the arguments where `old_input` is.

        Args:
            old_input: the node that is taken out.
            new_input: the node that comes in.
        """
        change = {old_input: new_input}
        swap = lambda node: change.get(node, node)
        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[..., Any] = lambda user: True, *,
                              propagate_meta: bool = False) -> bool | list[Node]:  # fmt: skip
        """Let those who use this node use `replace_with` instead.

        Args:
            replace_with: the node that takes its place.
            delete_user_cb: says for a user whether it is changed; by default all are.
            propagate_meta: if True, `replace_with`, which has none yet, gets this node's `meta`.

        Returns:
            The list of changed nodes.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "replace_all_uses_with: propagate_meta=True needs a node with an empty meta, "
                    f"got the keys {list(replace_with.meta)}"
                )
            replace_with.meta.update(self.meta)
        # A list, because replacing the input changes `users`.
        changed = [user for user in self.users if delete_user_cb(user)]
        owner = self.graph.owning_module
        for hook in getattr(owner, "_replace_hooks", None) or ():
            for user in changed:
                hook(old=self, new=replace_with.name, user=user)
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- what is called

    @property
    def op(self) -> Any:
        """The kind of step: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output"."""
        return self._op

    @op.setter
    def op(self, value: Any) -> None:
        self._set_called(value, self._target)

    @property
    def target(self) -> Any:
        """The function that is called, or the name of the method, module, attribute or input."""
        return self._target

    @target.setter
    def target(self, value: Any) -> None:
        self._set_called(self._op, value)

    def _set_called(self, op, target):
        table = self.graph._find_nodes_lookup_table
        known = self in table
        if known:
            # The table's key has the op and the target, so that the node is entered again under the new ones.
            table.remove(self)
        self._op, self._target = op, target
        if known:
            table.insert(self)

    # ---- place

    @property
    def prev(self) -> Any:
        """The node before this one."""
        return self._prev

    @property
    def next(self) -> Self:
        """The node after this one."""
        return self._next

    def prepend(self, x: Any) -> None:
        """Move `x` to before this node.

        Args:
            x: a node of the same graph.

        Errors: AssertionError for a node of another graph.
        """
        if x.graph is not self.graph:
            raise AssertionError(f"prepend, append: expected a node of the same graph, got {x} of another one")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._note_order(x)

    def append(self, x: Any) -> None:
        """Move `x` to after this node.

        Args:
            x: a node of the same graph.
        """
        if self is not x:
            self._next.prepend(x)

    def _unlink(self):
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    _remove_from_list = _unlink

    def __lt__(self, other: Any) -> bool:
        self.graph._renumber()
        return self._order < other._order

    def __gt__(self, other: Any) -> bool:
        return other < self

    def __le__(self, other: Any) -> bool:
        return self is other or self < other

    def __ge__(self, other: Any) -> bool:
        return self is other or other < self

    # ---- what it is

    @property
    def stack_trace(self) -> str | None:
        """The lines of Python that made the node, where the tracer recorded them."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does something beside computing its result, so that it must stay though nobody uses it.

        Args:
            impure_random: if True, drawing random numbers counts.

        >>> gm = facula.fx.symbolic_trace(lambda x: facula.rand(2) + x)
        >>> graph = facula.fx.Graph()
        >>> draw = graph.call_function(facula.rand, (2,))
        >>> draw.is_impure(), draw.is_impure(impure_random=False)
        (True, False)
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return _is_impure_function(self, impure_random)
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("is_impure: a call_module node needs a graph that has a module, got one without")
            return getattr(owner.get_submodule(self.target), "_is_impure", False)
        return False

    def normalized_arguments(self, root: Module, arg_types: Any = None, kwarg_types: Any = None,
                             normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair:  # fmt: skip
        """Return its arguments in the order and by the names of the function's own.

        Args:
            root: the module whose submodules the graph calls.
            arg_types, kwarg_types: types of the arguments; accepted, signatures are told apart by which arguments fit.
            normalize_to_only_use_kwargs: if True, pass all by keyword.

        Returns:
            An ArgsKwargsPair, or None where the function's signature is not known or does not fit.

        >>> gm = facula.fx.symbolic_trace(lambda x: facula.add(x, other=1))
        >>> node = list(gm.graph.nodes)[1]
        >>> node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
        ArgsKwargsPair(args=(), kwargs={'input': x, 'other': 1, 'alpha': 1})
        """
        from facula.fx import operator_schemas

        if self.op == "call_function":
            return operator_schemas.normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return operator_schemas.normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    # ---- text

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _pretty_print_target(self, target):
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        if name is None or not hasattr(target, "__module__"):
            return _get_qualified_name(target)
        if target.__module__ == "builtins":
            return f"builtins.{name}"
        if target.__module__ == "_operator":
            return f"operator.{name}"
        return _get_qualified_name(target)

    def format_node(self, placeholder_names: Sequence[Any] | None = None, maybe_return_typename: Sequence[str] | None = None, *,
                    include_tensor_metadata: bool = False, max_list_len: float = float("inf")) -> str | None:  # fmt: skip
        """Return the line that stands for this node in the text of its graph.

        Args:
            placeholder_names: a list that gets the text of an input, which then has no line of its own.
            maybe_return_typename: a list whose first item becomes the type that the graph gives.
            include_tensor_metadata: if True, show dtypes and shapes.
            max_list_len: how many items of a list are shown.

        >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x))
        >>> print(list(gm.graph.nodes)[1].format_node())
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        """
        if self.op == "placeholder":
            return self._format_placeholder(placeholder_names)
        if self.op == "get_attr":
            kind = f"{_type_repr(self.type)} " if self.type is not None else ""
            target = self._pretty_print_target(self.target)
            return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        kind = f"{_type_repr(self.type)} " if self.type is not None else ""
        shown = _metadata_text(self) if include_tensor_metadata else ""
        args, kwargs = _format_arg(self.args, max_list_len), _format_arg(self.kwargs, max_list_len)
        return (
            f"%{self.name} : {kind}{shown}[num_users={len(self.users)}] = {self.op}"
            f"[target={self._pretty_print_target(self.target)}](args = {args}, kwargs = {kwargs})"
        )

    def _format_placeholder(self, placeholder_names):
        kind = f"{_type_repr(self.type)} " if self.type is not None else ""
        if placeholder_names is not None:
            text = f"{self.target} : {_type_repr(self.type)}" if self.type is not None else self.target
            placeholder_names.append(text + (f" = {self.args[0]!r}" if self.args else ""))
            return None
        default = f"(default={self.args[0]})" if self.args else ""
        return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            raise RuntimeError(f"fx: nodes are copied with their graph (copy.deepcopy(graph), node_copy), got node {self.name}")
        return found


def _check_target(graph, name, op, target):
    if op == "call_function":
        if not callable(target):
            _refuse_target(graph, name, target, "Callable")
    elif not isinstance(target, str):
        _refuse_target(graph, name, target, "str")


def _refuse_target(graph, name, target, expected):
    kind = _type_repr(type(target))
    raise ValueError(f"Node: the target of {name!r} must be a {expected}, got {target!r} of type {kind}")


def _metadata_text(node):
    meta = node.meta.get("val", node.meta.get("tensor_meta"))
    dtype, shape = getattr(meta, "dtype", None), getattr(meta, "shape", None)
    if dtype is None or shape is None:
        return ""
    return f"{dtype_abbrs.get(dtype, str(dtype))}[{', '.join(map(str, shape))}]"


def _same(value):
    return value


def _collect(value, found):
    """Note the nodes in `value`, in order."""
    kind = type(value)
    if kind is Node:
        found[value] = None
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif kind is slice:
        _collect((value.start, value.stop, value.step), found)


@compatibility(is_backward_compatible=True)
def map_arg(a: Any, fn: Callable[..., Any]) -> Any:
    """Return `a` with `fn(node)` in the place of every node in it.

    Args:
        a: an argument: nodes, and lists, tuples, dicts and slices of them.
        fn: gives what takes a node's place.

    Lists and dicts come back as immutable_list and immutable_dict, as nodes hold them.

    >>> graph = facula.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> facula.fx.map_arg([x, 2, {"y": x}], lambda node: node.name)
    ['x', 2, {'y': 'x'}]
    """
    if not callable(fn):
        raise AssertionError(f"map_arg: fn must be callable, got {type(fn).__name__}")
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


@compatibility(is_backward_compatible=True)
def map_aggregate(a: Any, fn: Callable[..., Any]) -> Any:
    """Return `a` with `fn(leaf)` in the place of everything in it that is no list, tuple, dict or slice.

    Args:
        a: lists, tuples, named tuples, dicts and slices of anything.
        fn: gives what takes a leaf's place.

    >>> facula.fx.node.map_aggregate((1, [2, slice(3, None)]), lambda leaf: leaf and leaf * 10)
    (10, [20, slice(30, None, None)])
    """
    kind = type(a)
    if kind is tuple:
        return tuple([map_aggregate(item, fn) for item in a])
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return kind(*items) if hasattr(a, "_fields") else kind(items) if kind is facula.Size else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(item, fn)) for key, item in a.items()])
    if kind is slice:
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


_fx_map_arg, _fx_map_aggregate = map_arg, map_aggregate
