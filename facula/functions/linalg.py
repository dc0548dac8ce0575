"""Compute approximate factorizations of low rank, `lu` in its old form, and norms under old names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C
from facula._shared.dims import counted_dims

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import facula
    from facula import Tensor


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Tensor | None = None) -> Any:
    """Return the LU factors of matrices in one matrix, and the row exchanges: P L U = A.

    Args:
        A: (..., m, n), floating or complex.
        pivot: whether rows are exchanged; without, only on a GPU.
        get_infos: whether a third result tells for each matrix 0, or the place of the first pivot that is zero.
        out: a tuple of two tensors (three with get_infos) that the results are written to.

    Returns: a tuple: L below the diagonal and U above, (..., m, n); the exchanges counted from 1, int32, (..., min(m, n)).

    Errors: RuntimeError for a singular matrix without get_infos, and for pivot=False on the CPU; TypeError for an out of
    another number of tensors.

    >>> torch.lu(torch.tensor([[4., 2.], [2., 3.]]))
    (tensor([[4.0000, 2.0000],
            [0.5000, 2.0000]]), tensor([1, 2], dtype=torch.int32))
    """
    result = (_C.linalg.lu_factor_ex if get_infos else _C.linalg.lu_factor)(A, pivot=pivot)
    if out is None:
        return result if get_infos else tuple(result)
    if len(out) != len(result):
        raise TypeError(f"lu: out is a tuple of {len(result)} tensors, got {len(out)}")
    for target, value in zip(out, result, strict=True):
        target.resize_(value.shape).copy_(value)
    return tuple(out)


def _range_basis(A, q: int, niter: int, M):
    """Return orthonormal columns that nearly span the range of A - M, by randomized subspace iteration (Halko et al. 2009)."""

    def times(x):
        return A @ x if M is None else A @ x - M @ x

    def adjoint_times(x):
        return A.mH @ x if M is None else A.mH @ x - M.mH @ x

    start = _C.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = _C.linalg.qr(times(start)).Q
    for _ in range(niter):
        basis = _C.linalg.qr(adjoint_times(basis)).Q
        basis = _C.linalg.qr(times(basis)).Q
    return basis


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V of about the q largest singular values of A - M: A - M is near U diag(S) V^H.

    Found by random projection (Halko et al. 2009).

    Args:
        A: (..., m, n), floating or complex.
        q: how many, at most the smaller side; a little more than are wanted makes them more exact.
        niter: how often the subspace is improved.
        M: what is subtracted, of a shape that expands to A's; None for nothing.

    Returns: U (..., m, q), S (..., q) in descending order and V (..., n, q).

    Errors: ValueError for a q outside.

    >>> A = torch.outer(torch.tensor([3., 4.]), torch.tensor([1., 0., 0.]))
    >>> U, S, V = torch.svd_lowrank(A, q=1)
    >>> S
    tensor([5.])
    """
    q = 6 if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"svd_lowrank: q is from 0 to the smaller side of the matrix, {min(A.shape[-2:])}, got {q}")
    if M is not None:
        M = M.expand(A.shape)
    basis = _range_basis(A, q, niter, M)
    rest = A if M is None else A - M
    u, s, vh = _C.linalg.svd(basis.mH @ rest, full_matrices=False)
    return basis @ u, s, vh.mH


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V of about the q principal directions of the rows of A: the columns of V, found by random projection.

    Args:
        A: (..., m, n), m samples of n numbers each.
        q: how many directions, at most the smaller side; None for that, but at most 6.
        center: whether the mean of the rows is subtracted first.
        niter: how often the subspace is improved.

    Returns: U (..., m, q), S (..., q), the singular values in descending order, and V (..., n, q).

    Errors: ValueError for a q outside and a negative niter.

    >>> A = torch.tensor([[1., 1.], [2., 2.], [3., 3.]])
    >>> U, S, V = torch.pca_lowrank(A, q=1)
    >>> S
    tensor([2.])
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q is from 0 to the smaller side of the matrix, {min(m, n)}, got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter is not negative, got {niter}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter=niter)



def frobenius_norm(input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the root of the sum of squared absolute values over one dimension or two.

    Args:
        input: a floating or complex tensor.
        dim: a dimension or two; an empty list for all.
        keepdim: whether dimensions that are reduced stay, with size 1.
        out: the tensor that the result is written to.

    Returns: a tensor of the shape of input without the dimensions in dim, which stay with size 1 where keepdim is True.

    Errors: RuntimeError for more than two dimensions; TypeError for a dim that is neither an int nor a list of ints.

    >>> torch.frobenius_norm(torch.tensor([[3., 4.], [0., 0.]]), dim=(0, 1))
    tensor(5.)
    """
    if not isinstance(dim, (int, list, tuple)):
        raise TypeError(f"frobenius_norm: dim is an int or a list of ints, got {type(dim).__name__}")
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: expected at most two dimensions, got {dim}")
    return _C.linalg.vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *,
                 out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the sum of the singular values of a matrix, or of those in two dimensions.

    Args:
        input: a matrix, or a floating or complex tensor that has `dim`.
        dim: the two dimensions of the matrices; None for those of a matrix.
        keepdim: whether dimensions that are reduced stay, with size 1.
        out: the tensor that the result is written to.

    Errors: RuntimeError for more than two dimensions without dim.

    >>> torch.nuclear_norm(torch.diag(torch.tensor([3., 4.])))
    tensor(7.)
    """
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    from facula import linalg

    if dim is None and input.dim() != 2:
        raise RuntimeError(f"nuclear_norm: a matrix, or two dimensions in dim, got shape {tuple(input.shape)}")
    return linalg.matrix_norm(input, "nuc", (0, 1) if dim is None else tuple(dim), keepdim, out=out)


def native_norm(input: Tensor, p: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False,
                dtype: facula.dtype | None = None) -> Tensor:  # fmt: skip
    """Return the vector norm over all elements, or over `dim`: sum(abs(x) ** p) ** (1 / p).

    Args:
        input: a floating or complex tensor.
        p: the order; None for 2.
        dim: a dimension or several; None for all.
        keepdim: whether dimensions that are reduced stay, with size 1.
        dtype: in which the norm is computed; None for that of input.

    >>> torch.native_norm(torch.tensor([3., 4.]))
    tensor(5.)
    """
    return _C.linalg.vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norm of each slice along `dim`, in a shape that broadcasts with `v`: what weight normalization divides by.

    Args:
        v: a floating tensor.
        pow: the order of the norm.
        dim: the dimension that stays; -1 for the norm of everything.

    Errors: IndexError for a dim outside.

    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [6., 8.]]), 2, 0)
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return _C.linalg.vector_norm(v, pow)
    (kept,) = counted_dims("norm_except_dim", [dim], v.dim())
    return _C.linalg.vector_norm(v, pow, [d for d in range(v.dim()) if d != kept], True)
