"""Define helpers of translations for the older exporter; functions for `register_custom_op_symbolic` call them.

A translation receives tensors as values of the graph, and numbers, lists and texts of the program as Python objects.
PyTorch's older exporter makes values of these, too. `parse_args` and `_get_const` accept both.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ._constants import TensorProtoDataType
from ._graph import Value
from .errors import SymbolicValueError, UnsupportedOperatorError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["parse_args"]

#: the older names of dtypes, in the order in which they are numbered; None: ONNX has no such elements
_NAMES = {
    "Byte": "UINT8", "Char": "INT8", "Short": "INT16", "Int": "INT32", "Long": "INT64", "Half": "FLOAT16", "Float": "FLOAT",
    "Double": "DOUBLE", "ComplexHalf": None, "ComplexFloat": "COMPLEX64", "ComplexDouble": "COMPLEX128", "Bool": "BOOL",
    "QInt8": "INT8", "QUInt8": "UINT8", "QInt32": "INT32", "BFloat16": "BFLOAT16",
}  # fmt: skip

#: the number of a dtype -> ONNX's
scalar_type_to_onnx: list[TensorProtoDataType] = [TensorProtoDataType[name or "UNDEFINED"] for name in _NAMES.values()]
#: the older name of a dtype -> ONNX's number
cast_pytorch_to_onnx: dict[str, TensorProtoDataType] = {
    name: TensorProtoDataType[onnx] for name, onnx in _NAMES.items() if onnx is not None and not name.startswith("Q")
}
cast_pytorch_to_onnx["Undefined"] = TensorProtoDataType.UNDEFINED

#: descriptor -> (what it makes of an entry, whether of a list of them)
_KINDS = {
    "i": (int, False), "f": (float, False), "b": (bool, False), "s": (str, False),
    "is": (int, True), "fs": (float, True),
}  # fmt: skip


def _is_value(x):
    """Return whether x is a value of the graph."""
    return isinstance(x, Value)


def _is_tensor(x):
    """Return whether x is a tensor of the graph; all values are."""
    return isinstance(x, Value)


def _is_none(x):
    """Return whether the program gave None, or nothing."""
    return x is None


def _is_constant(x):
    """Return whether x is known while the model is exported."""
    return not isinstance(x, Value) or x.array is not None or x.exact is not None


def _plain(value):
    """Return a constant of the graph as Python has it."""
    if not isinstance(value, Value):
        return value
    if value.array is not None:
        return value.array.tolist()
    return value.exact.tolist() if value.exact is not None else value


def _get_const(value, desc, arg_name):
    """Return what the program gave for an argument, which must be known.

    Args:
        value: a value of the graph, or what Python has.
        desc: "i", "f", "b", "s" for a number or text, "is" and "fs" for lists, "t" for a tensor, "v" for the value itself.
        arg_name: the argument's name, for the error.

    Raises:
        SymbolicValueError: it is computed by the program, or is of another kind.
    """
    if desc == "v":
        return value
    if not _is_constant(value):
        raise SymbolicValueError(f"{arg_name}: a constant of kind {desc!r} is needed, got {value}, which the program computes")
    if desc == "none":
        return None
    if desc == "t":
        return value.array if _is_value(value) and value.exact is None else getattr(value, "exact", value)
    if desc not in _KINDS:
        raise ValueError(f"parse_args: a descriptor is one of v, t, none, {', '.join(_KINDS)}, got {desc!r}")
    kind, many = _KINDS[desc]
    plain = _plain(value)
    entries = plain if isinstance(plain, (list, tuple)) else [plain]
    good = (str,) if kind is str else (bool, int, float)
    if plain is None or not all(isinstance(entry, good) for entry in entries) or (not many and len(entries) != 1):
        raise SymbolicValueError(f"{arg_name}: a constant of kind {desc!r} is needed, got {plain!r}")
    made = [kind(entry) for entry in entries]
    return made if many else made[0]


def _maybe_get_const(value, desc):
    """Return what `_get_const` gives, but a value that the program computes, and None, are given back."""
    return value if value is None or not _is_constant(value) else _get_const(value, desc, "value")


def _maybe_get_scalar(value):
    """Return the number that a constant of one element holds; anything else is given back."""
    plain = _plain(value)
    while isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    return value if isinstance(plain, (list, tuple)) else plain


def parse_args(*arg_descriptors: Any) -> Any:
    """Return a decorator for translations: their arguments after the graph come as Python has them, as the descriptors say.

    Args:
        arg_descriptors: one for each argument, see `_get_const`. An argument that is None stays None.

    Raises:
        SymbolicValueError: an argument is not known while the model is exported, or of another kind.

    Example:
        >>> @facula.onnx.symbolic_helper.parse_args("v", "i")
        ... def scaled(g, x, by):
        ...     return g.op("my.domain::Scaled", x, by_i=by)
    """

    def decorate(function):
        names = function.__code__.co_varnames[1 : function.__code__.co_argcount]

        @functools.wraps(function)
        def translate(g, *args, **kwargs):
            if len(args) > len(arg_descriptors):
                text = f"{function.__name__}: parse_args describes {len(arg_descriptors)} arguments, got {len(args)}"
                raise TypeError(text)
            described = dict(zip(names, arg_descriptors))
            made = [
                value if value is None else _get_const(value, desc, names[i] if i < len(names) else f"argument {i}")
                for i, (value, desc) in enumerate(zip(args, arg_descriptors))
            ]
            named = {
                name: value if value is None or name not in described else _get_const(value, described[name], name)
                for name, value in kwargs.items()
            }
            return function(g, *made, **named)

        return translate

    return decorate


def _get_tensor_rank(x):
    """Return how many dimensions a value has; None where it is not known."""
    return None if not _is_value(x) or x.shape is None else len(x.shape)


def _get_tensor_sizes(x, allow_nonstatic=True):
    """Return the sizes of a value, None for those that vary; None where nothing is known, or where one varies that must not."""
    if _get_tensor_rank(x) is None:
        return None
    sizes = [size if isinstance(size, int) else None for size in x.shape]
    return sizes if allow_nonstatic or None not in sizes else None


def _get_tensor_dim_size(x, dim):
    """Return the size of one dimension; None where it is not known."""
    sizes = _get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


def _onnx_unsupported(op_name, value=None):
    """Raise UnsupportedOperatorError for an operator; `value` is what made it so."""
    raise UnsupportedOperatorError(f"Unsupported: ONNX export of operator {op_name}{_about(value)}")


def _onnx_opset_unsupported_detailed(op_name, current_opset, supported_opset, reason, value=None):
    """Raise UnsupportedOperatorError: an operator needs another opset, and why."""
    text = f"Unsupported: ONNX export of {op_name} in opset {current_opset}. {reason}."
    raise UnsupportedOperatorError(f"{text} Please try opset version {supported_opset}.{_about(value)}")


def _about(value):
    return "" if value is None else f", got {value}"


def _reshape_helper(g, input, shape, allowzero=0):
    """Return a node `Reshape`.

    Args:
        g: the graph.
        input: a value.
        shape: a list of sizes, or a value.
        allowzero: whether a size of 0 means 0, and not what was there.

    Raises:
        UnsupportedOperatorError: `allowzero` before opset 14.
    """
    if allowzero and g.opset < 14:
        _onnx_opset_unsupported_detailed("Reshape", g.opset, 14, "A size of 0 stands for what was there", input)
    sizes = shape if _is_value(shape) else g.constant(np.asarray(shape, dtype=np.int64))
    return g.Reshape(input, sizes, allowzero=1 if allowzero else None)


def _repeat_interleave_split_helper(g, self, reps, dim):
    """Return `self` in `reps` equal parts along `dim`, as a tuple of values."""
    number = {"num_outputs": reps} if g.opset >= 18 else {}
    parts = g.Split(self, outputs=reps, axis=dim, **number)
    return parts if reps > 1 else (parts,)
