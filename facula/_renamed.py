"""Functions at the top level whose work another module does, with the arguments they have there.

The losses take their reduction as a number (0 "none", 1 "mean", 2 "sum").
"""

from __future__ import annotations

import builtins
import math
import operator

from . import _C

Tensor = _C.Tensor
_REDUCTIONS = ("none", "mean", "sum")


def _reduction(op, number):
    if not isinstance(number, builtins.int) or not 0 <= number <= 2:
        raise ValueError(f"{op}: reduction is 0 (none), 1 (mean) or 2 (sum), got {number!r}")
    return _REDUCTIONS[number]


def _functional():
    from .nn import functional

    return functional


# Losses


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """As nn.functional.cosine_embedding_loss."""
    how = _reduction("cosine_embedding_loss", reduction)
    return _functional().cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """As nn.functional.hinge_embedding_loss."""
    how = _reduction("hinge_embedding_loss", reduction)
    return _functional().hinge_embedding_loss(input, target, margin, reduction=how)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """As nn.functional.margin_ranking_loss."""
    how = _reduction("margin_ranking_loss", reduction)
    return _functional().margin_ranking_loss(input1, input2, target, margin, reduction=how)


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """As nn.functional.poisson_nll_loss."""
    how = _reduction("poisson_nll_loss", reduction)
    return _functional().poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """As nn.functional.triplet_margin_loss."""
    how = _reduction("triplet_margin_loss", reduction)
    return _functional().triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)


# Questions and views


def detach(input):
    """As Tensor.detach."""
    return input.detach()


def detach_(input):
    """As Tensor.detach_."""
    return input.detach_()


def get_device(input):
    """The number of the GPU the tensor is on; -1 for the CPU."""
    return input.get_device()


# Norms


def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """The root of the sum of squared absolute values over `dim`, one dimension or two."""
    dims = [dim] if isinstance(dim, builtins.int) else list(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: at most two dimensions, got {dim}")
    return _C.linalg.vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input, dim=None, keepdim=False, *, out=None):
    """The sum of the singular values of a matrix, or of those in the two dimensions `dim`."""
    if isinstance(dim, builtins.bool):
        dim, keepdim = None, dim
    from . import linalg

    if dim is None and input.dim() != 2:
        raise RuntimeError(f"nuclear_norm: a matrix, or two dimensions in dim, got shape {list(input.shape)}")
    return linalg.matrix_norm(input, "nuc", (0, 1) if dim is None else tuple(dim), keepdim, out=out)


def native_norm(input, p=2, dim=None, keepdim=False, dtype=None):
    """As norm over all elements, or over `dim`."""
    return _C.linalg.vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


def norm_except_dim(v, pow=2, dim=0):
    """The norm of order `pow` of each slice along `dim`, in a shape that broadcasts with `v`; over everything for -1."""
    if dim == -1:
        return _C.linalg.vector_norm(v, pow)
    return _C.linalg.vector_norm(v, pow, [d for d in builtins.range(v.dim()) if d != dim % v.dim()], True)


# Layers


def affine_grid_generator(theta, size, align_corners):
    """As nn.functional.affine_grid."""
    return _functional().affine_grid(theta, size, align_corners)


def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scales the rows of `input` named by `indices` down to a norm of `max_norm`, in place."""
    rows = indices.reshape(-1).unique()
    with _no_grad():
        chosen = input.detach()[rows]
        lengths = _C.linalg.vector_norm(chosen, norm_type, [1], True)
        factors = _C.where(lengths > max_norm, max_norm / (lengths + 1e-7), _C.ones_like(lengths))
        input.detach().index_copy_(0, rows, chosen * factors)
    return input


def _no_grad():
    from .autograd.grad_mode import no_grad

    return no_grad()


_SEGMENT_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SEGMENT_REDUCE = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduces consecutive runs along the last dimension of `lengths`.

    Args:
        data: floating, (*batch, n, ...), with `axis` the dimension that is cut into runs.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: how many elements each run has, (*batch, runs); or `offsets`, where they begin and end, (*batch, runs + 1).
        unsafe: leaves out the check that the lengths add up to n.
        initial: what each run starts from; also the result of an empty run (by default the neutral value, NaN for mean).
    """
    if reduce not in _SEGMENT_REDUCE:
        raise RuntimeError(f"segment_reduce: reduce is one of {', '.join(_SEGMENT_REDUCE)}, got {reduce!r}")
    if indices is not None:
        raise RuntimeError("segment_reduce: indices are not supported, give lengths or offsets, got indices")
    if (lengths is None) == (offsets is None):
        raise RuntimeError(f"segment_reduce: either lengths or offsets, got {'neither' if lengths is None else 'both'}")
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
    result = _C.full(shape, start, dtype=data.dtype).scatter_reduce(
        axis, index, data, _SEGMENT_REDUCE[reduce], include_self=True
    )
    result = result.narrow(axis, 0, runs)
    if reduce == "mean":
        sizes = counts.reshape(*counts.shape, *[1] * (data.dim() - axis - 1))
        empty = math.nan if initial is None else initial
        result = _C.where(sizes > 0, result / sizes.clamp(min=1), _C.full((), empty, dtype=data.dtype))
    return result


def _check_runs(data, counts, axis, offsets):
    if counts.numel() and counts.min().item() < 0:
        raise RuntimeError(f"segment_reduce: lengths must not be negative, got {counts.min().item()}")
    if offsets is None and not bool((counts.sum(-1) == data.shape[axis]).all()):
        raise RuntimeError(
            f"segment_reduce: the lengths must add up to {data.shape[axis]}, the size of dim {axis}, "
            f"got {counts.sum(-1).tolist()}"
        )


# Files


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """A 1-D tensor on the bytes of a file.

    Args:
        shared: True to write changes back to the file, which is made or grown as needed; else it is left as it is.
        size: number of elements.
    """
    dtype = dtype or _C.get_default_dtype()
    if size <= 0:
        raise RuntimeError(f"from_file: a positive number of elements, got size={size}")
    storage = _C.UntypedStorage.from_file(filename, builtins.bool(shared), size * dtype.itemsize)
    tensor = _C._tensor_from_storage(storage, dtype, 0, (size,), (1,))
    return tensor.requires_grad_(requires_grad)


# Control flow and numbers that a tracer would see


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) where `pred` (a bool, or a tensor of one element) holds, else false_fn(*operands)."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(f"cond: two callables, got {type(true_fn).__name__} and {type(false_fn).__name__}")
    return (true_fn if builtins.bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Repeats ``carried = body_fn(*carried)`` as long as cond_fn(*carried) holds; the last values, as a tuple."""
    carried = tuple(carried_inputs)
    while builtins.bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return carried


def sym_float(a):
    """float(a), or what `a` has in its place."""
    return a.__sym_float__() if hasattr(a, "__sym_float__") else builtins.float(a)


def sym_int(a):
    """`a` without its fraction."""
    return math.trunc(a)


def sym_max(a, b):
    """The larger number, as a float where one of them is a float."""
    return _extreme(max, a, b)


def sym_min(a, b):
    """The smaller number, as a float where one of them is a float."""
    return _extreme(min, a, b)


def _extreme(choose, a, b):
    return builtins.float(choose(a, b)) if isinstance(a, builtins.float) or isinstance(b, builtins.float) else choose(a, b)


def sym_not(a):
    """not a."""
    return operator.not_(a)


def sym_ite(b, t, f):
    """`t` if `b`, else `f`."""
    return t if b else f


def sym_sum(*args):
    """The sum of numbers, given one by one or as one sequence."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)


def sym_sqrt(a):
    """The square root of a number."""
    return math.sqrt(a)
