"""Approximate factorisations of low rank, `lu` in its old form, and norms under old names."""

from __future__ import annotations

from facula import _C


def lu(A, pivot=True, get_infos=False, out=None):
    """The LU factors in one matrix and the row exchanges; with `get_infos` also 0 or a zero pivot's place."""
    result = (_C.linalg.lu_factor_ex if get_infos else _C.linalg.lu_factor)(A, pivot=pivot)
    if out is None:
        return result
    if len(out) != len(result):
        raise TypeError(f"lu: out is a tuple of {len(result)} tensors, got {len(out)}")
    for target, value in zip(out, result, strict=True):
        target.resize_(value.shape).copy_(value)
    return tuple(out)


def _range_basis(A, q: int, niter: int, M):
    """Orthonormal columns that nearly span the range of A - M, by randomised subspace iteration (Halko et al. 2009)."""

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


def svd_lowrank(A, q=6, niter=2, M=None):
    """U, S, V of about the q largest singular values of A - M, by random projection with `niter` iterations."""
    q = 6 if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"svd_lowrank: q is from 0 to the smaller side of the matrix, {min(A.shape[-2:])}, got {q}")
    if M is not None:
        M = M.expand(A.shape)
    basis = _range_basis(A, q, niter, M)
    rest = A if M is None else A - M
    u, s, vh = _C.linalg.svd(basis.mH @ rest, full_matrices=False)
    return basis @ u, s, vh.mH


def pca_lowrank(A, q=None, center=True, niter=2):
    """U, S, V of about the q principal directions of rows of A, whose mean is subtracted when `center`."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q is from 0 to the smaller side of the matrix, {min(m, n)}, got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter is not negative, got {niter}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter=niter)



def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """The root of the sum of squared absolute values over `dim`, one dimension or two."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: at most two dimensions, got {dim}")
    return _C.linalg.vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input, dim=None, keepdim=False, *, out=None):
    """The sum of the singular values of a matrix, or of those in the two dimensions `dim`."""
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    from facula import linalg

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
    return _C.linalg.vector_norm(v, pow, [d for d in range(v.dim()) if d != dim % v.dim()], True)
