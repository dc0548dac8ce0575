"""Infer the schemas of operators from the annotations of Python functions."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing

import facula

_SCALARS = {
    facula.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", complex: "complex",
    facula.dtype: "ScalarType", facula.device: "Device", facula.layout: "Layout",
}  # fmt: skip
_NUMBER = {int, float, bool}
_IN_LISTS = (facula.Tensor, int, float, bool)


def _type(hint):
    """Return the schema's word for an annotation, or None."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [kind for kind in inside if kind is not type(None)]
        if set(rest) == _NUMBER:
            word = "Scalar"
        else:
            word = _type(rest[0]) if len(rest) == 1 else None
        return f"{word}?" if word and len(rest) < len(inside) else word
    if origin in (list, collections.abc.Sequence) and len(inside) == 1:
        if inside[0] in _IN_LISTS:
            return f"{_SCALARS[inside[0]]}[]"
        return "Tensor?[]" if _type(inside[0]) == "Tensor?" else None
    return None


def _result(hint):
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        parts = typing.get_args(hint)
        words = [_returned(part) for part in parts]
        return f"({', '.join(words)})" if len(words) > 1 else words[0]
    return _returned(hint)


def _returned(hint):
    word = _type(hint)
    if word is None or word.endswith("?"):
        raise ValueError(f"infer_schema: the type of the result has no form in a schema, got {hint}")
    return word


def _default(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, facula.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, facula.device):
        return f'"{value}"'
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    raise ValueError(f"infer_schema: a default has no form in a schema, got {value!r}")


def infer(function, mutates, name):
    """Return the text of the schema."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ValueError(f"infer_schema: the annotations cannot be evaluated: {error}") from None

    def refused(what):
        return ValueError(f"infer_schema: {what}, got the signature {signature}")

    parts, named, letter = [], set(), 0
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise refused("each parameter must be accepted by name and by position, without * and **")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.name not in hints:
            raise refused(f"the parameter {parameter.name!r} must be annotated with its type")
        word = _type(hints[parameter.name])
        if word is None:
            raise refused(f"the type of the parameter {parameter.name!r} has no form in a schema, {hints[parameter.name]}")
        written = word.startswith("Tensor") if mutates == "unknown" else parameter.name in mutates
        if written:
            if not word.startswith("Tensor"):
                raise refused(f"mutates_args names tensors and lists of them, but {parameter.name!r} is none")
            word, letter = word.replace("Tensor", f"Tensor(a{letter}!)", 1), letter + 1
        named.add(parameter.name)
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{word} {parameter.name}{default}")
    missing = set() if mutates == "unknown" else set(mutates) - named
    if missing:
        raise refused(f"mutates_args names parameters of the function, but {sorted(missing)} are none")
    result = _result(hints.get("return", signature.return_annotation) if "return" in hints else None)
    return f"{name or ''}({', '.join(parts)}) -> {result}"
