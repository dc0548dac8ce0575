"""Normalize the arguments of calls to the order and the names of the function's parameters."""

from __future__ import annotations

import functools
import inspect
import numbers
import types
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

import facula
from facula._operators.namespaces import OpOverload, OpOverloadPacket
from facula.fx._compatibility import compatibility

if TYPE_CHECKING:
    from facula.nn.modules.module import Module

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "create_type_hint", "type_matches",
    "normalize_function", "normalize_module",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Hold the arguments of a call; `normalize_function` and `normalize_module` return it.

    Args:
        args: those by place, a tuple.
        kwargs: those by name, a dict.

    >>> from facula.fx.operator_schemas import ArgsKwargsPair
    >>> ArgsKwargsPair((1,), {"alpha": 2})
    ArgsKwargsPair(args=(1,), kwargs={'alpha': 2})
    """

    args: tuple[Any, ...]
    kwargs: dict[Any, Any]


_TYPES = {
    "Tensor": facula.Tensor, "Operand": facula.Tensor, "int": int, "float": float, "bool": bool, "str": str,
    "Scalar": numbers.Number, "dtype": facula.dtype, "device": facula.device, "layout": facula.layout,
    "memory_format": facula.memory_format, "int[]": list[int], "float[]": list[float], "Tensor[]": list[facula.Tensor],
}  # fmt: skip


def _signature_of_text(text):
    """Return the signature of an op by its row of the schema."""
    from facula.utils._python_dispatch import _default, _parameters

    found = []
    for name, default, keyword, kind in _parameters(text):
        mode = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        value = inspect.Parameter.empty if default is None else _default(default)
        annotation = _TYPES.get(kind.rstrip("?"), Any)
        found.append(inspect.Parameter(name, mode, default=value, annotation=annotation))
    return inspect.Signature(found)


@functools.cache
def _signatures_of_docs(function):
    """Return the signatures that a function of the core tells in its first lines of documentation."""
    found = []
    for line in (function.__doc__ or "").split("\n"):
        name, paren, rest = line.strip().partition("(")
        if not paren or not name.isidentifier() or " -> " not in rest:
            continue
        body = rest.rpartition(") -> ")[0]
        scope = {}
        try:
            # The text comes from the core's own documentation, never from a program or a file.
            exec(f"def f({_without_types(body)}): pass", scope)
        except SyntaxError:
            continue
        signature = inspect.signature(scope["f"])
        given = [p for p in signature.parameters.values() if p.name != "out"]
        found.append(signature.replace(parameters=given))
    return found


def _without_types(text):
    """Return a signature without types: "input, dim=0" for "Tensor input, int dim=0"."""
    depth, parts, part = 0, [], ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    parts.append(part)
    cleaned = []
    for piece in parts:
        name, equals, default = piece.strip().partition("=")
        name = name.partition(":")[0].strip().rpartition(" ")[2]
        cleaned.append(f"{name}{equals}{default.strip()}" if name else "")
    return ", ".join(piece for piece in cleaned if piece)


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> list[Any]:
    """Return the list of signatures of a function, or None where none is known.

    Args:
        op: the function.
        return_schemas: if True, also return a list of schemas; Facula's are the signatures.

    >>> from facula.fx.operator_schemas import get_signature_for_torch_op
    >>> get_signature_for_torch_op(facula.add)
    [<Signature (input, other, *, alpha=1)>]
    """
    function = op
    if isinstance(op, OpOverload):
        function = op.overloadpacket._function
    elif isinstance(op, OpOverloadPacket):
        function = op._function
    found = None
    if isinstance(function, types.BuiltinFunctionType):
        found = _signatures_of_docs(function) or None
    elif isinstance(function, types.FunctionType) and (function.__module__ or "").startswith("facula."):
        found = [inspect.signature(function)]
    return (found, found) if return_schemas else found


@compatibility(is_backward_compatible=False)
def create_type_hint(x: Any) -> Any:
    """Return a hint for a list or tuple of types: list[...] or tuple[...] of what is common to them.

    Args:
        x: a list or tuple of types, or anything else, which is given back.

    >>> from facula.fx.operator_schemas import create_type_hint
    >>> create_type_hint([int, int]), create_type_hint((int, str)), create_type_hint(float)
    (list[int], tuple[typing.Any, ...], <class 'float'>)
    """
    if not isinstance(x, (list, tuple)):
        return x
    make = (lambda t: list[t]) if isinstance(x, list) else (lambda t: tuple[t, ...])
    if not x:
        return make(Any)
    base = x[0]
    for other in x:
        if issubclass(base, other):
            base = other
        elif not issubclass(other, base):
            return make(Any)
    return make(base)


@compatibility(is_backward_compatible=False)
def type_matches(signature_type: Any, argument_type: Any) -> Any:
    """Return whether an argument of one type can be given where a signature says another.

    Args:
        signature_type: the type of the parameter.
        argument_type: the type of the argument.

    >>> from facula.fx.operator_schemas import type_matches
    >>> type_matches(list[int], int), type_matches(int, float), type_matches(facula.Tensor, nn.Parameter)
    (True, False, True)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    origin = getattr(signature_type, "__origin__", None)
    if origin is typing.Union:
        return any(type_matches(part, argument_type) for part in signature_type.__args__)
    if origin is list and argument_type is int and signature_type.__args__ == (int,):
        return True
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if origin is list and getattr(argument_type, "__origin__", None) in (list, tuple):
        inner = [a for a in argument_type.__args__ if a is not ...]
        return all(type_matches(signature_type.__args__[0], a) for a in inner)
    return inspect.isclass(argument_type) and inspect.isclass(signature_type) and issubclass(argument_type, signature_type)


