"""Compute products whose arguments have several forms in Python: `einsum`, `tensordot`, `chain_matmul`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(labels) -> str:
    """Return the letters of one subscript list, in which an Ellipsis stands for dots."""
    term = ""
    for label in labels:
        if label is Ellipsis:
            term += "..."
        elif isinstance(label, int) and 0 <= label < len(_LETTERS):
            term += _LETTERS[label]
        else:
            raise ValueError(
                f"einsum: subscripts are integers from 0 to {len(_LETTERS) - 1} or an Ellipsis, got {label!r}"
            )
    return term


def einsum(*args: Any) -> Tensor:
    """Return the sum over indices that an equation states: `einsum('ij,jk->ik', a, b)`.

    Every letter names a dimension of the operands, the same letter the same size. Letters behind the arrow are the dimensions
    of the result, in that order; the products are summed over the others. Without an arrow the result has the letters that
    occur once, in alphabetical order. Dots ``...`` stand for any further dimensions, which broadcast. A letter that an operand
    has twice takes its diagonal. Operands are contracted from left to right.

    Args:
        args: the equation and the operands, which may also be one sequence; or each operand followed by a list of integers from
            0 to 51 (or an Ellipsis) in place of letters, and at the end, if wanted, the list of the result.

    Errors: ValueError for a call without operands and for other subscripts; RuntimeError for an equation that the operands'
    shapes do not fit.

    >>> a, b = torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[1., 0.], [1., 1.]])
    >>> torch.einsum("ij,jk->ik", a, b)
    tensor([[3., 2.],
            [7., 4.]])
    >>> torch.einsum("ii->i", a), torch.einsum(a, [0, 1], [1, 0])
    (tensor([1., 4.]), tensor([[1., 3.],
            [2., 4.]]))
    """
    if len(args) < 2:
        raise ValueError(
            f"einsum: an equation and operands, or operands with their subscripts, got {len(args)} arguments"
        )
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    else:
        operands = args[0:-1:2] if len(args) % 2 else args[0::2]
        equation = ",".join(_term(labels) for labels in args[1::2])
        if len(args) % 2:
            equation += "->" + _term(args[-1])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _C._ops._einsum(equation, list(operands))


def _dimension_lists(dims, a, b):
    if isinstance(dims, _C.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot: dims is at least 0 and at most the number of dimensions, got {dims}")
        return list(range(a.dim() - dims, a.dim())), list(range(dims))
    if not isinstance(dims, (list, tuple)) or len(dims) != 2:
        raise RuntimeError(f"tensordot: dims is a number or a pair of lists, got {dims!r}")
    first, second = dims
    return ([first] if isinstance(first, int) else list(first)), ([second] if isinstance(second, int) else list(second))


def tensordot(a: Any, b: Any, dims: Any = 2, out: Tensor | None = None) -> Any:
    """Return the sum of products over dimensions of two tensors; the result has the other ones, first those of `a`, then those
    of `b`.

    Args:
        a, b: the tensors; the dimensions that are summed over are of equal size in both.
        dims: how many dimensions, the last of `a` and the first of `b`; or a pair of lists, the dimensions of each.
        out: the tensor that the result is written to; it is resized if need be.

    Errors: RuntimeError for sizes that differ, for lists of different lengths, and for more dimensions than there are.

    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5), dims=2).shape
    torch.Size([2, 5])
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(5, 2), dims=([0], [1])).shape
    torch.Size([3, 5])
    """
    dims_a, dims_b = _dimension_lists(dims, a, b)
    return _C._ops._tensordot(a, b, dims_a, dims_b, out=out)


def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Any:
    """Return the product of matrices, in the order of multiplications that is the cheapest.

    Args:
        matrices: matrices whose sizes fit one another, one by one or as one sequence.
        out: the tensor that the result is written to; it is resized if need be.

    Errors: RuntimeError where the sizes do not fit.

    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = tuple(matrices[0])
    if len(matrices) == 1:
        return matrices[0] if out is None else _C.cat([matrices[0]], out=out)
    return _C.linalg.multi_dot(list(matrices), out=out)
