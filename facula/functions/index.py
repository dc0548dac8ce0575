"""Define indexing functions with an option that the op does not have, and `embedding_renorm_`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C
from facula.autograd.grad_mode import no_grad

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Tensor | Any:
    """Return the positions of the elements of `input` that are not zero, in the order of the elements.

    Args:
        input: a tensor of any shape and dtype.
        out: the tensor that the result is written to; not with as_tuple.
        as_tuple: whether the result is a tuple of one tensor of shape (count) per dimension, which is what indexing takes:
            ``x[x.nonzero(as_tuple=True)]``. A 0-d tensor counts as one of a single element then.

    Returns: an int64 tensor of shape (count, input.dim()), or the tuple.

    Errors: RuntimeError for out together with as_tuple.

    >>> torch.nonzero(torch.tensor([[0, 5], [7, 0]]))
    tensor([[0, 1],
            [1, 0]])
    >>> torch.nonzero(torch.tensor([0, 5, 7]), as_tuple=True)
    (tensor([1, 2]),)
    """
    if not as_tuple:
        return _C.nonzero(input) if out is None else _C.nonzero(input, out=out)
    if out is not None:
        raise RuntimeError(f"nonzero: out= goes with as_tuple=False only, got out of type {type(out).__name__}")
    return _C.nonzero(input if input.dim() else input.unsqueeze(0)).unbind(1)


_C._install_methods({"nonzero": nonzero})


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of `input` that `indices` names down to a norm of at most `max_norm`, in place.

    Args:
        input: a floating matrix, which is written and returned.
        indices: integers, of any shape.
        max_norm: the largest norm; shorter rows stay.
        norm_type: the order of the norm.

    Returns: input.

    >>> torch.embedding_renorm_(torch.tensor([[3., 4.], [30., 40.]]), torch.tensor([0]), 1.0, 2.0)
    tensor([[ 0.6000,  0.8000],
            [30.0000, 40.0000]])
    """
    if _C._recording():
        arguments = (input, indices, float(max_norm), float(norm_type))
        return _C._record_op("embedding_renorm_.default", arguments, lambda: _renorm_(*arguments), ())
    return _renorm_(input, indices, max_norm, norm_type)


def _renorm_(input, indices, max_norm, norm_type):
    with no_grad():
        rows = indices.reshape(-1).unique().long()
        values = input.index_select(0, rows)
        # in float64, where the small number is not lost beside a norm above 1: the new norm, rounded, is not above max_norm
        wide = _C.complex128 if values.is_complex() else _C.float64
        norms = _C.linalg.vector_norm(values, norm_type, [1], True, dtype=wide)
        scaled = (values * (max_norm / (norms + 1e-7))).to(values.dtype)
        input.index_copy_(0, rows, _C.where(norms.to(values.dtype).real > max_norm, scaled, values))
    return input