_IN_PLACE_FUNCTIONS = frozenset("setattr".split())


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target: Any, args: Any, kwargs: Any) -> None:
    """Raise RuntimeError where a call would change one of its arguments.

    Args:
        target: the function.
        args, kwargs: its arguments.

    >>> from facula.fx.operator_schemas import check_for_mutable_operation as check
    >>> check(facula.relu, (), {})
    >>> check(facula.relu_, (), {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    RuntimeError: check_for_mutable_operation: expected...
    """
    name = getattr(target, "__name__", "")
    writes = name.endswith("_") and not name.endswith("__") or kwargs.get("out") is not None
    if writes and isinstance(target, (types.BuiltinFunctionType, OpOverload)):
        raise RuntimeError(
            f"check_for_mutable_operation: expected one that writes to none of its arguments, got {target} "
            "(in place, or with out=)"
        )


@compatibility(is_backward_compatible=False)
def normalize_function(target: Any, args: Any, kwargs: Any = None, arg_types: Any = None, kwarg_types: Any = None,
                       normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:  # fmt: skip
    """Return the arguments of a call of a function of Facula by its signature, or None where that is not known or does not fit.

    Args:
        target: the function.
        args, kwargs: its arguments.
        arg_types, kwarg_types: accepted; signatures are told apart by which arguments fit.
        normalize_to_only_use_kwargs: if True, pass all by keyword.

    >>> from facula.fx.operator_schemas import normalize_function as normalize
    >>> normalize(facula.add, (1,), {"other": 2}, normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1, 'other': 2, 'alpha': 1})
    """
    kwargs = kwargs or {}
    for signature in get_signature_for_torch_op(target) or ():
        try:
            return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs)
        except TypeError:
            continue
    return None


@compatibility(is_backward_compatible=False)
def normalize_module(root: Module, target: Any, args: Any, kwargs: Any = None,
                     normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:  # fmt: skip
    """Return the arguments of a call of a submodule by the signature of its `forward`, or None for modules that are not
    Facula's.

    Args:
        root: the module.
        target: the path of the submodule.
        args, kwargs: its arguments.
        normalize_to_only_use_kwargs: if True, pass all by keyword.

    Errors: RuntimeError where the root has no such submodule.

    >>> from facula.fx.operator_schemas import normalize_module as normalize
    >>> normalize(nn.Sequential(nn.ReLU()), "0", (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1})
    """
    try:
        submodule = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"normalize_module: root has no module {target!r}"
        ) from error
    if getattr(facula.nn, type(submodule).__name__, None) is not type(submodule):
        return None
    signature = inspect.signature(type(submodule).forward)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs):
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found, positional = {}, []
    for name, parameter in signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None if value else None
        if normalize_to_only_use_kwargs or parameter.kind is parameter.KEYWORD_ONLY or len(positional) >= len(args):
            found[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), found)
