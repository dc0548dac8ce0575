"""Define rules for reductions of nested tensors, and for functions along one dimension."""

from __future__ import annotations

import math

import facula

from .rules import argument, dense_dimension, dimension, like, off, packed, padded, pointwise, rule, unpadded

_LIMITS = {facula.bool: (False, True)}


def _limit(x, side):
    if x.is_floating_point():
        return (-math.inf, math.inf)[side]
    if x.dtype not in _LIMITS:
        _LIMITS[x.dtype] = (facula.iinfo(x.dtype).min, facula.iinfo(x.dtype).max)
    return _LIMITS[x.dtype][side]


def _low(x):
    return _limit(x, 0)


def _high(x):
    return _limit(x, 1)


#: what elements behind a sequence are, so that they change nothing
_NEUTRAL = {
    "sum": lambda x: 0, "nansum": lambda x: 0, "count_nonzero": lambda x: 0, "any": lambda x: 0, "all": lambda x: 1,
    "prod": lambda x: 1, "amax": _low, "max": _low, "argmax": _low, "amin": _high, "min": _high, "argmin": _high,
    "logsumexp": lambda x: -math.inf, "norm": lambda x: 0, "vector_norm": lambda x: 0, "linalg_vector_norm": lambda x: 0,
}  # fmt: skip
_NORMS = ("norm", "vector_norm", "linalg_vector_norm")


@rule(*_NEUTRAL, "mean", "var", "std", "nanmean")
def _reduce(func, name, args, kwargs):
    """Compute sums and the like, over all elements or some dimensions."""
    x, *given = args
    at = 1 if name in _NORMS else 0
    if name in ("max", "min") and isinstance(argument(given, kwargs, 0, "other"), facula.Tensor):
        return pointwise(func, name, args, kwargs)
    kwargs = dict(kwargs)
    ahead = given[:at]
    dim = given[at] if len(given) > at else kwargs.pop("dim", kwargs.pop("axis", None))
    keepdim = given[at + 1] if len(given) > at + 1 else kwargs.pop("keepdim", False)
    if dim is None or isinstance(dim, (list, tuple)) and not dim:
        return off(func, packed(x).values(), *ahead, **kwargs)
    several = isinstance(dim, (list, tuple))
    dims = sorted({dimension(name, x, d) for d in (dim if several else [dim])})

    def run(tensor, along):
        along = along if several else along[0]
        keep = {} if name == "count_nonzero" else {"keepdim": keepdim}
        if name in _NORMS:
            return off(func, tensor, *ahead, dim=along, **keep, **kwargs)
        return off(func, tensor, along, *ahead, **keep, **kwargs)

    inner = x._ragged_idx
    if 0 in dims and inner not in dims:
        what = "a nested tensor is reduced over its batch together with its ragged dimension only"
        raise RuntimeError(f"{name}: {what}, got dim {dim}")
    if 0 in dims:
        result = run(packed(x).values(), [d - 1 for d in dims if d])
        return result.unsqueeze(0) if keepdim else result
    if inner in dims:
        if len(dims) > 1:
            what = "a nested tensor is reduced over its ragged dimension alone or together with its batch"
            raise RuntimeError(f"{name}: {what}, got dim {dim}")
        return _over_sequences(func, name, x, run, dims)
    at = inner if keepdim else inner - sum(d < inner for d in dims)
    result = run(x.values(), [d - 1 for d in dims])
    if isinstance(result, facula.Tensor):
        return like(result, x, at)
    return type(result)([like(part, x, at) for part in result])


def _over_sequences(func, name, x, run, dims):
    if name == "mean":
        counts = facula.tensor(x._ragged.sizes, dtype=x.dtype, device=x.device)
        total = x.sum(dims[0], keepdim=True)
        mean = total / counts.reshape(-1, *[1] * (x.dim() - 1))
        return mean if run(total, dims).dim() == x.dim() else mean.squeeze(dims[0])
    if name not in _NEUTRAL:
        raise NotImplementedError(f"{name}: not supported along the ragged dimension, got shape {tuple(x.shape)}")
    return run(padded(x, _NEUTRAL[name](x)), dims)


@rule("softmax", "log_softmax", "softmin")
def _softmax(func, name, args, kwargs):
    """Compute softmax, also along the ragged dimension."""
    x = args[0]
    dim = argument(args, kwargs, 1, "dim")
    if dim is None:
        raise RuntimeError(f"{name}: a nested tensor needs a dimension, got dim None")
    dim = dimension(name, x, dim)
    kwargs = {k: v for k, v in kwargs.items() if k != "dim"}
    if dim == x._ragged_idx:
        fill = math.inf if name == "softmin" else -math.inf
        return unpadded(off(func, padded(x, fill), dim, *args[2:], **kwargs), x._ragged, dim)
    return like(off(func, x.values(), dense_dimension(name, x, dim) - 1, *args[2:], **kwargs), x)


@rule("cumsum", "cumprod", "logcumsumexp", "glu", "sort", "argsort", "cummax", "cummin")
def _along(func, name, args, kwargs):
    """Compute functions along a dense dimension that keep the others."""
    x = args[0]
    kwargs = dict(kwargs)
    dim = dense_dimension(name, x, args[1] if len(args) > 1 else kwargs.pop("dim", -1))
    result = off(func, x.values(), dim - 1, *args[2:], **kwargs)
    if isinstance(result, facula.Tensor):
        return like(result, x)
    return type(result)([like(part, x) for part in result])
