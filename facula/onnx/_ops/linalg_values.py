"""Translate exponentials, singular values and what is computed with them."""

import math

import numpy as np

from .._graph import Value
from ..errors import UnsupportedOperatorError
from ._table import op
from .elementwise import floating
from .linalg import as_column, identity, known_as, linalg_qr, line
from .reduce import linalg_vector_norm, summed


@op("linalg_matrix_exp matrix_exp")
def matrix_exp(g, a):
    """Compute Taylor's series of a small part of the matrix, squared as often as it takes."""
    dtype = g.dtype
    a = g.cast(a, "float64")
    n = g.size(a, -1)
    if 0 in a.shape:
        return g.cast(a, dtype)
    largest = g.reduce("Max", summed(g, g.Abs(a), -1))
    # The sums of the rows become 1/2 at most, for which twelve terms leave an error of about 2e-14.
    times = g.Max(g.Ceil(g.Log(g.Max(largest, 1e-30)) * (1 / math.log(2)) + 1.0), 0.0)
    small = a / g.Pow(g.constant(2.0, a.dtype), times)
    small.shape = a.shape
    eye = identity(g, a, n)
    made = eye
    for i in range(12, 0, -1):
        made = eye + g.MatMul(small, made) / float(i)
    squared = lambda g, i, x: [known_as(g.MatMul(x, x), x.shape)]
    return g.cast(g.loop(_size(g, times), [known_as(made, a.shape)], squared)[0], dtype)


def _size(g, value):
    return g.reshape(g.cast(value, "int64"), [1])


# Jacobi's method converges quadratically, in fewer sweeps for matrices of this size; the loop has no early end.
LARGEST, SWEEPS = 64, 12


def rotated(g, a):
    """Run Jacobi's method from one side: matrices with orthogonal columns, and the rotations: a @ v. Columns are at most
    rows."""
    n = a.shape[-1]
    if not isinstance(n, int) or n > LARGEST:
        raise UnsupportedOperatorError(f"onnx.export: singular values need a size of at most {LARGEST}, got {n}")
    v = identity(g, a, n)
    pairs = np.stack(np.triu_indices(n, 1))
    many = pairs.shape[1]
    if not many or 0 in a.shape:
        return a, v

    def step(g, i, w, v):
        at = g.take(g.constant(pairs), g.Mod(i, many), 1)
        p, q = g.take(at, 0, 0), g.take(at, 1, 0)
        x, y = g.take(w, p, -1), g.take(w, q, -1)
        dot = lambda a, b: summed(g, a * b, -1, True)
        across = dot(x, y)
        flat = g.Equal(across, 0.0)
        zeta = (dot(y, y) - dot(x, x)) / (g.where(flat, 1.0, across) * 2.0)
        # The smaller root of t^2 + 2 zeta t - 1 = 0: the smaller rotation is the one that converges.
        t = g.where(g.Less(zeta, 0.0), -1.0, g.constant(1.0, w.dtype)) / (g.Abs(zeta) + g.Sqrt(zeta * zeta + 1.0))
        t = g.where(flat, 0.0, t)
        c = g.Reciprocal(g.Sqrt(t * t + 1.0))
        return [_turned(g, value, p, q, c, c * t, n) for value in (w, v)]

    return g.loop(many * SWEEPS, [a, v], step)


def _turned(g, value, p, q, c, s, n):
    """Return the columns p and q of matrices turned."""
    columns = line(g, value, n, -1)
    x, y = g.take(value, p, -1), g.take(value, q, -1)
    first, second = as_column(g, c * x - s * y), as_column(g, s * x + c * y)
    return known_as(g.Where(g.Equal(columns, p), first, g.Where(g.Equal(columns, q), second, value)), value.shape)


def _tall(g, a):
    """Return the matrices with no more columns than rows, and whether they were turned for that."""
    m, n = a.shape[-2:]
    if not isinstance(m, int) or not isinstance(n, int):
        raise UnsupportedOperatorError("onnx.export: singular values of matrices whose size varies have no translation to ONNX")
    return (g.transpose(a, -1, -2), True) if m < n else (a, False)


def singular_values(g, a):
    w, _ = rotated(g, _tall(g, floating(g, a))[0])
    values = g.Sqrt(summed(g, w * w, -2))
    n = values.shape[-1]
    if not n:
        return values
    return known_as(g.TopK(values, g.sizes([n]), axis=-1, outputs=2)[0], values.shape)


def decomposed(g, a, full=False):
    """Return U, the singular values in descending order, and V; the signs of columns are those of the rotations.

    `full`: U of the more rows than columns has as many columns as rows.
    """
    a, turned = _tall(g, floating(g, a))
    w, v = rotated(g, a)
    m, n = a.shape[-2:]
    values = g.Sqrt(summed(g, w * w, -2))
    if 0 in a.shape:
        a = g.expand(g.constant(np.eye(m), a.dtype), [*g.shape_of(a)[:-2], m, m]) if full else a
        return (v, values, a) if turned else (a, values, v)
    values, order = g.TopK(values, g.sizes([n]), axis=-1, outputs=2)
    values.shape = order.shape = a.shape[:-2] + (n,)
    safe = g.where(g.Equal(values, 0.0), 1.0, values)
    # QR completes the columns of singular values that are zero to an orthonormal basis; its signs are undone below.
    u, r = linalg_qr(g, _picked(g, w, order) / g.unsqueeze(safe, values.rank - 1), "complete" if full else "reduced")
    signs = summed(g, (g.cut(r, -2, 0, n) if full else r) * g.constant(np.eye(n), a.dtype), -2)
    signs = g.where(g.Less(signs, 0.0), -1.0, g.constant(1.0, a.dtype))
    v = _picked(g, v, order) * g.unsqueeze(signs, values.rank - 1)
    return (v, values, u) if turned else (u, values, v)


