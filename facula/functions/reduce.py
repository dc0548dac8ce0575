"""Define reductions with options that an op does not have: `unique`, `histogramdd`, `segment_reduce`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from facula import Tensor


def _chosen(results, return_inverse: bool, return_counts: bool):
    """Return the first result alone, or a tuple with those that were asked for."""
    values, inverse, counts = results
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def _distinct_slices(input, dim: int, consecutive: bool):
    if input.dim() == 0:
        raise IndexError(f"unique: dimension out of range, for a tensor without dimensions, got {dim}")
    first, inverse, counts = _C._unique_rows(input, dim, consecutive)
    index = [slice(None)] * input.dim()
    index[dim] = first
    return input[tuple(index)], inverse, counts


@overload
def unique(input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False,
           dim: int | None = None) -> Tensor: ...  # fmt: skip


@overload
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any: ...  # fmt: skip


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Tensor | Any:  # fmt: skip
    """Return the distinct elements of a tensor in ascending order, or its distinct slices along `dim`.

    Args:
        input: the tensor.
        sorted: the result is in order whatever this says.
        return_inverse: whether also the place of each element (slice) among them is wanted.
        return_counts: whether also how often each occurs is wanted.
        dim: the dimension of the slices; None for elements.

    Returns: the distinct ones; or a tuple of them, the places (int64, of the shape of input, or of its size along dim) and the
    counts (int64), as far as they are wanted.

    Errors: TypeError for a sorted that is no bool.

    >>> torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
    (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
    >>> torch.unique(torch.tensor([[1, 2], [0, 5], [1, 2]]), dim=0)
    tensor([[0, 5],
            [1, 2]])
    """
    if not isinstance(sorted, bool):
        raise TypeError(f"unique: sorted must be bool, got {type(sorted).__name__}")
    if dim is None:
        results = _C._unique_sorted(input, return_inverse, return_counts)
    else:
        results = _distinct_slices(input, dim, False)
    return _chosen(results, return_inverse, return_counts)


@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False,
                       dim: int | None = None) -> Tensor: ...  # fmt: skip


@overload
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any: ...  # fmt: skip


def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Tensor | Any:  # fmt: skip
    """Return the first of every run of equal neighbors, of the flattened tensor or among its slices along `dim`.

    Args:
        input: the tensor.
        return_inverse: whether also the run of each element (slice) is wanted.
        return_counts: whether also the lengths of the runs are wanted.
        dim: the dimension of the slices; None for elements.

    Returns: the first ones; or a tuple of them, the runs (int64) and the lengths (int64), as far as they are wanted.

    The first ones are a vector, or with dim of the shape of input with fewer positions along it.

    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    if dim is None:
        results = _C._unique_runs(input, return_inverse, return_counts)
    else:
        results = _distinct_slices(input, dim, True)
    return _chosen(results, return_inverse, return_counts)


class histogramdd_result(NamedTuple):
    hist: object
    bin_edges: tuple[Any, ...]


def _edges(values, bins: int, limits):
    """Return `bins + 1` evenly spaced edges over `limits`, or over the range of `values` (widened when it is a point)."""
    return (
        _C.histogram(values, bins, range=limits)[1] if limits is not None else _C.histogram(values, bins)[1]
    )


def histogramdd(input: Tensor, bins: int | Sequence[int] | Sequence[Tensor], range: Sequence[float] | None = None,
                weight: Tensor | None = None, density: bool = False) -> histogramdd_result:  # fmt: skip
    """Return the histogram of points in several dimensions.

    Args:
        input: the points, (..., D), a coordinate for each of D dimensions.
        bins: a number of bins for all coordinates, one number per coordinate, or one tensor of edges per coordinate.
        range: a lowest and a highest edge for each coordinate, 2 D numbers; None for the least and the greatest that there are.
            Points outside do not count.
        weight: (...), what each point counts; None for 1.
        density: whether the result is divided by its sum and by the bins' sizes.

    Returns: `(hist, bin_edges)`: hist has D dimensions, bin_edges is a tuple of D tensors.

    Errors: RuntimeError for points of fewer than two dimensions, and for bins or range that do not fit D.

    >>> points = torch.tensor([[0., 1.], [1., 0.], [1., 1.]])
    >>> torch.histogramdd(points, bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"histogramdd: points in the last of two or more dimensions, got shape {tuple(input.shape)}"
        )
    count = input.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(f"histogramdd: one entry of bins per coordinate ({count}), got {len(bins)}")
    if all(isinstance(b, int) for b in bins):
        if range is not None and len(range) != 2 * count:
            raise RuntimeError(
                f"histogramdd: two entries of range per coordinate ({2 * count}), got {len(range)}"
            )
        limits = [None if range is None else list(range[2 * i : 2 * i + 2]) for i, _ in enumerate(bins)]
        edges = [_edges(input[..., i], b, limits[i]) for i, b in enumerate(bins)]
    else:
        edges = bins
    points = input.reshape(-1, count)
    if weight is None:
        weight = _C.ones(points.shape[0], dtype=input.dtype)
    return histogramdd_result(_C._histogramdd(points, edges, weight.reshape(-1), density), tuple(edges))


_SEGMENT_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SEGMENT_REDUCE = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def segment_reduce(data: Any, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
                   offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False,
                   initial: int | None = None) -> Tensor:  # fmt: skip
    """Reduce consecutive runs along the last dimension of `lengths`.

    Args:
        data: floating, (*batch, n, ...).
        reduce: "sum", "mean", "prod", "max" or "min"; "amax" and "amin" are the last two.
        lengths: how many elements each run has, (*batch, runs).
        indices: nothing else than None.
        offsets: in place of lengths where the runs begin and end, (*batch, runs + 1).
        axis: the dimension that is cut into runs, the last one of lengths.
        unsafe: leaves out the check that the lengths add up to n.
        initial: what each run starts from; also the result of an empty run (by default the neutral value, NaN for mean).

    Returns: (*batch, runs, ...).

    Errors: RuntimeError for other words, both or neither of lengths and offsets, another axis, negative lengths, and lengths
    that do not add up to n.

    >>> torch.segment_reduce(torch.tensor([1., 2., 3., 4.]), "sum", lengths=torch.tensor([1, 3]))
    tensor([1., 9.])
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in _SEGMENT_REDUCE:
        raise RuntimeError(f"segment_reduce: reduce must be {_C._one_of(reduce, _SEGMENT_REDUCE)}")
    if indices is not None:
        raise RuntimeError("segment_reduce: indices are not supported, give lengths or offsets, got indices")
    if (lengths is None) == (offsets is None):
        raise RuntimeError(
            f"segment_reduce: expected either lengths or offsets, got {'neither' if lengths is None else 'both'}"
        )
    if not data.is_floating_point():
        raise RuntimeError(f"segment_reduce: a floating-point tensor is expected, got {data.dtype}")
    axis = axis % data.dim() if data.dim() else 0
    counts = offsets.diff(dim=-1) if lengths is None else lengths
    if axis != counts.dim() - 1:
        raise RuntimeError(f"segment_reduce: axis is the last dimension of lengths or offsets, {counts.dim() - 1}, got {axis}")
    if not unsafe:
        _check_runs(data, counts, axis, offsets)
    runs = counts.shape[-1]
    # the run of every element, one number more standing for elements behind the last run
    ends = counts.cumsum(-1) + (0 if offsets is None else offsets[..., :1])
    positions = _C.arange(data.shape[axis]).expand(*counts.shape[:-1], data.shape[axis]).contiguous()
    run = _C.searchsorted(ends.contiguous(), positions, right=True)
    if offsets is not None:
        run = _C.where(positions < offsets[..., :1], runs, run)
    shape = [*counts.shape[:-1], runs + 1, *data.shape[axis + 1 :]]
    index = run.reshape(*run.shape, *[1] * (data.dim() - axis - 1)).expand(data.shape)
    start = _SEGMENT_START[reduce] if initial is None else initial
    first = _C.full(shape, start, dtype=data.dtype)
    if reduce in ("max", "min", "prod"):
        gradient = _gradient_of_product if reduce == "prod" else _gradient_of_extremes
        return _reduced(first, axis, index, data, _SEGMENT_REDUCE[reduce], gradient).narrow(axis, 0, runs)
    result = first.scatter_reduce(axis, index, data, _SEGMENT_REDUCE[reduce], include_self=True).narrow(axis, 0, runs)
    if reduce == "mean":
        sizes = counts.reshape(*counts.shape, *[1] * (data.dim() - axis - 1))
        empty = math.nan if initial is None else initial
        result = _C.where(sizes > 0, result / sizes.clamp(min=1), _C.full((), empty, dtype=data.dtype))
    return result


def _reduced(first, axis, index, data, reduce, gradient):
    """Return `first` with the elements of `data` at the places `index`, reduced; `gradient` says what of it goes to `data`."""
    from facula.autograd import Function

    class Reduced(Function):
        @staticmethod
        def forward(ctx, data):
            result = first.scatter_reduce(axis, index, data, reduce, include_self=True)
            ctx.save_for_backward(data, result)
            return result

        @staticmethod
        def backward(ctx, grad):
            return gradient(grad, *ctx.saved_tensors, first, axis, index)

    return Reduced.apply(data)


def _gradient_of_extremes(grad, data, result, first, axis, index):
    """Return the gradient that the equals of an extreme share, and the NaNs of a run: not what the run started from."""
    chosen = ((data == result.gather(axis, index)) | data.isnan()).to(data.dtype)
    shares = _C.zeros(first.shape, dtype=data.dtype).scatter_add(axis, index, chosen)
    return chosen * (grad / shares.clamp(min=1)).gather(axis, index)


def _gradient_of_product(grad, data, result, first, axis, index):
    """Return the product of the others: of the whole by the element, where that is neither 0 nor NaN."""
    zero, nan = data == 0, data.isnan()
    special = zero | nan
    plain = first.scatter_reduce(axis, index, _C.where(special, 1.0, data), "prod", include_self=True)

    def others(kind):  # how many other elements of the run are so
        count = _C.zeros(first.shape, dtype=data.dtype).scatter_add(axis, index, kind.to(data.dtype))
        return count.gather(axis, index) - kind.to(data.dtype)

    product = _C.where(others(zero) > 0, 0.0, plain.gather(axis, index))
    product = _C.where(others(nan) > 0, math.nan, product)
    by_element = result.gather(axis, index) / _C.where(special, 1.0, data)
    return grad.gather(axis, index) * _C.where(special, product, by_element)


def _check_runs(data, counts, axis, offsets):
    if counts.numel() and counts.min().item() < 0:
        raise RuntimeError(f"segment_reduce: lengths must not be negative, got {counts.min().item()}")
    if offsets is None and not bool((counts.sum(-1) == data.shape[axis]).all()):
        raise RuntimeError(
            f"segment_reduce: the lengths must add up to {data.shape[axis]}, the size of dim {axis}, "
            f"got {counts.sum(-1).tolist()}"
        )
