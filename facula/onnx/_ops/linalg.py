"""Translate factorizations and what is computed with them. ONNX has none, so they are loops over the columns of
(batches of) matrices.
"""

import numpy as np

from ._table import op
from .elementwise import floating
from .reduce import summed


def line(g, value, length, dim):
    """Return the numbers 0 to length - 1 along a dimension of matrices."""
    count = g.constant(np.arange(length)) if isinstance(length, int) else g.Range(0, g.scalar(length), 1)
    count.shape = (length if isinstance(length, int) else None,)
    return g.reshape(count, [-1, 1]) if dim == -2 else count


def _sizes(g, value):
    return g.size(value, -2), g.size(value, -1)


def _least(g, a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else g.Min(g.sizes([a]), g.sizes([b]))


def known_as(value, shape):
    value.shape = tuple(shape)
    return value


def identity(g, like, n):
    """Return identity matrices with the batch of others; n is their number of rows."""
    rows, columns = line(g, like, n, -2), line(g, like, n, -1)
    eye = g.cast(g.Equal(rows, columns), like.dtype)
    return g.expand(eye, [*g.shape_of(like)[:-2], n, n])


def _rows_picked(g, value, places):
    """Return the rows of matrices: `value[..., places, :]`, with places of each matrix."""
    index = g.expand(g.unsqueeze(places, places.rank), g.shape_of(value))
    return known_as(g.GatherElements(value, index, axis=-2), value.shape)


def _swapped(g, k, p, rows):
    """Return where the rows come from when k and p (of each matrix) change places; k is of all, p has a last dimension of
    one."""
    others = g.Where(g.Equal(rows, p), g.unsqueeze(k, 0), rows)
    return g.Where(g.Equal(rows, k), p, others)


def factored(g, a, pivot=True):
    """Return L and U in one, LAPACK's pivots counted from 1, and where each row comes from."""
    m, n = _sizes(g, a)
    steps = _least(g, m, n)
    batch = g.shape_of(a)[:-2]
    pivots = g.expand(line(g, a, steps, -1) + 1, [*batch, steps])
    order = g.expand(line(g, a, m, -1), [*batch, m])
    if steps == 0:
        return a, pivots, order

    def step(g, k, a, pivots, order):
        rows, columns = line(g, a, m, -1), line(g, a, n, -1)
        if pivot:
            column = g.Abs(g.take(a, k, -1))
            # Rows above k are done: -1 is less than any absolute value.
            best = g.ArgMax(g.where(g.Less(rows, k), -1.0, column), axis=-1, keepdims=1)
            best.shape = (*column.shape[:-1], 1)
            places = known_as(_swapped(g, k, best, rows), column.shape)
            a, order = _rows_picked(g, a, places), known_as(g.GatherElements(order, places, axis=-1), order.shape)
            pivots = g.Where(g.Equal(line(g, a, steps, -1), k), best + 1, pivots)
        column, row = g.take(a, k, -1), g.take(a, k, -2)
        corner = g.unsqueeze(g.take(row, k, -1), row.rank - 1)
        # With a pivot of zero all elements below it are zeros, too, and need no factor.
        corner = g.where(g.Equal(corner, 0.0), 1.0, corner)
        factors = g.unsqueeze(g.where(g.Greater(rows, k), column / corner, 0.0), column.rank)
        rest = g.where(g.Greater(columns, k), g.unsqueeze(row, row.rank - 1), 0.0)
        below = g.And(g.Greater(line(g, a, m, -2), k), g.Equal(columns, k))
        return g.Where(below, factors, a - factors * rest), pivots, order

    return g.loop(steps, [a, pivots, order], step)


def _masked(g, value, upper, strict=0):
    """Return the triangle of matrices."""
    return g.Trilu(value, g.constant((1 if upper else -1) * strict), upper=int(upper))


def solved(g, a, b, upper, unit=False):
    """Return x with a @ x = b for triangles; what lies in the other triangle is not looked at."""
    n, product = g.size(a, -1), g.MatMul(a, b)
    shape = g.Shape(product)
    x = known_as(g.Expand(g.constant(0.0, a.dtype), shape), product.shape)
    a = known_as(_masked(g, a, upper), a.shape)
    b = known_as(g.Expand(b, shape), product.shape)

    def step(g, i, x):
        j = g.scalar(g.sizes([n])) - 1 - i if upper else i
        row = g.take(a, j, -2)
        # x is zero where it is not solved yet, so that the whole row can be multiplied.
        rest = g.take(b, j, -2) - g.squeeze(g.MatMul(g.unsqueeze(row, row.rank - 1), x), -2)
        rest = rest if unit else rest / g.unsqueeze(g.take(row, j, -1), row.rank - 1)
        return [known_as(g.Where(g.Equal(line(g, x, n, -2), j), g.unsqueeze(rest, rest.rank - 1), x), x.shape)]

    return x if n == 0 else g.loop(n, [x], step)[0]


def _general(g, a, b, left=True):
    """Return x with a @ x = b (or x @ a = b)."""
    if not left:
        return g.transpose(_general(g, g.transpose(a, -1, -2), g.transpose(b, -1, -2)), -1, -2)
    lu, _, order = factored(g, a)
    return _from_factors(g, lu, order, b)


def _from_factors(g, lu, order, b, adjoint=False):
    shape = g.MatMul(lu, b).shape
    b = known_as(g.Expand(b, g.Shape(g.MatMul(lu, b))), shape)
    if adjoint:
        turned = g.transpose(lu, -1, -2)
        x = solved(g, turned, b, False)
        lower = g.transpose(_with_ones(g, lu), -1, -2)
        x = solved(g, lower, x, True)
        return _rows_picked(g, x, _inverse_order(g, order))
    return solved(g, lu, solved(g, lu, _rows_picked(g, b, order), False, True), True)


def _with_ones(g, lu):
    n = g.size(lu, -1)
    return known_as(_masked(g, lu, False, 1), lu.shape) + identity(g, lu, n)


def _inverse_order(g, order):
    length = order.shape[-1]
    # The places that sort a permutation are its inverse.
    return known_as(g.TopK(order, g.sizes([length]), axis=-1, largest=0, outputs=2)[1], order.shape)


@op("linalg_lu_factor_ex linalg_lu_factor")
def lu_factor(g, a, pivot=True, check_errors=False):
    results = len(g.results)
    lu, pivots, _ = factored(g, floating(g, a), pivot)
    info = g.expand(g.constant(0, "int32"), g.shape_of(a)[:-2]) if a.rank > 2 else g.constant(0, "int32")
    return (lu, g.cast(pivots, "int32"), info)[: results or 3]


def _permutations(g, order, dtype):
    """Return the matrices with P[order[i], i] = 1."""
    n = g.size(order, -1)
    rows = line(g, order, n, -2)
    return g.cast(g.Equal(g.unsqueeze(order, order.rank - 1), rows), dtype)


def _parts(g, lu):
    m, n = _sizes(g, lu)
    k = _least(g, m, n)
    upper = known_as(_masked(g, g.cut(lu, -2, 0, k), True), (*lu.shape[:-2], k, n))
    lower = known_as(_masked(g, g.cut(lu, -1, 0, k), False, 1), (*lu.shape[:-2], m, k))
    ones = g.cast(g.Equal(line(g, lu, m, -2), line(g, lu, k, -1)), lu.dtype)
    return lower + ones, upper


@op("linalg_lu")
def lu(g, a, pivot=True):
    factors, _, order = factored(g, floating(g, a), pivot)
    lower, upper = _parts(g, factors)
    return _permutations(g, order, lower.dtype), lower, upper


def _order_of(g, pivots, m):
    """Return where the rows come from, from LAPACK's pivots."""
    steps, start = g.size(pivots, -1), g.expand(line(g, pivots, m, -1), [*g.shape_of(pivots)[:-1], m])
    pivots = g.cast(pivots, "int64") - 1

    def step(g, k, order):
        best = g.unsqueeze(g.take(pivots, k, -1), pivots.rank - 1)
        places = known_as(_swapped(g, k, best, line(g, order, m, -1)), order.shape)
        return [known_as(g.GatherElements(order, places, axis=-1), order.shape)]

    return start if steps == 0 else g.loop(steps, [start], step)[0]


@op("lu_unpack")
def lu_unpack(g, lu, pivots, unpack_data=True, unpack_pivots=True):
    lower, upper = _parts(g, lu) if unpack_data else [g.constant(np.zeros((0,)), lu.dtype)] * 2
    if not unpack_pivots:
        return g.constant(np.zeros((0,)), lu.dtype), lower, upper
    return _permutations(g, _order_of(g, pivots, g.size(lu, -2)), lu.dtype), lower, upper


@op("lu_solve")
def lu_solve(g, b, lu, pivots):
    return _from_factors(g, lu, _order_of(g, pivots, g.size(lu, -2)), b)


@op("linalg_lu_solve")
def linalg_lu_solve(g, lu, pivots, b, left=True, adjoint=False):
    turned = lambda v: g.transpose(v, -1, -2)
    order = _order_of(g, pivots, g.size(lu, -2))
    return _from_factors(g, lu, order, b, adjoint) if left else turned(_from_factors(g, lu, order, turned(b), not adjoint))


@op("linalg_solve_ex linalg_solve")
def linalg_solve(g, a, b, left=True, check_errors=False):
    results, a, b = len(g.results), floating(g, a), floating(g, b)
    vector = b.rank == 1 or (b.rank == a.rank - 1 and tuple(b.shape) == tuple(a.shape[:-1]))
    x = _general(g, a, g.unsqueeze(b, b.rank) if vector else b, left or vector)
    x = g.squeeze(x, -1) if vector else x
    return (x, _no_errors(g, a)) if results else x


def _no_errors(g, a):
    zero = g.constant(0, "int32")
    return g.expand(zero, g.shape_of(a)[:-2]) if a.rank > 2 else zero


@op("linalg_inv_ex linalg_inv inverse")
def linalg_inv(g, a, check_errors=False):
    results, a = len(g.results), floating(g, a)
    made = _general(g, a, identity(g, a, g.size(a, -1)))
    return (made, _no_errors(g, a)) if results else made


@op("linalg_slogdet slogdet")
def slogdet(g, a):
    a = floating(g, a)
    lu, pivots, _ = factored(g, a)
    n = g.size(a, -1)
    corner = g.Equal(line(g, a, n, -2), line(g, a, n, -1))
    diagonal = summed(g, g.where(corner, lu, 0.0), -1)
    # Every exchange of two rows changes the sign.
    turned = g.cast(g.Equal(pivots, line(g, a, n, -1) + 1), a.dtype) * 2.0 - 1.0
    return g.reduce("Prod", g.Sign(diagonal) * turned, -1), summed(g, g.Log(g.Abs(diagonal)), -1)


@op("linalg_solve_triangular")
def linalg_solve_triangular(g, a, b, upper, left=True, unitriangular=False):
    turned = lambda v: g.transpose(v, -1, -2)
    return solved(g, a, b, upper, unitriangular) if left else turned(solved(g, turned(a), turned(b), not upper, unitriangular))


@op("triangular_solve")
def triangular_solve(g, b, a, upper=True, transpose=False, unitriangular=False):
    batch = g.Shape(g.MatMul(a, b))
    same = g.Concat(g.cut(batch, 0, 0, -1), g.sizes([g.size(a, -1)]), axis=0)
    turned = g.transpose(a, -1, -2) if transpose else a
    return solved(g, turned, b, upper != transpose, unitriangular), g.Expand(a, same)


@op("cholesky linalg_cholesky linalg_cholesky_ex")
def cholesky(g, a, upper=False, check_errors=False):
    results, a = len(g.results), floating(g, a)
    n = g.size(a, -1)
    source = g.transpose(a, -1, -2) if upper else a

    def step(g, k, made):
        rows = line(g, made, n, -1)
        row = g.take(made, k, -2)
        rest = g.take(source, k, -1) - g.squeeze(g.MatMul(made, g.unsqueeze(row, row.rank)), -1)
        corner = g.Sqrt(g.take(rest, k, -1))
        column = g.where(g.Less(rows, k), 0.0, rest / g.unsqueeze(corner, corner.rank))
        return [known_as(g.Where(g.Equal(rows, k), g.unsqueeze(column, column.rank), made), made.shape)]

    made = a if n == 0 else g.loop(n, [g.expand(g.constant(0.0, a.dtype), g.shape_of(a))], step)[0]
    made = g.transpose(made, -1, -2) if upper else made
    return (made, _no_errors(g, a)) if results else made


@op("cholesky_solve")
def cholesky_solve(g, b, factor, upper=False):
    turned = g.transpose(factor, -1, -2)
    lower, above = (turned, factor) if upper else (factor, turned)
    return solved(g, above, solved(g, lower, b, False), True)


@op("cholesky_inverse")
def cholesky_inverse(g, factor, upper=False):
    return cholesky_solve(g, identity(g, factor, g.size(factor, -1)), factor, upper)


# ---- reflections


def as_column(g, v):
    return g.unsqueeze(v, v.rank)


def _row(g, v):
    return g.unsqueeze(v, v.rank - 1)


def _reflected(g, value, v, tau):
    """Return (1 - tau v v') @ value, with vectors of each matrix and numbers with a last dimension of one."""
    return value - as_column(g, v) * (as_column(g, tau) * g.MatMul(_row(g, v), value))


def reflections(g, a):
    """Return LAPACK's form of QR: R above, the vectors below (their first element, 1, is not there), and their factors."""
    m, n = _sizes(g, a)
    steps = _least(g, m, n)
    taus = g.expand(g.constant(0.0, a.dtype), [*g.shape_of(a)[:-2], steps])
    if steps == 0:
        return a, taus

    def step(g, k, a, taus):
        rows, columns = line(g, a, m, -1), line(g, a, n, -1)
        column = g.take(a, k, -1)
        first = g.unsqueeze(g.take(column, k, -1), column.rank - 1)
        below = g.where(g.Greater(rows, k), column, 0.0)
        size = summed(g, below * below, -1, True)
        flat = g.Equal(size, 0.0)
        length = g.Sqrt(first * first + size)
        # The sign is opposite to that of the first element, so that `first - beta` loses no digits.
        beta = g.Where(flat, first, g.Where(g.Less(first, 0.0), length, -length))
        tau = g.where(flat, 0.0, (beta - first) / g.where(flat, 1.0, beta))
        v = below / g.where(flat, 1.0, first - beta)
        whole = g.where(g.Equal(rows, k), 1.0, v)
        after = g.where(g.Greater(columns, k), _reflected(g, a, whole, tau), a)
        made = as_column(g, g.Where(g.Equal(rows, k), beta, g.Where(g.Greater(rows, k), v, column)))
        places = g.Equal(line(g, taus, steps, -1), k)
        return known_as(g.Where(g.Equal(columns, k), made, after), a.shape), known_as(g.Where(places, tau, taus), taus.shape)

    return g.loop(steps, [a, taus], step)


def _applied(g, vectors, taus, value, forward):
    """Return the product of the reflections (the first ones outermost, unless `forward`) with matrices."""
    m, steps = g.size(vectors, -2), g.size(taus, -1)

    def step(g, i, value):
        k = i if forward else g.scalar(g.sizes([steps])) - 1 - i
        rows, column = line(g, vectors, m, -1), g.take(vectors, k, -1)
        v = g.where(g.Equal(rows, k), 1.0, g.where(g.Less(rows, k), 0.0, column))
        tau = g.unsqueeze(g.take(taus, k, -1), taus.rank - 1)
        return [known_as(_reflected(g, value, v, tau), value.shape)]

    return value if steps == 0 or 0 in value.shape else g.loop(steps, [value], step)[0]


@op("geqrf")
def geqrf(g, a):
    return reflections(g, floating(g, a))


@op("linalg_qr")
def linalg_qr(g, a, mode="reduced"):
    a = floating(g, a)
    m, n = _sizes(g, a)
    made, taus = reflections(g, a)
    k = m if mode == "complete" else _least(g, m, n)
    r = known_as(_masked(g, made if k is m else g.cut(made, -2, 0, k), True), (*a.shape[:-2], k, n))
    if mode == "r":
        return g.constant(np.zeros((0,)), a.dtype), r
    eye = g.cast(g.Equal(line(g, a, m, -2), line(g, a, k, -1)), a.dtype)
    return _applied(g, made, taus, g.expand(eye, [*g.shape_of(a)[:-2], m, k]), False), r


@op("qr")
def qr(g, a, some=True):
    return linalg_qr(g, a, "reduced" if some else "complete")


@op("linalg_householder_product orgqr")
def householder_product(g, a, tau):
    m, n = _sizes(g, a)
    eye = g.cast(g.Equal(line(g, a, m, -2), line(g, a, n, -1)), a.dtype)
    return _applied(g, a, tau, g.expand(eye, g.shape_of(a)), False)


@op("ormqr")
def ormqr(g, a, tau, other, left=True, transpose=False):
    if left:
        return _applied(g, a, tau, other, transpose)
    return g.transpose(_applied(g, a, tau, g.transpose(other, -1, -2), not transpose), -1, -2)
