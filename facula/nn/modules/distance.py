"""Define layers that compare two tensors vector by vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["PairwiseDistance", "CosineSimilarity"]


class PairwiseDistance(Module):
    """Compute the p-norm of the difference of vectors along the last dimension.

    Formula: d = norm(x1 - x2 + eps, p)

    Args:
        p: the power of the norm, which may be negative.
        eps: a number added to the difference, so that the gradient is finite where both are the same.
        keepdim: if True, keep the last dimension, with size 1.

    Shapes: called with (N, D) or (D,) twice; output (N,) or (), with keepdim (N, 1) or (1,).

    Errors: RuntimeError, when called, for shapes that do not broadcast.

    >>> nn.PairwiseDistance()(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    __constants__: ClassVar[list[str]] = ["norm", "eps", "keepdim"]
    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Compute the cosine of the angle between vectors.

    Formula: c = x1 @ x2 / max(norm(x1) * norm(x2), eps)

    Args:
        dim: the dimension along which the vectors lie.
        eps: the least divisor.

    Shapes: called with two tensors that broadcast to one another; output the same without dim.

    Errors: RuntimeError, when called, for shapes that do not broadcast; IndexError for a dim that the inputs do not have.

    >>> nn.CosineSimilarity()(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 2.0], [3.0, 3.0]]))
    tensor([0., 1.])
    """

    __constants__: ClassVar[list[str]] = ["dim", "eps"]
    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
