"""Define the chi-squared distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .gamma import Gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from facula.distributions.distribution import Distribution

__all__ = ["Chi2"]


class Chi2(Gamma):
    """Represent the sum of squares of ``df`` standard normal values: Gamma(df / 2, 1 / 2).

    Formula: p = x ** (df / 2 - 1) * exp(-x / 2) / (2 ** (df / 2) * Gamma(df / 2))

    Args:
        df: degrees of freedom, a positive number or tensor, which need not be whole.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a df that is not positive.

    >>> d = torch.distributions.Chi2(torch.tensor([1.0, 4.0]))
    >>> d.mean, d.variance
    (tensor([1., 4.]), tensor([2., 8.]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive}
    _kept = ()

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return new

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
