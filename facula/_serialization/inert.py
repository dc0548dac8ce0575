"""Standard-library and numpy values that are plain data: restoring one runs no code of the checkpoint.

`CALLS` maps a qualified name to the function that stands in for calling it during a load. Each checks
its arguments, since they come from the stream. Nothing here imports what a program does not have.
"""

import importlib
import re
from collections import Counter, OrderedDict, defaultdict, deque

from .pickle_reader import UnpicklingError, check_key

#: Types a defaultdict may use to make missing values.
_FACTORIES = {None, list, dict, set, int, float, str, bool, tuple, OrderedDict}
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


def need(condition, what):
    """UnpicklingError with `what` unless `condition`."""
    if not condition:
        raise UnpicklingError(f"load: {what}")


def _hashable(items):
    need(type(items) in (list, tuple), "a set is not built from a list")
    for item in items:
        check_key(item)
    return items


def _encode(*args):
    need(
        len(args) in (1, 2) and type(args[0]) is str and args[-1] in ("latin1", "latin-1", "utf-8"),
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
        len(args) <= 1 and (not args or args[0] in _FACTORIES),
        "a defaultdict makes its values by something else than a plain builtin type",
    )
    return defaultdict(*args)


def _deque(*args):
    items, limit = (args + ((), None))[:2] if len(args) < 2 else args
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
    timezone_types = ("timezone",)

    def build(*args):
        plain = all(
            type(a) in (bytes, int, str) or type(a).__name__ in (*timezone_types, "timedelta") for a in args
        )
        need(plain and len(args) <= 8, f"a {kind.__name__} is not built from its pickled form")
        return kind(*args)

    return build


def _empty(kind):
    def build(*args):
        need(not args, f"a {kind.__name__} takes no arguments")
        return kind.__new__(kind)

    return build


# -- numpy ------------------------------------------------------------------------------------------

_DTYPE = re.compile(r"[<>|=]?(?:[biufc](?:1|2|4|8|16)|\?|[SUV]\d{1,9}|O8?|[mM]8?)")
_UNITS = {b"Y", b"M", b"W", b"D", b"h", b"m", b"s", b"ms", b"us", b"ns", b"ps", b"fs", b"as", b"generic"}


def _numpy_dtype(*args):
    import numpy

    need(
        1 <= len(args) <= 3 and type(args[0]) is str and _DTYPE.fullmatch(args[0]),
        f"numpy dtype {args!r} is not a plain one",
    )
    return numpy.dtype(args[0], False, True)


def _build_dtype(dtype, state):
    plain = (
        type(state) is tuple
        and len(state) in (8, 9)
        and state[0] in (3, 4)
        and state[1] in ("<", ">", "|", "=")
        and state[2:5] == (None, None, None)
        and type(state[7]) is int
        and 0 <= state[7] < 64
    )
    need(plain, "a numpy dtype has a structure or subarray, which is not restored")
    sized = dtype.kind in "SUV"
    need(
        state[5] == (dtype.itemsize if sized else -1) and state[6] in ((1, 4) if sized else (-1,)),
        "a numpy dtype contradicts itself",
    )
    if len(state) == 9:
        unit = state[8][1] if type(state[8]) is tuple and len(state[8]) == 2 and not state[8][0] else None
        need(
            dtype.kind in "mM"
            and type(unit) is tuple
            and len(unit) == 4
            and unit[0] in _UNITS
            and all(type(n) is int and 1 <= n < 1 << 31 for n in unit[1:]),
            "a numpy time unit is malformed",
        )
    dtype.__setstate__(state)


def _checked_dtype(dtype, *kinds_refused):
    import numpy

    need(isinstance(dtype, numpy.dtype), "a numpy value has no dtype")
    need(dtype.kind not in kinds_refused, f"a numpy value of dtype {dtype} is not plain data")
    return dtype


def _numpy_scalar(dtype, data):
    import numpy

    need(
        type(data) is bytes and len(data) == _checked_dtype(dtype, "O").itemsize,
        "a numpy scalar has the wrong size",
    )
    return numpy.frombuffer(data, dtype)[0] if data else numpy.zeros((), dtype)[()]


def _numpy_empty(kind, shape, typecode):
    import numpy

    need(
        kind is numpy.ndarray and shape == (0,) and typecode in (b"b", "b"),
        "a numpy array subclass is not restored",
    )
    return numpy.ndarray.__new__(numpy.ndarray, (0,), "b")


def _count(shape):
    need(
        type(shape) is tuple and len(shape) <= 32 and all(type(n) is int and 0 <= n < 1 << 48 for n in shape),
        "a numpy array has an impossible shape",
    )
    total = 1
    for n in shape:
        total *= n
    return total


def _build_array(array, state):
    need(type(state) is tuple and len(state) == 5 and state[0] == 1, "a numpy array's state is malformed")
    _, shape, dtype, fortran, data = state
    total = _count(shape)
    _checked_dtype(dtype)
    need(type(fortran) in (bool, int), "a numpy array's order is malformed")
    if dtype.kind == "O":
        need(
            type(data) is list and len(data) == total,
            "a numpy array does not have as many objects as its shape says",
        )
    else:
        need(
            type(data) is bytes and len(data) == total * dtype.itemsize,
            "a numpy array does not have as many bytes as its shape says",
        )
    array.__setstate__(state)


def _numpy_from_buffer(data, dtype, shape, order):
    import numpy

    need(type(data) in (bytes, bytearray) and order in ("C", "F"), "a numpy array's buffer is malformed")
    need(
        len(data) == _count(shape) * _checked_dtype(dtype, "O").itemsize,
        "a numpy array does not have as many bytes as its shape says",
    )
    return numpy.frombuffer(bytearray(data), dtype).reshape(shape, order=order)


# -- the tables -------------------------------------------------------------------------------------


def _from(module, names, maker):
    """{(module, name): builder} for classes that are imported only when a checkpoint names them."""

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
    ("numpy", "dtype"): _numpy_dtype,
    **_from("pathlib", _PATHS, _texts),
    **_from("datetime", _DATETIME, _datetime_value),
    **_from("decimal", ("Decimal",), _texts),
    **_from("fractions", ("Fraction",), _ratio),
    **_from("argparse", ("Namespace",), _empty),
    **_from("types", ("SimpleNamespace",), _empty),
}
for _package in ("numpy.core", "numpy._core"):
    CALLS[_package + ".multiarray", "scalar"] = _numpy_scalar
    CALLS[_package + ".multiarray", "_reconstruct"] = _numpy_empty
    CALLS[_package + ".numeric", "_frombuffer"] = _numpy_from_buffer


def builder_of_state(obj):
    """The function(obj, state) that fills `obj`, or None when it is not one of the types here."""
    kind = type(obj)
    if kind is OrderedDict:
        return _build_attributes
    module, name = kind.__module__, kind.__name__
    if (module, name) in (("argparse", "Namespace"), ("types", "SimpleNamespace")):
        return _build_attributes
    if module == "numpy" and name == "ndarray":
        return _build_array
    if module.startswith("numpy") and kind.__mro__[-2].__name__ == "dtype":
        return _build_dtype
    return None


def _build_attributes(obj, state):
    need(
        type(state) is dict and all(type(k) is str for k in state),
        f"the attributes of a {type(obj).__name__} are not names",
    )
    obj.__dict__.update(state)
