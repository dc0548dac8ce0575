"""Define functions of sparse tensors, and the old names of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.on_demand import _on_demand
from facula._tensor.sparse_checks import check_sparse_tensor_invariants

from .types import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)  # fmt: skip

if TYPE_CHECKING:
    from facula import Tensor


# ---- Systems with a sparse matrix, by SciPy where it is installed


def _scipy():
    try:
        import scipy.sparse
        import scipy.sparse.linalg
    except ImportError:
        raise NotImplementedError("spsolve: SciPy, which is not installed, solves systems with sparse matrices") from None
    return scipy.sparse


def _solution(matrix, right, transposed):
    """Return the solution of a system as a tensor without history."""
    sparse = _scipy()
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    system = sparse.csr_matrix(tuple(part.detach().numpy() for part in parts), shape=tuple(matrix.shape))
    system = system.conj().T if transposed else system
    found = sparse.linalg.spsolve(system.tocsc(), right.detach().resolve_conj().numpy())
    return facula.from_numpy(found.copy()).to(right.dtype).reshape(right.shape)


class _Solve(facula.autograd.Function):
    @staticmethod
    def forward(ctx, matrix, right):
        solution = _solution(matrix, right, False)
        ctx.save_for_backward(matrix, solution)
        return solution

    @staticmethod
    def backward(ctx, grad):
        matrix, solution = ctx.saved_tensors
        of_right = _solution(matrix, grad, True)
        if not ctx.needs_input_grad[0]:
            return None, of_right
        bounds, columns = matrix.crow_indices(), matrix.col_indices()
        rows = facula.repeat_interleave((bounds[1:] - bounds[:-1]).to(facula.int64))
        products = of_right.index_select(0, rows) * solution.conj().index_select(0, columns.to(facula.int64))
        values = -(products if products.dim() == 1 else products.sum(1))
        return facula.sparse_csr_tensor(bounds, columns, values, matrix.shape), of_right


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Return the solution of ``input @ x = other`` with a sparse matrix, which needs SciPy.

    Args:
        input: a square CSR matrix of a floating-point or complex dtype.
        other: a strided vector, or a matrix of several as columns, of the same dtype.
        left: True; the other side is not supported.

    Errors: NotImplementedError without SciPy, or with left=False; RuntimeError for tensors that do not fit.

    >>> A = torch.tensor([[2., 1.], [0., 4.]], dtype=torch.float64).to_sparse_csr()
    >>> torch.sparse.spsolve(A, torch.tensor([5., 4.], dtype=torch.float64))
    tensor([2., 1.], dtype=torch.float64)
    """
    if not left:
        raise NotImplementedError("spsolve: left=False is not supported, got False")
    if input.layout is not facula.sparse_csr or other.layout is not facula.strided:
        raise RuntimeError(f"spsolve: a CSR and a strided tensor are expected, got {input.layout} and {other.layout}")
    fits = input.dim() == 2 and input.size(0) == input.size(1) and other.dim() in (1, 2) and other.size(0) == input.size(0)
    if not fits:
        got = f"{tuple(input.shape)} and {tuple(other.shape)}"
        raise RuntimeError(f"spsolve: a square matrix and a vector or matrix that fits are expected, got {got}")
    if input.dtype is not other.dtype or not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"spsolve: one floating-point or complex dtype is expected, got {input.dtype} and {other.dtype}")
    return _Solve.apply(input, other)


if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula._C.sparse import addmm as addmm
else:
    addmm = _C.sparse.addmm

__all__ = [
    "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "spsolve", "sum",
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "ShortTensor",
]  # fmt: skip

_REDUCED = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin"}


