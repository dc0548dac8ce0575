"""Compute a few extreme eigenpairs of a large symmetric matrix: `lobpcg`.

The method is the locally optimal block preconditioned conjugate gradient method (Knyazev 2001, SIAM J. Sci. Comput.
23(2)): each step takes the best vectors in the span of the present ones, their preconditioned residuals and the last
step's change.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from facula import _C
from facula.autograd.function import Function, FunctionCtx
from facula.autograd.grad_mode import no_grad

from .dtype import finfo

if TYPE_CHECKING:
    from typing import Any

Tensor = _C.Tensor


def lobpcg(A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
           iK: Any = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: Any = None,
           tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
           ortho_bparams: Any = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the `k` largest (or smallest) eigenvalues (..., k) of A x = e B x and their eigenvectors (..., m, k).

    Args:
        A: symmetric, (..., m, m).
        k: how many pairs; by default as many as X has columns, or 1.
        B: symmetric positive definite, of the shape of A; None for the identity.
        X: the vectors to start from, (..., m, n); drawn from the normal distribution when None.
        n: how many vectors to carry when X is None, at least k.
        iK: the preconditioner, an approximation of the inverse of A.
        niter: at most so many steps; None or negative for as many as it takes, up to 1000.
        tol: a pair is found when its residual is below tol times the scale of A; by default the root of the dtype's epsilon.
        largest: False for the smallest eigenvalues.
        method: "basic" or "ortho"; both orthogonalize here.
        tracker: called with this function's worker after each step; worker.ivars, fvars, bvars and tvars hold its state.
        ortho_iparams, ortho_fparams, ortho_bparams: accepted; they steer another way of orthogonalizing.

    Gradients flow to A, by all eigenvectors of A, which a backward pass computes (so A fits in memory); not to iK and X.

    Errors: ValueError for a matrix that is not square or has fewer than 3 n rows, a k outside and an unknown method;
    ValueError in a backward pass where B is given or A is sparse.

    >>> A = torch.diag(torch.arange(1., 10.))
    >>> values, vectors = torch.lobpcg(A, k=1)
    >>> values.shape, vectors.shape
    (torch.Size([1]), torch.Size([9, 1]))
    """
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg: expected a square matrix or a batch of them, got shape {tuple(A.shape)}")
    if not A.is_floating_point():
        raise ValueError(f"lobpcg: expected a real floating-point matrix, got {A.dtype}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be {_C._one_of(method, ('basic', 'ortho'))}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(f"lobpcg: expected at least {3 * n} rows, 3 for each of {n} vectors, got {m}")
    if not 1 <= k <= n:
        raise ValueError(f"lobpcg: expected between 1 and n = {n} eigenpairs, got k={k}")
    find = functools.partial(_pairs, X=X, n=n, iK=iK, k=k, niter=niter, tol=tol, largest=largest is not False, tracker=tracker)
    if _C.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in (A, B, X)):
        return _Recorded.apply(A, B, X, find, largest is not False)
    return find(A, B)


def _pairs(A: Tensor, B: Tensor | None, *, X: Tensor | None, n: int, iK: Any, k: int, niter: int | None, tol: float | None,
           largest: bool, tracker: Any) -> tuple[Tensor, Tensor]:  # fmt: skip
    m = A.shape[-1]
    with no_grad():
        X = _C.randn(*A.shape[:-1], n, dtype=A.dtype, device=A.device) if X is None else X
        if A.dim() == 2:  # sparse matrices are of these
            return _Worker(A, B, X, iK, k, niter, tol, largest).run(tracker)
        batch = A.shape[:-2]
        flat = [None if t is None else t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (A, B, X, iK)]
        count = flat[0].shape[0]
        found = []
        for i in range(count):
            worker = _Worker(*(None if t is None else t[i] for t in flat), k, niter, tol, largest)
            found.append(worker.run(tracker))
        values = _C.stack([e for e, _ in found]).reshape(*batch, k) if count else A.new_zeros(*batch, k)
        vectors = _C.stack([v for _, v in found]).reshape(*batch, m, k) if count else A.new_zeros(*batch, m, k)
    return values, vectors


