"""Define linear algebra with the Array API's arguments (version 2024.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import linalg as _linalg
from facula.functions.array_api import matrix_transpose, vecdot
from facula.linalg import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    matrix_power,
    qr,
    slogdet,
    svdvals,
    vector_norm,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip


def _promoted(x1, x2):
    dtype = facula.promote_types(x1.dtype, x2.dtype)
    return x1.to(dtype), x2.to(dtype)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the vector products along an axis; the other dimensions broadcast, and dtypes promote.

    Args:
        x1: the first vectors.
        x2: the second vectors.
        axis: the dimension, of size 3.

    Errors: RuntimeError for another size and shapes that do not broadcast.

    >>> torch.array_api.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0, 1, 0]))
    tensor([0., 0., 1.])
    """
    return _linalg.cross(*facula.broadcast_tensors(*_promoted(x1, x2)), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices, as a view.

    Args:
        x: matrices (..., n, m).
        offset: which diagonal; a positive one lies above the main one.

    Errors: IndexError for vectors.

    >>> torch.array_api.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return facula.diagonal(x, offset, -2, -1)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the matrix products; dtypes promote, which torch.matmul refuses.

    Args:
        x1: the left operand, (m) or (..., n, m).
        x2: the right operand, (m) or (..., m, p).

    Errors: RuntimeError for shapes that do not fit.

    >>> torch.array_api.linalg.matmul(torch.tensor([[1, 2]]), torch.tensor([[0.5], [0.5]]))
    tensor([[1.5000]])
    """
    return _linalg.matmul(*_promoted(x1, x2))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """Return the norm of each matrix.

    Args:
        x: matrices (..., n, m), floating or complex.
        keepdims: whether the two dimensions stay, with size 1.
        ord: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Errors: RuntimeError for another ord and for vectors.

    >>> torch.array_api.linalg.matrix_norm(torch.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)
    """
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Tensor | float | None = None) -> Tensor:
    """Return how many singular values of each matrix exceed a tolerance.

    Args:
        x: matrices (..., n, m), floating or complex.
        rtol: the tolerance relative to the largest one; None for the dtype's epsilon times the larger of n and m.

    Errors: RuntimeError for vectors.

    >>> torch.array_api.linalg.matrix_rank(torch.tensor([[1., 2.], [2., 4.]]))
    tensor(1)
    """
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the products of all pairs of elements of two vectors.

    Args:
        x1: the vector that counts the rows.
        x2: the vector that counts the columns.

    Errors: RuntimeError for tensors that are not vectors.

    >>> torch.array_api.linalg.outer(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """
    return facula.outer(x1, x2)


def pinv(x: Tensor, /, *, rtol: Tensor | float | None = None) -> Tensor:
    """Return the pseudo-inverse of each matrix.

    Args:
        x: matrices (..., n, m), floating or complex.
        rtol: singular values up to rtol times the largest count as zero; None for the dtype's epsilon times the larger of
            n and m.

    Errors: RuntimeError for vectors.

    >>> torch.array_api.linalg.pinv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return _linalg.pinv(x, rtol=rtol)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the x of ``x1 @ x = x2``; dtypes promote.

    Args:
        x1: matrices (..., n, n).
        x2: the right sides, (..., n, k), or a vector (n).

    Errors: LinAlgError for a singular matrix, RuntimeError for shapes that do not fit.

    >>> torch.array_api.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 2.]))
    tensor([1.0000, 0.5000])
    """
    return _linalg.solve(*_promoted(x1, x2))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Return the singular value decomposition of each matrix, ``x = U @ diag(S) @ Vh``.

    Args:
        x: matrices (..., n, m), floating or complex.
        full_matrices: whether U and Vh are square; False leaves as many columns and rows as the smaller of n and m.

    Errors: RuntimeError for vectors.

    >>> torch.array_api.linalg.svd(torch.tensor([[3., 0.], [0., 2.]])).S
    tensor([3., 2.])
    """
    return _linalg.svd(x, full_matrices)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """Return the sums of products over dimensions of two tensors; dtypes promote.

    Args:
        x1: the first tensor.
        x2: the second tensor.
        axes: how many dimensions, the last of x1 and the first of x2; or a pair of sequences, the dimensions of each.

    Errors: RuntimeError for sizes that do not fit.

    >>> torch.array_api.linalg.tensordot(torch.ones(2, 3), torch.ones(3), axes=1)
    tensor([3., 3.])
    """
    return facula.tensordot(*_promoted(x1, x2), dims=axes)


def trace(x: Tensor, /, *, offset: int = 0, dtype: facula.dtype | None = None) -> Tensor:
    """Return the sum of each matrix's diagonal.

    Args:
        x: matrices (..., n, m).
        offset: which diagonal; a positive one lies above the main one.
        dtype: that of the sum; None for x's, of integers int64 or uint64.

    Errors: IndexError for vectors.

    >>> torch.array_api.linalg.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if dtype is None and x.dtype in (facula.uint8, facula.uint16, facula.uint32, facula.uint64):
        dtype = facula.uint64
    return facula.sum(diagonal(x, offset=offset), -1, dtype=dtype)
