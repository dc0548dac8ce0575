"""Define what functions do with nested tensors.

A rule runs a function on the rows of all sequences (`values`) where this gives the same result. A function that works
along the ragged dimension receives the sequences padded to one length (`padded`), and attention receives them one by
one. A rule is found by the name of its function; a function without a rule raises NotImplementedError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._operators.pointwise import DRAWN_INPLACE, POINTWISE, RAW, is_inplace, plain_name

from .nested_tensor import NestedTensor, wrap

if TYPE_CHECKING:
    from typing import Any

#: {name: rule}; a rule gets (func, name, args, kwargs)
RULES: dict[Any, Any] = {}

_LIKE = frozenset(
    """
    rand_like randn_like randint_like bernoulli dropout alpha_dropout feature_alpha_dropout rrelu detach alias positive normal
    polygamma sinc i0 exp2 ldexp heaviside floor_divide rad2deg prelu hardswish hardsigmoid numpy_T type retain_grad
    """.split()
)
_LOSSES = frozenset(
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div".split()
)
_OF_MEMORY = (RAW | {"backward"}) - {"numel", "dim", "ndimension", "is_contiguous", "is_same_size", "type"}


def rule(*names):
    """Register a rule for these functions."""

    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def call(func, args, kwargs):
    """Run a function whose arguments have nested tensors."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return _attribute(func, args)
    if name in ("__set__", "__delete__") or name in _OF_MEMORY:
        return off(func, *args, **kwargs)
    if name in DRAWN_INPLACE:
        off(func, *args, **kwargs)
        return args[0]
    short = plain_name(name)
    found = RULES.get(short) or RULES.get(name)
    if found is not None and not is_inplace(name):
        return found(func, short, args, kwargs)
    if short in _LOSSES or short in POINTWISE or short in _LIKE:
        return pointwise(func, short, args, kwargs, is_inplace(name))
    raise NotImplementedError(f"{name}: not supported for nested tensors, got {shapes_of([*args, *kwargs.values()])}")


NestedTensor._call_by_rule = staticmethod(call)


def off(func, *args, **kwargs):
    """Call the function on what nested tensors are."""
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _attribute(func, args):
    attribute = getattr(func.__self__, "__name__", "")
    x = args[0]
    if attribute in ("mT", "mH"):
        turned = x.transpose(-2, -1)
        return turned.conj() if attribute == "mH" else turned
    if attribute in ("T", "H"):
        raise ValueError(f"{attribute}: a jagged tensor keeps its batch dimension first, got shape {tuple(x.shape)}")
    value = off(func, *args)
    if attribute in ("data", "real", "imag"):
        return wrap(value, x._ragged, x._ragged_idx)
    return value


def shapes_of(values):
    """Return the shapes of the tensors among arguments, for an error."""
    found = [str(tuple(x.shape)) for x in leaves(values) if isinstance(x, facula.Tensor)]
    return ", ".join(found) or "no tensors"