def _picked(g, matrices, order):
    """Return the columns of matrices in other places."""
    places = g.expand(g.unsqueeze(order, order.rank - 1), g.shape_of(matrices))
    return known_as(g.GatherElements(matrices, places, axis=-1), matrices.shape)


@op("linalg_svd")
def linalg_svd(g, a, full_matrices=True, driver=None):
    u, values, v = decomposed(g, a, full_matrices)
    return u, values, g.transpose(v, -1, -2)


@op("svd")
def svd(g, a, some=True, compute_uv=True):
    if not compute_uv:
        raise UnsupportedOperatorError("onnx.export: svd without vectors has no translation to ONNX: use linalg.svdvals")
    return decomposed(g, a, not some)


@op("linalg_svdvals")
def svdvals(g, a, driver=None):
    return singular_values(g, a)


def _bound(g, a, largest, atol, rtol):
    """Return the bound of singular values: the singular values that count are larger than max(atol, rtol * the largest):
    numbers, tensors or None."""
    if rtol is None and atol is None:
        epsilon = 2.220446049250313e-16 if a.dtype == "float64" else 1.1920928955078125e-07
        rtol = max(a.shape[-2:]) * epsilon
    line = lambda v: g.unsqueeze(v, v.rank) if isinstance(v, Value) and v.rank else v
    relative = largest * line(0.0 if rtol is None else rtol)
    return relative if atol is None else g.Max(relative, line(atol))


def inverted(g, a, atol, rtol):
    """Return the pseudoinverse; singular values below the bound are taken as zeros."""
    source, (a, turned) = a, _tall(g, floating(g, a))
    if 0 in a.shape:
        return a if turned else g.transpose(a, -1, -2)
    w, v = rotated(g, a)
    squares = summed(g, w * w, -2, True)
    sizes = g.Sqrt(squares)
    largest = g.squeeze(g.reduce("Max", sizes, -1, True), -2)
    small = g.LessOrEqual(sizes, g.unsqueeze(_bound(g, source, largest, atol, rtol), largest.rank - 1))
    part = g.where(small, 0.0, v / g.where(small, 1.0, squares))
    made = g.MatMul(part, g.transpose(w, -1, -2))
    return g.transpose(made, -1, -2) if turned else made


@op("pinverse linalg_pinv")
def pinverse(g, a, rcond=1e-15, hermitian=False):
    return inverted(g, _mirrored(g, a, hermitian), None, rcond)


@op("linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor")
def linalg_pinv(g, a, atol=None, rtol=None, hermitian=False):
    return inverted(g, _mirrored(g, a, hermitian), atol, rtol)


def _mirrored(g, a, hermitian):
    """Mirror the lower triangle: of symmetric matrices only that counts."""
    if not hermitian:
        return a
    upper = g.transpose(known_as(g.Trilu(a, g.constant(-1), upper=0), a.shape), -1, -2)
    return known_as(g.Trilu(a, upper=0) + upper, a.shape)


@op("linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.default")
def linalg_matrix_rank(g, a, *tol, atol=None, rtol=None, hermitian=False):
    if tol:
        atol = tol[0]
    values = singular_values(g, _mirrored(g, a, hermitian))
    if not values.shape[-1]:
        return summed(g, g.cast(values, "int64"), -1)
    bound = _bound(g, a, g.reduce("Max", values, -1, True), atol, rtol)
    return summed(g, g.cast(g.Greater(values, bound), "int64"), -1)


@op("norm")
def norm(g, self, p=2, dim=None, keepdim=False, dtype=None):
    if p == "nuc":
        return linalg_matrix_norm(g, self, p, (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str):
        p = 2
    return linalg_vector_norm(g, self, 2 if p is None else p, dim, keepdim)


@op("linalg_norm")
def linalg_norm(g, self, ord=None, dim=None, keepdim=False, dtype=None):
    if ord is None or dim is None or isinstance(dim, int) or len(dim) == 1:
        if not isinstance(ord, str) and (ord is None or self.rank == 1 or dim is not None):
            return linalg_vector_norm(g, self, 2 if ord is None else ord, dim, keepdim)
    return linalg_matrix_norm(g, self, "fro" if ord is None else ord, (-2, -1) if dim is None else dim, keepdim)


@op("linalg_matrix_norm")
def linalg_matrix_norm(g, self, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    self = floating(g, self)
    if ord == "fro":
        return g.reduce("L2", self, dim, keepdim)
    rows, columns = (d % self.rank for d in dim)
    if ord in (1, -1, math.inf, -math.inf):
        along, across = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = summed(g, g.Abs(self), along, True)
        result = g.reduce("Max" if ord > 0 else "Min", sums, across, True)
        return result if keepdim else g.squeeze(result, *sorted((rows, columns)))
    matrices = g.permute(self, [*(d for d in range(self.rank) if d not in (rows, columns)), rows, columns])
    values = singular_values(g, matrices)
    made = summed(g, values, -1) if ord == "nuc" else g.reduce("Max" if ord > 0 else "Min", values, -1)
    return g.unsqueeze(made, *sorted((rows, columns))) if keepdim else made