def mm(mat1: Tensor = None, mat2: Tensor = None, reduce: str = None, *, sparse: Tensor = None, dense: Tensor = None) -> Tensor:
    """Return the product of two matrices of which at least one is sparse.

    Args:
        mat1: the first matrix, (n, m).
        mat2: the second matrix, (m, p), of the same dtype.
        sparse, dense: other names of mat1 and mat2.
        reduce: with "sum", "mean", "amax" or "amin" (mat1 of the layout CSR, mat2 strided) what is made of the products
            that belong to one element; places of mat1 without an entry give none. None for the sum.

    Returns: a tensor of shape (n, p).

    Errors: RuntimeError for shapes, layouts or dtypes that do not fit; ValueError for another word; IndexError for a matrix of
    fewer than two dimensions.

    >>> a = torch.tensor([[0., 2.], [3., 4.]]).to_sparse_csr()
    >>> torch.sparse.mm(a, torch.ones(2, 2))
    tensor([[2., 2.],
            [7., 7.]])
    >>> torch.sparse.mm(a, torch.ones(2, 2), "mean")
    tensor([[2.0000, 2.0000],
            [3.5000, 3.5000]])
    """
    mat1, mat2 = mat1 if sparse is None else sparse, mat2 if dense is None else dense
    if reduce in (None, "sum"):
        for matrix in (mat1, mat2):
            if isinstance(matrix, _C.Tensor) and matrix.dim() < 2:
                raise IndexError(f"sparse.mm: matrices have two dimensions, got shape {tuple(matrix.shape)}")
        return _C.mm(mat1, mat2)
    if reduce not in _REDUCED:
        raise ValueError(f"sparse.mm: reduce must be {_C._one_of(reduce, _REDUCED)}")
    if mat1.layout is not facula.sparse_csr or mat2.layout is not facula.strided:
        raise RuntimeError(f"sparse.mm: with reduce a CSR and a strided matrix are expected, got {mat1.layout}, {mat2.layout}")
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.size(1) != mat2.size(0):
        raise RuntimeError(f"sparse.mm: matrices that fit are expected, got {tuple(mat1.shape)} and {tuple(mat2.shape)}")
    bounds = mat1.crow_indices()
    row = facula.repeat_interleave((bounds[1:] - bounds[:-1]).to(facula.int64))
    products = mat1.values().unsqueeze(1) * mat2.index_select(0, mat1.col_indices().to(facula.int64))
    places = row.unsqueeze(1).expand_as(products)
    start = products.new_zeros(mat1.size(0), mat2.size(1))
    return start.scatter_reduce(0, places, products, reduce, include_self=False)


def sum(input: Tensor, dim: int | None = None, dtype: facula.dtype | None = None) -> Tensor:
    """Return the sums of a COO tensor: over all elements, or over dimensions. Gradients flow to the places that it has.

    Args:
        input: a sparse tensor.
        dim: an int or a tuple of ints; None for all.
        dtype: that of the result; None keeps the input's.

    Returns: a strided tensor where no sparse dimension is left, else a sparse one.

    Errors: IndexError for a dim that is not there.

    >>> x = torch.tensor([[0., 2.], [3., 4.]]).to_sparse()
    >>> torch.sparse.sum(x)
    tensor(9.)
    >>> torch.sparse.sum(x, 0).to_dense()
    tensor([3., 6.])
    """
    if dim is None or dim == ():
        values = (input.coalesce() if input.is_sparse else input).values()
        return values.sum() if dtype is None else values.sum(dtype=dtype)
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if dtype is None and len(dims) < input.dim():
        dtype = input.dtype
    for d in dims:
        if not -input.dim() <= d < input.dim():
            raise IndexError(f"sparse.sum: dim must name one of {input.dim()} dimensions, got {d}")
    return _C._ops._sparse_sum_dim(input, dim, False, dtype=dtype)


def _groups(tensor, dim):
    """Return for every entry the number of its line along `dim`, and how many lines have entries."""
    place = facula.zeros(tensor._nnz(), dtype=facula.int64)
    indices = tensor._indices()
    for d in range(tensor.sparse_dim()):
        if d != dim:
            place = place * tensor.size(d) + indices[d]
    lines, inverse = place.unique(return_inverse=True)
    return inverse, lines.numel()


def _soft_max(name, input, dim, dtype, logarithm):
    if not isinstance(input, facula.Tensor):
        raise TypeError(f"sparse.{name}: a Tensor is expected, got {type(input).__name__}")
    if not input.is_sparse:
        raise NotImplementedError(f"sparse.{name}: a COO tensor is expected, got layout {input.layout}")
    if not -input.dim() <= dim < input.dim():
        raise IndexError(f"sparse.{name}: dim must be within {input.dim()} dimensions, got {dim}")
    given = input.coalesce()
    given = given if dtype is None else given.to(dtype)
    if not given.is_floating_point():
        raise RuntimeError(f"sparse.{name}: a floating-point tensor is expected, got {given.dtype}")
    dim, values = dim % input.dim(), given.values()
    if dim >= given.sparse_dim():
        along = dim - given.sparse_dim() + 1
        made = values.log_softmax(along) if logarithm else values.softmax(along)
        return _C._ops._with_values(given.detach(), made)
    line, count = _groups(given, dim)
    places = line.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    lowest = values.new_full((count, *values.shape[1:]), -facula.inf)
    largest = lowest.scatter_reduce(0, places, values.detach(), "amax")
    shifted = values - largest.index_select(0, line)
    total = values.new_zeros(largest.shape).index_add(0, line, shifted.exp())
    if logarithm:
        made = shifted - total.log().index_select(0, line)
    else:
        made = shifted.exp() / total.index_select(0, line)
    return _C._ops._with_values(given.detach(), made)


