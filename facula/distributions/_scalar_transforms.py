"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula.distributions.constraints import Constraint
from facula.nn.functional import softplus

from . import constraints
from ._transform import SameKind, Transform
from .distribution import Distribution
from .utils import _sum_rightmost, broadcast_all, lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Size, Tensor


class ExpTransform(SameKind, Transform):
    """``exp(x)``, from all real numbers to positive ones.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.ExpTransform()
    >>> t(torch.tensor([0.0, 1.0])), t.inv(torch.tensor(1.0))
    (tensor([1.0000, 2.7183]), tensor(0.))
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """``x**exponent`` for positive x.

    Args:
        exponent: a number or a tensor, not zero.
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.PowerTransform(2.0)
    >>> t(torch.tensor([1.0, 3.0])), t.inv(torch.tensor(9.0))
    (tensor([1., 9.]), tensor(3.))
    """

    domain: Constraint = constraints.positive
    codomain: Constraint = constraints.positive
    bijective = True
    exponent: Tensor

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def __hash__(self) -> int:
        return hash(PowerTransform)

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return facula.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return facula.broadcast_shapes(shape, self.exponent.shape)


class SigmoidTransform(SameKind, Transform):
    """``1 / (1 + exp(-x))``, kept off 0 and 1.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.SigmoidTransform()
    >>> t(torch.tensor([0.0, 2.0])), t.inv(torch.tensor(0.5))
    (tensor([0.5000, 0.8808]), tensor(0.))
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x):
        limits = facula.finfo(x.dtype)
        return facula.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y):
        limits = facula.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(SameKind, Transform):
    """``log(1 + exp(x))``, which is x for x > 20.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> torch.distributions.SoftplusTransform()(torch.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(SameKind, Transform):
    """``tanh(x)``; with cache_size 1, inverting an output near -1 or 1 loses nothing.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.TanhTransform(cache_size=1)
    >>> x = torch.tensor([0.0, 30.0])
    >>> t(x), t.inv(t(x))
    (tensor([0., 1.]), tensor([ 0., 30.]))
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return facula.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))  # log(1 - tanh(x)^2) for all x


class AbsTransform(SameKind, Transform):
    """``|x|``, which is not bijective; its inverse is y itself.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.AbsTransform()
    >>> t(torch.tensor([-1.0, 2.0])), t.bijective
    (tensor([1., 2.]), False)
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: a number or a tensor.
        scale: a number or a tensor, not zero.
        event_dim: how many of the last dimensions make one value.
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.AffineTransform(loc=1.0, scale=-2.0)
    >>> t(torch.tensor([0.0, 1.0])), t.inv(torch.tensor(3.0)), t.sign
    (tensor([ 1., -1.]), tensor(-1.), -1)
    """

    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Real numbers."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """Real numbers."""
        return self.domain

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash(AffineTransform)

    @property
    def sign(self) -> Tensor | Any:
        """The sign of the scale."""
        if isinstance(self.scale, facula.Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, facula.Tensor):
            each = facula.abs(self.scale).log()
        else:
            each = facula.full_like(x, math.log(abs(self.scale)))
        cut = x.dim() - self.event_dim
        each = each.expand(facula.broadcast_shapes(each.shape, x.shape[cut:]))
        return _sum_rightmost(each, self.event_dim).expand(x.shape[:cut])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return facula.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _equal(a, b):
    same = a == b
    return bool(same.all()) if isinstance(same, facula.Tensor) else same


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution, which makes its values uniform.

    Args:
        distribution: one with cdf and icdf.
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.transforms.CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0))
    >>> t(torch.tensor([0.0, 1.0])), t.inv(torch.tensor(0.5))
    (tensor([0.5000, 0.8413]), tensor(0.))
    """

    bijective = True
    codomain: Constraint = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        if not isinstance(distribution, Distribution):
            raise TypeError(
                f"CumulativeDistributionTransform: expected a distribution, got {type(distribution).__name__}"
            )
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
