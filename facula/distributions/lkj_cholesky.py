"""Define Cholesky factors of random correlation matrices (Lewandowski, Kurowicka and Joe 2009)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Represent lower Cholesky factors of correlation matrices M of density proportional to ``det(M)**(concentration -
    1)``.

    Args:
        dim: the number of rows of the matrices, at least 2.
        concentration: a positive number or tensor; 1 is the uniform distribution, larger ones are nearer to the identity.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: concentration (*batch_shape); the event shape is (dim, dim), so a sample is (*sample_shape, *batch_shape, dim, dim).

    Errors: ValueError for a dim below 2 and a concentration that is not positive.

    >>> d = torch.distributions.LKJCholesky(3, 2.0)
    >>> factor = d.sample()
    >>> (factor @ factor.mT).diagonal().round(decimals=4)
    tensor([1., 1., 1.])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraints.positive}
    support: Constraint = constraints.corr_cholesky
    _kept = ("dim",)
    concentration: Tensor

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: expected dim of at least 2, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # the onion method: squared lengths of the rows left of the diagonal
        row = facula.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        row = facula.cat([row.new_zeros((1,)), row])
        free = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2)
        self._beta = Beta(row + 0.5, free - 0.5 * row)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._beta = self._beta.expand(new._batch_shape + (self.dim,))
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            length = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            direction = facula.randn(shape, dtype=length.dtype, device=length.device).tril(-1)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            # The first row has nothing left of the diagonal, and its division was 0 / 0.
            direction[..., 0, :] = 0.0
            factor = length.sqrt() * direction
            tiny = facula.finfo(factor.dtype).tiny
            diagonal = (1 - (factor**2).sum(-1)).clamp(min=tiny).sqrt()
            return factor + facula.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        others = self.dim - facula.arange(2, self.dim + 1, device=self.concentration.device)
        exponent = 2 * (self.concentration - 1).unsqueeze(-1) + others
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        log_normalizer = 0.5 * n * math.log(math.pi) + facula.mvlgamma(alpha - 0.5, p=n) - n * alpha.lgamma()
        return (exponent * diagonal.log()).sum(-1) - log_normalizer