def softmax(input: Tensor, dim: int, *, dtype: facula.dtype | None = None) -> Tensor:
    """Return the soft-max along a dimension of a COO tensor; what is not there counts as minus infinity.

    Args:
        input: a floating-point COO tensor.
        dim: the dimension, sparse or dense; negative ones count from the end.
        dtype: what is computed in; None keeps the input's.

    Errors: RuntimeError for another layout or dtype; IndexError for a dim outside.

    >>> x = torch.tensor([[0., 2.], [3., 3.]]).to_sparse()
    >>> torch.sparse.softmax(x, 1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    return _soft_max("softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: facula.dtype | None = None) -> Tensor:
    """Return the logarithm of softmax, at the places that the input has.

    Args:
        input: a floating-point COO tensor.
        dim: the dimension, sparse or dense; negative ones count from the end.
        dtype: what is computed in; None keeps the input's.

    Errors: RuntimeError for another layout or dtype; IndexError for a dim outside.

    >>> x = torch.tensor([[0., 2.], [3., 3.]]).to_sparse()
    >>> torch.sparse.log_softmax(x, 1).values()
    tensor([ 0.0000, -0.6931, -0.6931])
    """
    return _soft_max("log_softmax", input, dim, dtype, True)


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0,
                  out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return ``beta * input + alpha * (mat1 @ mat2)`` at the places of a CSR matrix.

    Args:
        input: the CSR matrix (n, p), perhaps a batch of them.
        mat1: a strided matrix (n, m), in a batch of the same sizes.
        mat2: a strided matrix (m, p).
        beta: the factor of input.
        alpha: the factor of the product.
        out: a CSR tensor that takes the result.

    Errors: RuntimeError for other layouts and for shapes that do not fit.

    >>> places = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(places, torch.ones(2, 3), torch.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    if input.layout is not facula.sparse_csr:
        raise RuntimeError(f"sampled_addmm: input must have the layout torch.sparse_csr, got {input.layout}")
    if mat1.layout is not facula.strided or mat2.layout is not facula.strided:
        raise RuntimeError(f"sampled_addmm: mat1 and mat2 must be strided, got {mat1.layout} and {mat2.layout}")
    if mat1.dim() != input.dim() or mat2.dim() != input.dim() or mat1.size(-1) != mat2.size(-2):
        raise RuntimeError(f"sampled_addmm: matrices that fit are expected, got {tuple(mat1.shape)} and {tuple(mat2.shape)}")
    if (*mat1.shape[:-1], mat2.size(-1)) != tuple(input.shape):
        raise RuntimeError(f"sampled_addmm: self must have the shape of the product, got {tuple(input.shape)}")
    pattern = input.detach()
    product = (mat1 @ mat2).sparse_mask(pattern)
    made = _C._ops._with_values(pattern, input.values() * beta + product.values() * alpha)
    return made if out is None else out.copy_(made)


def spdiags(diagonals: Any, offsets: Tensor, shape: Sequence[int], layout: facula.layout | None = None) -> Any:
    """Return a sparse matrix with the rows of `diagonals` on its diagonals.

    Args:
        diagonals: (count, length), or one of them.
        offsets: int64, which diagonal each row is put on; none twice.
        shape: two sizes.
        layout: COO (the default), CSR or CSC.

    Returns: a sparse matrix of shape `shape`.

    Errors: RuntimeError for offsets that are not int64, come twice or are not as many as the diagonals, for other than two
    sizes, and for another layout.

    Example::

        >>> facula.sparse.spdiags(facula.tensor([[1.0, 2.0]]), facula.tensor([1]), (2, 2)).to_dense()
        tensor([[0., 2.],
                [0., 0.]])
    """
    rows = diagonals if diagonals.dim() == 2 else diagonals.unsqueeze(0)
    if offsets.dim() > 1:
        raise RuntimeError(f"spdiags: offsets must be a number or a vector, got shape {tuple(offsets.shape)}")
    places = offsets if offsets.dim() == 1 else offsets.reshape(-1)
    if rows.dim() != 2 or places.dim() != 1 or places.numel() != rows.size(0):
        count = f"({rows.size(0)}) does not match the number of offsets ({places.numel()})"
        raise RuntimeError(f"spdiags: as many offsets as diagonals are expected, got {count}")
    if places.dtype is not facula.int64:
        raise RuntimeError(f"spdiags: offsets must be of int64, got {places.dtype}")
    if len(shape) != 2:
        raise RuntimeError(f"spdiags: shape must have two sizes, got {tuple(shape)}")
    if places.unique().numel() != places.numel():
        raise RuntimeError(f"spdiags: an offset must be given once, got {places.tolist()}")
    if layout not in (None, facula.sparse_coo, facula.sparse_csr, facula.sparse_csc):
        raise RuntimeError(f"spdiags: the layout must be sparse_coo, sparse_csr or sparse_csc, got {layout}")
    column = facula.arange(rows.size(1)).expand(rows.shape)
    row = column - places.unsqueeze(1)
    inside = (row >= 0) & (row < shape[0]) & (column < shape[1])
    indices = facula.stack([row[inside], column[inside]])
    made = facula.sparse_coo_tensor(indices, rows[inside], tuple(shape))
    return made if layout in (None, facula.sparse_coo) else made.to_sparse(layout=layout)

__getattr__ = _on_demand(__name__)
