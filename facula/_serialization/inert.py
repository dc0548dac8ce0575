"""Restore values of the standard library that are plain data. This runs no code of the checkpoint.

`CALLS` maps a qualified name to the function that a load calls in its place. Each checks
its arguments, since they come from the stream. Nothing here imports what a program does not have.
"""

import importlib
import re
from collections import Counter, OrderedDict, defaultdict, deque

from . import numpy_data
from .errors import need
from .pickle_reader import check_key

#: Types a defaultdict may use to make missing values.
_FACTORIES = (None, list, dict, set, int, float, str, bool, tuple, OrderedDict)
_DATETIME = ("date", "datetime", "time", "timedelta", "timezone")
_PATHS = ("PurePath", "PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath", "Path")
#: Plain classes and values whose names may appear, as values, without being called.
VALUES = {
    "builtins": (
        "Ellipsis",
        "NotImplemented",
        "int",
        "float",
        "bool",
        "str",
        "list",
        "dict",
        "tuple",
        "bytes",
        "set",
        "frozenset",
        "complex",
        "bytearray",
        "range",
        "slice",
        "object",
    ),
    "numpy": (
        "ndarray",
        "dtype",
        "generic",
        "bool_",
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "str_",
        "bytes_",
    ),
    "argparse": ("Namespace",),
    "types": ("SimpleNamespace",),
    "datetime": _DATETIME,
    "pathlib": _PATHS,
    "collections": ("OrderedDict", "Counter", "defaultdict", "deque"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
}


def _hashable(items):
    need(type(items) in (list, tuple), "a set is not built from a list")
    for item in items:
        check_key(item)
    return items


def _encode(*args):
    need(
        len(args) in (1, 2)
        and all(type(a) is str for a in args)
        and (len(args) == 1 or args[1] in ("latin1", "latin-1", "utf-8")),
        "text is encoded by something other than latin1 or utf-8",
    )
    return args[0].encode(args[1] if len(args) == 2 else "utf-8")


def _bytearray(*args):
    if len(args) == 2:
        return bytearray(_encode(*args))
    need(not args or (len(args) == 1 and type(args[0]) is bytes), "a bytearray is not built from bytes")
    return bytearray(*args)


def _complex(*args):
    need(
        len(args) == 2 and all(type(a) in (int, float) for a in args),
        "a complex is not built from two numbers",
    )
    return complex(*args)


def _whole_numbers(kind, count):
    def build(*args):
        need(
            len(args) in count and all(a is None or type(a) is int for a in args),
            f"a {kind.__name__} is not built from ints",
        )
        return kind(*args)

    return build


def _ordered_dict(*args):
    result = OrderedDict()
    for pairs in args:
        need(type(pairs) in (list, tuple), "an OrderedDict is not built from pairs")
        for pair in pairs:
            need(type(pair) in (list, tuple) and len(pair) == 2, "an OrderedDict is not built from pairs")
            check_key(pair[0])
            result[pair[0]] = pair[1]
    return result


def _counter(*args):
    need(not args or (len(args) == 1 and type(args[0]) is dict), "a Counter is not built from a dict")
    return Counter(*args)


def _defaultdict(*args):
    need(
        len(args) <= 1 and (not args or any(args[0] is factory for factory in _FACTORIES)),
        "a defaultdict makes its values by something else than a plain builtin type",
    )
    return defaultdict(*args)


def _deque(*args):
    items, limit = (*args, None) if len(args) == 1 else args or ((), None)
    need(
        type(items) in (list, tuple) and (limit is None or type(limit) is int),
        "a deque is not built from a list and a length",
    )
    return deque(items, limit)


def _texts(kind):
    def build(*args):
        need(all(type(a) is str for a in args), f"a {kind.__name__} is not built from text")
        return kind(*args)

    return build


def _ratio(kind):
    def build(*args):
        # no exponents: "1e999999999" is a short text for a number that fills the memory
        need(
            len(args) == 1 and type(args[0]) is str and re.fullmatch(r"-?\d+(/\d+)?", args[0]),
            "a Fraction is malformed",
        )
        return kind(*args)

    return build


def _datetime_value(kind):
    import datetime

    parts = (bytes, int, str, datetime.timezone, datetime.timedelta)

    def build(*args):
        plain = all(type(a) in parts for a in args)
        need(plain and len(args) <= 8, f"a {kind.__name__} is not built from its pickled form")
        return kind(*args)

    return build


def _empty(kind):
    def build(*args):
        need(not args, f"a {kind.__name__} takes no arguments")
        return kind.__new__(kind)

    return build


# -- the tables -------------------------------------------------------------------------------------


def _from(module, names, maker):
    """Return {(module, name): builder} for classes that are imported only when a checkpoint names them."""

    def lazily(name):
        def build(*args):
            kind = getattr(importlib.import_module(module), name)
            return maker(kind)(*args)

        return build

    return {(module, name): lazily(name) for name in names}


CALLS = {
    ("_codecs", "encode"): _encode,
    ("builtins", "set"): lambda items=(): set(_hashable(items)),
    ("builtins", "frozenset"): lambda items=(): frozenset(_hashable(items)),
    ("builtins", "bytes"): lambda *args: _encode(*args) if args else b"",
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "complex"): _complex,
    ("builtins", "slice"): _whole_numbers(slice, (1, 2, 3)),
    ("builtins", "range"): _whole_numbers(range, (1, 2, 3)),
    ("collections", "OrderedDict"): _ordered_dict,
    ("collections", "Counter"): _counter,
    ("collections", "defaultdict"): _defaultdict,
    ("collections", "deque"): _deque,
    ("numpy", "dtype"): numpy_data.dtype,
    **_from("pathlib", _PATHS, _texts),
    **_from("datetime", _DATETIME, _datetime_value),
    **_from("decimal", ("Decimal",), _texts),
    **_from("fractions", ("Fraction",), _ratio),
    **_from("argparse", ("Namespace",), _empty),
    **_from("types", ("SimpleNamespace",), _empty),
}
for _package in ("numpy.core", "numpy._core"):
    CALLS[_package + ".multiarray", "scalar"] = numpy_data.scalar
    CALLS[_package + ".multiarray", "_reconstruct"] = numpy_data.empty
    CALLS[_package + ".numeric", "_frombuffer"] = numpy_data.from_buffer


def builder_of_state(obj):
    """Return the function(obj, state, nesting) that fills `obj`, or None when it is not one of the types here."""
    kind = type(obj)
    if kind is OrderedDict:
        return _build_attributes
    module, name = kind.__module__, kind.__name__
    if (module, name) in (("argparse", "Namespace"), ("types", "SimpleNamespace")):
        return _build_attributes
    return numpy_data.builder_of_state(obj)


def _build_attributes(obj, state, nesting):
    need(
        type(state) is dict and all(type(k) is str for k in state),
        f"the attributes of a {type(obj).__name__} are not names",
    )
    obj.__dict__.update(state)
