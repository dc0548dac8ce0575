"""Provide the helpers of `torch.masked`: masks in the layout of the input, and masks of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula as _f
from facula._shared.dims import counted_dims

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_REDUCTIONS = frozenset("sum prod amax amin argmax argmin mean median norm var std logsumexp".split())
_SAME_SHAPE = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return the dimensions that `dim` says, counted from the front and in order; None says all.

    Args:
        dim: an int, several, or None.
        ndim: how many dimensions there are.

    >>> from facula.masked import _masks
    >>> _masks.canonical_dim((-1, 0), 3), _masks.canonical_dim(None, 2)
    ((0, 2), (0, 1))
    """
    if dim is None or (isinstance(dim, tuple) and not dim):
        return tuple(range(ndim))
    return tuple(sorted(counted_dims("masked", dim if isinstance(dim, (tuple, list)) else (dim,), max(ndim, 1))))


def input_mask(input: Tensor, *_args: Any, mask: Tensor | None = None, **_kwargs: Any) -> Tensor:
    """Return the keyword `mask` as bool, in the shape and the layout of `input`.

    Args:
        input: strided, COO or CSR.
        mask: of a shape that broadcasts to that of input. What else a masked function is given is not looked at.

    Errors: ValueError without a mask and for other layouts, IndexError for one of more dimensions than input.

    >>> from facula.masked import _masks
    >>> _masks.input_mask(torch.ones(2, 2), mask=torch.tensor([1, 0]))
    tensor([[ True, False],
            [ True, False]])
    """
    if mask is None:
        raise ValueError("masked: an explicit mask is needed, got None")
    if mask.dim() > input.dim():
        raise IndexError(f"masked: mask broadcasts to the shape {tuple(input.shape)}, got shape {tuple(mask.shape)}")
    if mask.shape == input.shape and mask.layout == input.layout:
        return mask.bool()
    dense = (mask if mask.layout == _f.strided else mask.to_dense()).bool().expand(input.shape)
    if input.layout == _f.strided:
        return dense
    if input.layout == _f.sparse_coo:
        return dense.to_sparse(input.sparse_dim())
    if input.layout == _f.sparse_csr:
        return dense.to_sparse_csr()
    raise ValueError(f"masked: a strided, COO or CSR tensor, got {input.layout}")


def output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return where the result of a masked function has a value: where any element that went into it is not masked out.

    Args:
        op: the function.
        input, args, kwargs: what it is called with.

    Errors: ValueError for what is no masked function.

    >>> from facula.masked import _masks
    >>> mask = torch.tensor([[True, False], [False, False]])
    >>> _masks.output_mask(torch.masked.sum, torch.ones(2, 2), 1, mask=mask)
    tensor([ True, False])
    """
    name = getattr(op, "__name__", None)
    if name in _SAME_SHAPE:
        return input_mask(input, *args, **kwargs)
    if name not in _REDUCTIONS:
        raise ValueError(f"masked: a masked reduction or normalization, got {op!r}")
    rest = args[1:] if name == "norm" else args  # the order of the norm
    dim = rest[0] if rest else kwargs.get("dim")
    result = input_mask(input, *args, **kwargs)
    if result.layout != _f.strided:
        result = result.to_dense()
    dims = canonical_dim(dim, input.dim())
    for d in reversed(dims) if input.dim() else ():
        result = result.any(d, bool(kwargs.get("keepdim", False)))
    return result


_LOWEST = ("amax", "argmax", "logaddexp", "logsumexp")
_HIGHEST = ("amin", "argmin")


def reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """Return what a masked-out element counts as in a reduction, a 0-d tensor; None where no number leaves the result as it is.

    Args:
        op_name: of the reduction.
        input: the tensor, whose dtype and device the result has.
        args: the order, of a norm.

    Errors: NotImplementedError for another name.

    >>> from facula.masked import _masks
    >>> _masks.reduction_identity("prod", torch.ones(2)), _masks.reduction_identity("amax", torch.ones(2))
    (tensor(1.), tensor(-inf))
    """
    name, dtype = op_name.rpartition(".")[2], input.dtype
    if name in ("mean", "var", "std"):
        return None
    if name in _LOWEST + _HIGHEST:
        value = float("-inf") if name in _LOWEST else float("inf")
        if not dtype.is_floating_point and not dtype.is_complex:
            whole = (0, 1) if dtype is _f.bool else (_f.iinfo(dtype).min, _f.iinfo(dtype).max)
            value = whole[name in _HIGHEST]
    elif name == "norm":
        value = float("inf") if args and args[0] == float("-inf") else 0
    elif name == "median":
        value, dtype = float("nan"), dtype if dtype.is_floating_point else _f.float32
    elif name in ("sum", "cumsum", "prod", "cumprod"):
        value = int(name.endswith("prod"))
    else:
        raise NotImplementedError(f"masked: there is no identity of {op_name} for this dtype, got {dtype}")
    return _f.tensor(value, dtype=dtype, device=input.device)