class _Recorded(Function):
    """Return eigenpairs of A with a gradient for A, the gradient of a symmetric eigenproblem of which only some pairs
    are computed.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, A: Tensor, B: Tensor | None, X: Tensor | None, find: Any, largest: bool
    ) -> tuple[Tensor, Tensor]:
        values, vectors = find(A, B)
        ctx.whole, ctx.largest = B is None and A.layout == _C.strided, largest
        ctx.save_for_backward(A, values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> tuple[Tensor | None, ...]:
        if not ctx.whole:
            raise ValueError("lobpcg: gradients flow to a strided A where B is None, got another problem (use linalg.eigh)")
        A, values, vectors = ctx.saved_tensors
        every, basis = _C.linalg.eigh(A)
        k, m = values.shape[-1], A.shape[-1]
        places = _C.arange(k, device=A.device)
        own = _C.arange(m, device=A.device)[:, None] == (m - 1 - places if ctx.largest else places)
        gaps = values[..., None, :] - every[..., :, None]
        turned = (basis.mT @ grads[1]).masked_fill(own, 0) / gaps.masked_fill(own, 1)
        grad = (basis @ turned + vectors * grads[0][..., None, :]) @ vectors.mT
        return (grad + grad.mT) / 2, None, None, None, None


def _elements(matrix: Tensor) -> Tensor:
    """Return the stored elements of a matrix of any layout, each place once."""
    if matrix.layout == _C.strided:
        return matrix
    return (matrix.coalesce() if matrix.layout == _C.sparse_coo else matrix).values()


class _Worker:
    """Run the iteration for one matrix."""

    def __init__(self, A, B, X, iK, k, niter, tol, largest):
        self.A, self.B, self.iK, self.k = A, B, iK, k
        self.X, self.P = X, None
        self.tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
        self.niter = 1000 if niter is None or niter < 0 else niter
        self.largest = largest
        self.ivars, self.fvars, self.bvars, self.tvars = {}, {}, {"largest": largest}, {}

    def run(self, tracker):
        self.E, self.X = self.rayleigh_ritz(self.orthogonalized(self.X), self.X.shape[-1])
        scale = _C.linalg.vector_norm(_elements(self.A)).item() or 1.0
        for step in range(self.niter + 1):
            residual = self.A @ self.X - self.times_b(self.X) * self.E
            errors = _C.linalg.vector_norm(residual, 2, [0]) / (scale * _C.linalg.vector_norm(self.X, 2, [0]))
            found = errors <= self.tol
            converged = int(found[: self.k].sum().item())
            self.ivars = {"istep": step, "converged_count": converged, "k": self.k, "m": self.A.shape[0]}
            self.tvars = {"rerr": errors}
            if tracker is not None:
                tracker(self)
            if converged == self.k or step == self.niter:
                break
            # Converged vectors need no new directions; their residuals would add nothing but rounding errors.
            self.step(residual[:, ~found])
        return self.E[: self.k].clone(), self.X[:, : self.k].clone()

    def step(self, residual):
        directions = residual if self.iK is None else self.iK @ residual
        n = self.X.shape[1]
        blocks = [self.X, directions] if self.P is None else [self.X, directions, self.P]
        basis = self.orthogonalized(_C.cat(blocks, 1))
        before = self.X
        self.E, self.X = self.rayleigh_ritz(basis, n)
        # the part of the new vectors that the old ones do not hold
        self.P = self.X - before @ (before.mT @ self.times_b(self.X))

    def times_b(self, x):
        return x if self.B is None else self.B @ x

    def orthogonalized(self, s):
        """Return a basis of the columns' span that is orthonormal with respect to B; directions lost in rounding are left
        out."""
        s = s / _C.linalg.vector_norm(s, 2, [0], True).clamp_min(finfo(s.dtype).tiny)
        for _ in range(2):
            values, vectors = _C.linalg.eigh(s.mT @ self.times_b(s))
            keep = values > values[-1] * finfo(s.dtype).eps * 10 * s.shape[1]
            s = s @ (vectors[:, keep] / values[keep].sqrt())
        return s

    def rayleigh_ritz(self, basis, n):
        projected = basis.mT @ (self.A @ basis)
        values, vectors = _C.linalg.eigh((projected + projected.mT) / 2)
        if self.largest:
            values, vectors = values.flip(0), vectors.flip(1)
        return values[:n], basis @ vectors[:, :n]