def leaves(values):
    """Yield what is in lists and tuples, too."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from leaves(value)
        else:
            yield value


def is_nested(value):
    return isinstance(value, NestedTensor)


def like(values, x, at=None):
    """Return the values as a nested tensor of the structure of `x`."""
    return values if values is None else wrap(values, x._ragged, x._ragged_idx if at is None else at)


# ---- rows, and sequences of one length


def packed(x):
    """Return the same tensor without gaps between its sequences."""
    inner = x._ragged_idx - 1
    values = x.values()
    if x._ragged.is_packed(values.size(inner)):
        return x
    return wrap(values.index_select(inner, x._ragged.rows), x._ragged.packed, x._ragged_idx)


def padded(x, fill, length=None):
    """Return the sequences with `fill` behind them, as one tensor."""
    x = packed(x)
    rows, ragged = x.values().movedim(x._ragged_idx - 1, 0), x._ragged
    blank = rows.new_full((ragged.count, ragged.longest if length is None else length, *rows.shape[1:]), fill)
    return blank.index_put((ragged.owners, ragged.places), rows).movedim(1, x._ragged_idx)


def unpadded(dense, ragged, at):
    """Return the rows of sequences that were filled up to one length, as a nested tensor."""
    ragged = ragged if ragged.lengths is None else ragged.packed
    rows = dense.movedim(at, 1)
    return wrap(rows[ragged.owners, ragged.places].movedim(0, at - 1), ragged, at)


# ---- element by element


def pointwise(func, name, args, kwargs, inplace=False):
    """Compute a function of the elements that meet each other."""
    nested = [x for x in leaves([*args, *kwargs.values()]) if is_nested(x)]
    first = nested[0]
    alike = [x for x in nested if x._ragged.symbol == first._ragged.symbol]
    if len(alike) < len(nested) or any(not is_nested(x) for x in tensors_of(args, kwargs)):
        given = args[0]
        nested = [packed(x) for x in nested]
        if inplace and nested[0] is not first and given is first:
            raise NotImplementedError(f"{name}_: not supported for nested tensors with gaps, got {tuple(first.shape)}")
        same = all(x._ragged.is_like(nested[0]._ragged) for x in nested)
        first = nested[0]
    else:
        same = True
    if not same or len({(x.dim() - x._ragged_idx) for x in nested}) > 1:
        raise RuntimeError(f"{name}: cannot combine nested tensors of different structure, got {shapes_of(nested)}")
    first = max(nested, key=lambda x: x.dim())
    others = iter(nested)

    def part(x):
        if isinstance(x, (list, tuple)) and not isinstance(x, facula.Size):
            return type(x)(map(part, x))
        if is_nested(x):
            return next(others).values()
        return _aligned(name, x, first) if isinstance(x, facula.Tensor) else x

    if inplace:
        if not is_nested(args[0]):
            raise RuntimeError(f"{name}_: a tensor does not take the values of a nested one, got {shapes_of(args)}")
        next(others)
        off(func, args[0], *map(part, args[1:]), **{k: part(v) for k, v in kwargs.items()})
        return args[0]
    values = [part(x) for x in args]
    result = off(func, *values, **{k: part(v) for k, v in kwargs.items()})
    if not isinstance(result, facula.Tensor) or result.dim() + 1 != first.dim():
        return result
    return like(result, first)


def tensors_of(args, kwargs):
    """Return the tensors of a call that have dimensions."""
    return [x for x in leaves([*args, *kwargs.values()]) if isinstance(x, facula.Tensor) and x.dim()]


def _aligned(name, dense, x):
    """Return a tensor with one row for each of the rows of `x`, which it meets as if it were broadcast to the sequences."""
    at = dense.dim() - x.dim() + x._ragged_idx  # where in `dense` the ragged dimension would be
    if dense.dim() == 0 or at < 0:
        return dense
    ragged, whole = x._ragged, dense.dim() == x.dim()
    if dense.size(at) == 1 and not (whole and dense.size(0) != 1):
        return dense.squeeze(0) if whole else dense
    if dense.dim() <= x.dim() and dense.size(at) in (1, ragged.longest):
        dense, at = (dense, at) if whole else (dense[(None,) * (x.dim() - dense.dim())], x._ragged_idx)
        if dense.size(0) in (1, ragged.count):
            rows = dense.expand(ragged.count, *dense.shape[1:]).movedim(at, 1)
            rows = rows[ragged.owners, ragged.places if rows.size(1) > 1 else 0]
            return rows.movedim(0, at - 1)
    raise RuntimeError(f"{name}: a tensor must broadcast with the nested one, got {tuple(dense.shape)} and {tuple(x.shape)}")


# ---- arguments


def dimension(name, x, dim, extra=0):
    """Return a dimension counted from the left."""
    count = x.dim() + extra
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"{name}: a dimension is an int, got {type(dim).__name__}")
    if not -count <= dim < count:
        raise IndexError(
            f"{name}: dimension out of range, expected one of {-count} to {count - 1}, got {dim}"
        )
    return dim % count


def dense_dimension(name, x, dim, extra=0):
    """Return a dimension that is neither the sequences' nor the ragged one, counted from the left."""
    dim = dimension(name, x, dim, extra)
    if dim == 0:
        raise RuntimeError(f"{name}: not supported for NestedTensor on dim=0, got shape {tuple(x.shape)}")
    if dim == x._ragged_idx and not extra:
        raise RuntimeError(f"{name}: not supported for NestedTensor on ragged dim, got shape {tuple(x.shape)}")
    return dim


def argument(args, kwargs, position, name, default=None):
    """Return an argument given by position or by name."""
    return args[position] if len(args) > position else kwargs.get(name, default)
