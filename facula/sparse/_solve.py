"""Systems with a sparse matrix, by SciPy where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from facula import Tensor


def _scipy():
    try:
        import scipy.sparse
        import scipy.sparse.linalg
    except ImportError:
        raise NotImplementedError("spsolve: SciPy, which is not installed, solves systems with sparse matrices") from None
    return scipy.sparse


def _solution(matrix, right, transposed):
    """The solution of a system as a tensor without history."""
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
    """The solution of ``input @ x = other`` with a sparse matrix, which needs SciPy.

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
