"""Define `__torch_dispatch__`: classes and modes that replace the kernels of ops, below autograd.

A subclass of Tensor takes part if it defines the class method `__torch_dispatch__(cls, func, types, args, kwargs)`; a
mode receives every op within its `with` block. `func` is an overload such as `torch.ops.aten.add.Tensor`. It is called
where a kernel would run, so that a composite arrives as the ops that it consists of. Gradients are recorded above, by
the ops that the program called.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from typing import TYPE_CHECKING

import facula

# Not `from facula.utils import`, which asks the package for the names, and so the table of PyTorch's names that are missing.
import facula.utils._dispatched as _dispatched
import facula.utils._dispatched_kernels
import facula.utils._dispatched_parts  # noqa: F401  (the last two fill tables)
from facula import _C
from facula.overrides import _overloaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

__all__ = [
    "TorchDispatchMode", "has_dispatch", "is_traceable_wrapper_subclass", "return_and_correct_aliasing",
    "transform_subclass",
]  # fmt: skip


class _Modes(threading.local):
    def __init__(self):
        self.stack = []
        self.own_names = frozenset()  # of ops; None: of all


_modes = _Modes()


def _set(stack):
    _modes.stack = stack
    _C._set_dispatch_mode_active(bool(stack))


class TorchDispatchMode:
    """Pass every op within a block to `__torch_dispatch__(self, func, types, args, kwargs)` of a subclass.

    Within the method the mode itself is off, so that it can call `func`.
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a mode defines __torch_dispatch__, got {func}")

    def __enter__(self) -> Self:
        _set([*_modes.stack, self])
        return self

    def __exit__(self, *exception: object) -> None:
        _set(_modes.stack[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new mode, to be entered."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return False: user modes and the library's own are treated alike."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """Run every op unchanged."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _disable_current_modes():
    """Turn all modes off within the block; give those that were on.

    >>> from facula.fx.experimental.proxy_tensor import maybe_disable_fake_tensor_mode
    >>> with maybe_disable_fake_tensor_mode() as modes:
    ...     len(modes)
    0
    """
    before = _modes.stack
    _set([])
    try:
        yield before
    finally:
        _set(before)


@contextlib.contextmanager
def by_own_names(names=None):
    """Show, within the block, ops of kernels as the core has them, in the namespace `facula`.

    Args:
        names: of which ops; None for all.
    """
    before, _modes.own_names = _modes.own_names, names
    try:
        yield
    finally:
        _modes.own_names = before


def _get_current_dispatch_mode_stack():
    return list(_modes.stack)


def _get_current_dispatch_mode():
    return _modes.stack[-1] if _modes.stack else None


_len_torch_dispatch_stack = _len_torch_dispatch_mode_stack = lambda: len(_modes.stack)


class no_dispatch:
    """Stop modes and classes from replacing kernels in a block."""

    def __enter__(self):
        _C._change_dispatch_disabled(1)
        return self

    def __exit__(self, *exception):
        _C._change_dispatch_disabled(-1)


@functools.cache
def has_dispatch(cls):
    """Return whether a class stands in for kernels."""
    return getattr(cls, "__torch_dispatch__", _C._disabled_torch_dispatch_impl) is not _C._disabled_torch_dispatch_impl


# ---- what the core calls


def _tensors(values):
    for value in values:
        if isinstance(value, _C.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _dispatch(func, args, kwargs):
    """Return what the innermost mode, or else the class of an argument, gives for a call of an operator; the operator itself
    where there is neither."""
    overloaded = _overloaded(_tensors((args, kwargs)), lambda value: has_dispatch(type(value)))
    types = tuple(map(type, overloaded))
    if not _modes.stack and not overloaded:
        return func(*args, **kwargs)
    if _modes.stack:
        before = _modes.stack
        _set(before[:-1])
        try:
            result = before[-1].__torch_dispatch__(func, types, args, kwargs)
        finally:
            _set(before)
        if result is not NotImplemented:
            return result
    for value in overloaded:
        result = type(value).__torch_dispatch__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"{func.overloadpacket.__name__}: no implementation found: every __torch_dispatch__ answered NotImplemented, "
        f"got {[kind.__name__ for kind in types]}"
    )


def _do(name, *args, **kwargs):
    """Make a call of one of PyTorch's operators, as `Call` names it, seen by whoever stands in for kernels."""
    result = _dispatch(_dispatched.Call(name, args, kwargs).function, args, kwargs)
    return args[0] if re.search(r"[a-z]_\.", name) else result  # an in-place form gives what it wrote to


def _by_rule(table, name, overload, values):
    """Return what a rule of a table gives; NotImplemented without one."""
    rule = table.get(f"{name}.{overload or 'default'}") or table.get(name)
    if rule is None:
        return NotImplemented
    parameters = _dispatched.row(name, overload, "function")["arguments"]
    keyword = {p[0]: value for p, value in zip(parameters, values) if p[2]}
    return rule(_do, *(value for p, value in zip(parameters, values) if not p[2]), **keyword)


def _has_own_name(name):
    return _modes.own_names is None or name in _modes.own_names


def _handle(name, overload, form, values, text):
    """Compute the results of an op whose kernel a mode or a class stands in for."""
    count = len(values)
    if form == "out":
        found = _dispatched.row(name, overload, "function")
        count = len(found["arguments"]) if found else count - 1
    elif form == "function" and not _has_own_name(name):
        result = _by_rule(_dispatched.KERNELS, name, overload, values)
        if not isinstance(result, _dispatched.Call) and result is not NotImplemented:
            return result
        if result is not NotImplemented:
            return _dispatch(result.function, result.args, result.kwargs)
    call = _dispatched.written(name, overload, form, values[:count], values[count:], _has_own_name(name))
    return _dispatch(call.function, call.args, call.kwargs)


def _composite(name, overload, form, values, out, whole=False):
    """Answer the call of a composite, or return NotImplemented: then the ops that it is made of are seen."""
    found = _dispatched.row(name, overload, "function") or _dispatched.row(name, overload, form)
    if found is None:
        return NotImplemented
    base = name[:-1] if form == "inplace" and not name.startswith("__") else name
    key = f"{base}.{overload or 'default'}"
    parts = form == "function" and not _dispatched.PARTS.keys().isdisjoint((base, key))
    whole = whole or not _dispatched.WHOLE.isdisjoint((base, name, key))
    if not (whole or parts):
        return NotImplemented
    parameters = found["arguments"]
    if any(v is NotImplemented and p[3] for v, p in zip(values, parameters)):
        return NotImplemented
    values = tuple(_plain(p[5] if v is NotImplemented else v, p[1]) for v, p in zip(values, parameters))
    result = _by_rule(_dispatched.PARTS, name, overload, values) if parts else NotImplemented
    if result is not NotImplemented or not whole:
        return _shown(result, found, name) if result is not NotImplemented else result
    outs = () if out is None else (out,) if isinstance(out, _C.Tensor) else tuple(out)
    call = _dispatched.written(name, overload, form, values, outs)
    if call.name.startswith("facula::"):
        return NotImplemented
    result = _dispatch(call.function, call.args, call.kwargs)
    return values[0] if form == "inplace" else out if out is not None else _shown(result, found, name)


def _plain(value, kind):
    """Return a value as kernels get it: a single number for a list is a list."""
    if kind.startswith("int[") and value is not None:
        if not isinstance(value, (list, tuple)):
            size = kind[4 : kind.index("]")]
            return [value] * int(size or 1)
        return list(value)
    return value


def _shown(result, found, name):
    """Return what the public function gives: a named tuple where results have names."""
    if not isinstance(result, (list, tuple)):
        return result
    if len(found["results"]) > 1 and any(found["result_names"]):
        kind = getattr(facula.return_types, name, None)
        return kind(result) if kind is not None else tuple(result)
    return tuple(result)


def _item(self):
    return _do("_local_scalar_dense.default", self)


def _copy(self, made):
    return _do("copy_.default", self, made)


def _convert(self, dtype, device, non_blocking, copy, memory_format):
    """Do `Tensor.to` and its relatives."""
    other_device = device is not None and device != self.device
    reorder = memory_format is not None and not self.is_contiguous(memory_format=memory_format)
    if not (other_device or copy or reorder or (dtype is not None and dtype != self.dtype)):
        return self
    given = {"dtype": dtype, "device": device, "non_blocking": non_blocking or None, "memory_format": memory_format}
    return _do("_to_copy.default", self, **{name: value for name, value in given.items() if value is not None})


def _index(self, indices):
    return _do("index.Tensor", self, indices)


def _assign(self, indices, value, number):
    """Do `self[...] = value`, once views have been taken."""
    if indices is not None:
        return _do("index_put_.default", self, indices, value)
    if number and self.dim():
        return _do("fill_.Tensor", self, value)
    return _do("copy_.default", self, value)


def _stands_in(args, kwargs):
    """Return whether a call of an operator by its name is shown to a mode or a class as what it is: no derivative is
    recorded."""
    tensors = list(_tensors((args, kwargs)))
    if not (_modes.stack or any(has_dispatch(type(t)) for t in tensors if type(t) is not _C.Tensor)):
        return False
    return not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors))


_C._set_dispatch_handler(_handle)


# ---- for authors of wrapper classes


def is_traceable_wrapper_subclass(t):
    """Return whether a tensor names the tensors it wraps (`__tensor_flatten__`) and can be made from them."""
    wraps = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return isinstance(t, _C.Tensor) and type(t) is not _C.Tensor and wraps


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Return a wrapper around callback(name, inner) for the tensors that `t` wraps."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """Return `out`, or the argument that an in-place or out= form has written to."""
    if kwargs and kwargs.get("out") is not None:
        return kwargs["out"]
    return args[0] if func.overloadpacket.__name__.endswith("_") and not func.overloadpacket.__name__.endswith("__") else out
