"""Define the von Mises distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import SymmetricAroundLoc
from .distribution import Distribution
from .utils import lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["VonMises"]


def _log_modified_bessel_fn(x, order=0):
    """Return log I_order(x), order 0 or 1, x > 0."""
    scaled = facula.special.i0e if order == 0 else facula.special.i1e
    return scaled(x).log() + x


class VonMises(SymmetricAroundLoc, Distribution):
    """Represent angles in radians, in [-pi, pi), around loc.

    Formula: p = exp(concentration * cos(x - loc)) / (2 * pi * I0(concentration))

    The variance is the circular one.

    Args:
        loc: the mean direction, a number or a tensor.
        concentration: positive; the larger, the nearer are values to loc.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a concentration that is not positive.

    >>> d = torch.distributions.VonMises(torch.tensor(0.0), torch.tensor([1.0, 4.0]))
    >>> d.variance, d.sample((3,)).shape
    (tensor([0.5536, 0.1365]), torch.Size([3, 2]))
    """

    loc: Tensor
    concentration: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "concentration": constraints.positive}
    support: Constraint = constraints.real
    has_rsample = False

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        density = self.concentration * facula.cos(value - self.loc)
        return density - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration)

    @lazy_property
    def _proposal_r(self):
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # the quotients lose all digits for a small kappa, where they are 1 / kappa + kappa up to its third power
        return facula.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Sample by rejection from a wrapped Cauchy distribution (Best and Fisher 1979), in float64."""
        with facula.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa, r = self.concentration.double(), self._proposal_r
            angle = facula.empty(shape, dtype=facula.float64, device=self.loc.device)
            done = facula.zeros(shape, dtype=facula.bool, device=self.loc.device)
            while not done.all():
                u1, u2, u3 = facula.rand((3,) + shape, dtype=facula.float64, device=self.loc.device).unbind()
                # Steps 1 to 4 of the algorithm of Best and Fisher, with their names.
                z = facula.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                # An accepted element may be drawn again in a later round, which is an equally valid sample.
                angle = facula.where(accept, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accept
            return ((angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @lazy_property
    def variance(self):
        kappa = self.concentration
        return 1 - facula.special.i1e(kappa) / facula.special.i0e(kappa)
