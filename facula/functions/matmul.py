"""Products whose arguments come in several Python forms: `einsum`, `tensordot`, `chain_matmul`."""

from __future__ import annotations

from facula import _C

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(labels) -> str:
    """The letters of one subscript list, in which an Ellipsis stands for dots."""
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


def einsum(*args):
    """The sum over indices that an equation states: `einsum('ij,jk->ik', a, b)`.

    Subscripts may also be lists, `einsum(a, [0, 1], b, [1, 2], [0, 2])`. Operands may be one sequence. They are
    contracted from left to right.
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
    first, second = dims
    return ([first] if isinstance(first, int) else list(first)), ([second] if isinstance(second, int) else list(second))


def tensordot(a, b, dims=2, out=None):
    """The sum of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists."""
    dims_a, dims_b = _dimension_lists(dims, a, b)
    return _C._ops._tensordot(a, b, dims_a, dims_b, out=out)


def chain_matmul(*matrices, out=None):
    """The product of matrices in the cheapest order, as `linalg.multi_dot`."""
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = tuple(matrices[0])
    if len(matrices) == 1:
        return matrices[0]
    return _C.linalg.multi_dot(list(matrices), out=out)
