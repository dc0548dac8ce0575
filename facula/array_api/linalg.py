"""Linear algebra with the Array API's arguments (version 2024.12)."""

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
    """The vector products along `axis`, of size 3; the other dimensions broadcast, and dtypes promote."""
    return _linalg.cross(*facula.broadcast_tensors(*_promoted(x1, x2)), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, above the main one for a positive offset."""
    return facula.diagonal(x, offset, -2, -1)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix products; dtypes promote."""
    return _linalg.matmul(*_promoted(x1, x2))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """The norm of each matrix."""
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Tensor | float | None = None) -> Tensor:
    """How many singular values of each matrix exceed rtol times the largest."""
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    return facula.outer(x1, x2)


def pinv(x: Tensor, /, *, rtol: Tensor | float | None = None) -> Tensor:
    """The pseudo-inverse of each matrix; singular values up to rtol times the largest count as zero."""
    return _linalg.pinv(x, rtol=rtol)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x of x1 @ x = x2; dtypes promote."""
    return _linalg.solve(*_promoted(x1, x2))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """The singular value decomposition of each matrix: U, S and Vh."""
    return _linalg.svd(x, full_matrices)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """The sums of products over `axes`: a count, or a pair of sequences."""
    return facula.tensordot(*_promoted(x1, x2), dims=axes)


def trace(x: Tensor, /, *, offset: int = 0, dtype: facula.dtype | None = None) -> Tensor:
    """The sum of each matrix's diagonal."""
    if dtype is None and x.dtype in (facula.uint8, facula.uint16, facula.uint32, facula.uint64):
        dtype = facula.uint64
    return facula.sum(diagonal(x, offset=offset), -1, dtype=dtype)
