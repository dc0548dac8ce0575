"""`__torch_dispatch__`: classes and modes that stand in for the kernels of ops, below autograd.

A subclass of Tensor takes part by defining the class method `__torch_dispatch__(cls, func, types, args, kwargs)`; a mode sees
every op within its `with` block. `func` is an overload such as `torch.ops.aten.add.Tensor`: an op where its kernel would
run, so composites come as what they are made of. Gradients are recorded above: of the results, by the ops that were called.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from typing import TYPE_CHECKING

import facula
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


_modes = _Modes()


def _set(stack):
    _modes.stack = stack
    _C._set_dispatch_mode_active(bool(stack))


class TorchDispatchMode:
    """A context manager whose `__torch_dispatch__(self, func, types, args, kwargs)` sees every op within it.

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
        """A new mode, to be entered."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False: user modes and the library's own are treated alike."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _disable_current_modes():
    """No mode is on within the block; gives those that were.

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


def _get_current_dispatch_mode_stack():
    return list(_modes.stack)


def _get_current_dispatch_mode():
    return _modes.stack[-1] if _modes.stack else None


_len_torch_dispatch_stack = _len_torch_dispatch_mode_stack = lambda: len(_modes.stack)


class no_dispatch:
    """Within the block neither modes nor classes stand in for kernels."""

    def __enter__(self):
        _C._change_dispatch_disabled(1)
        return self

    def __exit__(self, *exception):
        _C._change_dispatch_disabled(-1)


@functools.cache
def has_dispatch(cls):
    """Whether a class stands in for kernels."""
    return getattr(cls, "__torch_dispatch__", _C._disabled_torch_dispatch_impl) is not _C._disabled_torch_dispatch_impl


# ---- what the core calls


@functools.cache
def _parameters(text):
    """[(name, default text or None, keyword only, type)] of an argument list of the schema."""
    found, keyword = [], False
    for part in re.split(r",\s*(?![^\[\(]*[\]\)])", text) if text else []:
        if part == "*":
            keyword = True
            continue
        kind, rest = part.split(" ", 1)
        name, _, default = rest.partition("=")
        found.append((name, default or None, keyword, kind))
    return found


_LITERALS = {"None": None, "True": True, "False": False, "inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


@functools.cache
def _default(text):
    """The value of a default; a string that equals nothing where it is not a literal."""
    if text in _LITERALS:
        return _LITERALS[text]
    if text.startswith("["):
        return [int(part) for part in text.strip("[]").split(",") if part.strip()]
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(text)
    return text.strip("'\"")


def _is_default(value, text):
    if text is None:
        return False
    default = _default(text)
    if isinstance(value, list) and isinstance(default, int):
        return all(v == default for v in value)
    return value is default or (type(value) in (bool, int, float, str, list) and value == default)


def _arguments(values, parameters, form):
    """(args, kwargs) as a caller would write them: defaults at the end are left out; out= comes as a keyword."""
    given, outs = values[: len(parameters)], values[len(parameters) :]
    args, kwargs = [], {}
    for value, (name, default, keyword, _) in zip(given, parameters):
        if not keyword:
            args.append(value)
        elif not _is_default(value, default):
            kwargs[name] = value
    positional = [p for p in parameters if not p[2]]
    while args and _is_default(args[-1], positional[len(args) - 1][1]):
        args.pop()
    if form == "out":
        kwargs["out"] = outs[0] if len(outs) == 1 else outs
    return tuple(args), kwargs


def _overload(name, overload, form, values, parameters):
    """The function of `torch.ops.aten` that this call is of."""
    if form == "out":
        overload = "out"
    elif not overload:
        operands = [v for v, (_, _, _, kind) in zip(values, parameters) if kind == "Operand"]
        if operands:
            overload = "Tensor" if isinstance(operands[-1], _C.Tensor) else "Scalar"
    packet = getattr(facula.ops.aten, name if form != "inplace" or name.endswith("_") else f"{name}_")
    return getattr(packet, overload or "default")


def _tensors(values):
    for value in values:
        if isinstance(value, _C.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _handle(name, overload, form, values, text):
    parameters = _parameters(text)
    func = _overload(name, overload, form, values, parameters)
    args, kwargs = _arguments(values, parameters, form)
    overloaded = _overloaded(_tensors(values), lambda value: has_dispatch(type(value)))
    types = tuple(map(type, overloaded))
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
        f"{name}: no implementation found: every __torch_dispatch__ answered NotImplemented, "
        f"got {[kind.__name__ for kind in types]}"
    )


_C._set_dispatch_handler(_handle)


# ---- for authors of wrapper classes


def is_traceable_wrapper_subclass(t):
    """Whether a tensor names the tensors it wraps (`__tensor_flatten__`) and can be made from them."""
    wraps = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return isinstance(t, _C.Tensor) and type(t) is not _C.Tensor and wraps


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A wrapper around callback(name, inner) for the tensors that `t` wraps."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """`out`, or the argument that an in-place or out= form has written to."""
    if kwargs and kwargs.get("out") is not None:
        return kwargs["out"]
    return args[0] if func.overloadpacket.__name__.endswith("_") and not func.overloadpacket.__name__.endswith("__") else out
