"""Define differentiable maps between sets of values, with the determinants of their Jacobians.

Long because PyTorch has all transforms in one file of this name, and each class stands there with its docstring and example.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from typing import TYPE_CHECKING, Any

import facula
from facula import Tensor
from facula.nn.functional import pad, softmax, softplus

from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .utils import _sum_rightmost, broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from facula import Size

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]


# ---- What all transforms share


class Transform:
    """Map ``domain`` to ``codomain`` differentiably; the base class of all transforms.

    A subclass defines these two constraints, ``_call(x)``, ``_inverse(y)`` and, where it is ``bijective``,
    ``log_abs_det_jacobian(x, y)``, of which one number belongs to each event of the domain. One that is not bijective
    has an ``_inverse`` with t(t.inv(y)) == y. ``sign`` is 1 or -1 where the map is monotonic.

    Args:
        cache_size: 1 stores the last pair of input and output, so that inverting an output gives that very input; 0 stores
            none.

    Arguments of methods:
        x: values of the domain.
        y: the values of the codomain that belong to x.
        shape: a shape, a tuple or a torch.Size.

    Shapes: input (..., *event of the domain); output (..., *event of the codomain); log_abs_det_jacobian (...).

    Errors: ValueError for another cache_size.

    >>> t = torch.distributions.ExpTransform()
    >>> x = torch.tensor([0.0, 2.0])
    >>> t(x), t.inv(t(x))
    (tensor([1.0000, 7.3891]), tensor([0., 2.]))
    >>> t.log_abs_det_jacobian(x, t(x))
    tensor([0., 2.])
    >>> t.forward_shape((2,)), t.inverse_shape((2,))
    ((2,), (2,))
    >>> cached = t.with_cache()
    >>> cached.inv(cached(x)) is x
    True
    """

    domain: Constraint
    codomain: Constraint
    bijective = False

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: expected cache_size 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._inv = None  # a weak reference to the inverse: it holds this one
        self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Dimensions of an event, where domain and codomain have the same."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                f"{type(self).__name__}: event_dim of domain and codomain differ: use domain.event_dim or codomain.event_dim, "
                f"got {self.domain.event_dim} and {self.codomain.event_dim}"
            )
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The inverse; t.inv.inv is t."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 for an increasing transform, -1 for a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__}.sign: this class does not define it")

    def with_cache(self, cache_size: int = 1) -> Self:
        """Return the same transform with that cache.

        Args:
            cache_size: 1 or 0, as for the class.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__}.with_cache: this class does not define it")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__}._call: this class does not define it")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__}._inverse: this class does not define it")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Return log |det dy/dx|, of the shape of x without the domain's event."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian: this class does not define it")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the output for an input of that shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the input for an output of that shape."""
        return shape


class _SameKind:
    """Compare transforms without parameters, which are equal if they have the same class."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


def _check_shape(transform, shape, fits, what):
    if not fits:
        raise ValueError(f"{type(transform).__name__}: expected {what}, got shape {tuple(shape)}")


class _InverseTransform(Transform):
    """Invert a transform, which has the cache."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        return self.__dict__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self):
        return hash((_InverseTransform, self._inv))

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


# ---- Transforms of single numbers


class ExpTransform(_SameKind, Transform):
    """Compute ``exp(x)``, from all real numbers to positive ones.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

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
    """Compute ``x**exponent`` for positive x.

    Args:
        exponent: a number or a tensor, not zero.
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape that broadcasts with exponent; output of the broadcast shape.

    Errors: ValueError for a cache_size other than 0 and 1.

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


class SigmoidTransform(_SameKind, Transform):
    """Compute ``1 / (1 + exp(-x))``, limited so that it is never 0 or 1.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

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


class SoftplusTransform(_SameKind, Transform):
    """Compute ``log(1 + exp(x))``, which is x for x > 20.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

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


class TanhTransform(_SameKind, Transform):
    """Compute ``tanh(x)``. With cache_size 1, inverting an output near -1 or 1 loses no precision.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

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


class AbsTransform(_SameKind, Transform):
    """Compute ``|x|``, which is not bijective; its inverse is y itself.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

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
    """Compute ``loc + scale * x``.

    Args:
        loc: a number or a tensor.
        scale: a number or a tensor, not zero.
        event_dim: the number of the last dimensions that make one value.
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape that broadcasts with loc and scale; output of the broadcast shape.

    Errors: ValueError for a cache_size other than 0 and 1.

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
        """Return real numbers."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """Return real numbers."""
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
    """Compute the distribution function of a distribution, which makes its values uniform.

    Args:
        distribution: a distribution with cdf and icdf.
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input of any shape; output the same.

    Errors: TypeError for something other than a distribution; ValueError for a cache_size other than 0 and 1.

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


# ---- Transforms of vectors and matrices


class SoftmaxTransform(_SameKind, Transform):
    """Compute the softmax of vectors, which is not bijective; the inverse is the logarithm.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., K); output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

    >>> torch.distributions.SoftmaxTransform()(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _call(self, x):
        return softmax(x, dim=-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_SameKind, Transform):
    """Map n numbers to a point of the simplex with n + 1 components: each takes a share of what the earlier ones left.

    Component k takes sigmoid(x_k - log(n - k)) of the rest, so that zeros give equal components.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., n); output (..., n + 1).

    Errors: ValueError for a cache_size other than 0 and 1.

    >>> t = torch.distributions.StickBreakingTransform()
    >>> t(torch.zeros(3)), t.forward_shape((3,))
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), torch.Size([4]))
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x):
        n = x.shape[-1]
        return facula.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        share = SigmoidTransform()._call(x - self._offset(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y):
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=facula.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._offset(taken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (y[..., :-1].log() - softplus(x)).sum(-1)  # share * (1 - share) * what was left, for each

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        _check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return facula.Size(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        _check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return facula.Size(shape[:-1]) + (shape[-1] - 1,)


class LowerCholeskyTransform(_SameKind, Transform):
    """Map a matrix to its lower triangle with the exponentials of its diagonal.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., n, n); output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

    >>> torch.distributions.LowerCholeskyTransform()(torch.tensor([[0.0, 5.0], [2.0, 0.0]]))
    tensor([[1., 0.],
            [2., 1.]])
    """

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_SameKind, Transform):
    """Compute ``L @ L.mT`` with L of LowerCholeskyTransform.

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., n, n); output the same.

    Errors: ValueError for a cache_size other than 0 and 1.

    >>> torch.distributions.PositiveDefiniteTransform()(torch.tensor([[0.0, 5.0], [2.0, 0.0]]))
    tensor([[1., 2.],
            [2., 5.]])
    """

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()._call(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform()._inverse(facula.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Map n (n - 1) / 2 numbers to the Cholesky factor of an n x n correlation matrix.

    tanh makes the numbers partial correlations z; row i of the factor is z_ij times what the elements before left of
    the row's length 1, and on the diagonal the rest (Lewandowski, Kurowicka and Joe 2009).

    Args:
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., n (n - 1) / 2); output (..., n, n).

    Errors: ValueError, when called, for another number of elements.

    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.corr_cholesky
    bijective = True

    @staticmethod
    def _keep(z):
        """Return the squared lengths left after each element, of a row of partial correlations."""
        return 1 - z.square()

    def _call(self, x):
        eps = facula.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = self._keep(partial).sqrt().cumprod(-1)
        identity = facula.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + identity) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = 1 - (y * y).cumsum(-1)
        before = pad(left[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        # atanh, of a number that may have been rounded to 1
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # dy_ij/dx_ij = (1 - z_ij^2) * sqrt(what was left before j)
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2).clamp(min=facula.finfo(y.dtype).tiny)
        return 0.5 * left.log().sum(-1) + TanhTransform().log_abs_det_jacobian(x, x).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        _check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        _check_shape(self, shape, n * (n - 1) // 2 == count, "a last dimension of n (n - 1) / 2 elements")
        return facula.Size(shape[:-1]) + (n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        _check_shape(self, shape, len(shape) >= 2 and shape[-1] == shape[-2], "square matrices")
        n = shape[-1]
        return facula.Size(shape[:-2]) + (n * (n - 1) // 2,)


# ---- Transforms made of others, and of shapes


class ComposeTransform(Transform):
    """Apply several transforms in order.

    Args:
        parts: a list of transforms.
        cache_size: 1 stores the last input and output of each, see `Transform`.

    Shapes: those of the transforms, one after the other.

    Errors: ValueError for a cache_size other than 0 and 1.

    >>> from torch.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> t = ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])
    >>> t(torch.tensor([0.0, 0.5])), t.inv(torch.tensor(1.0))
    (tensor([1.0000, 2.7183]), tensor(0.))
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts: Sequence[Transform] = [part.with_cache(cache_size) for part in parts] if cache_size else parts
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((ComposeTransform, *self.parts))

    def _event_dims(self):
        """Return the event dimensions of domain and codomain: those of the ends, more where a part between needs more."""
        first, last = self.parts[0].domain.event_dim, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):  # backwards for the domain
            last = max(last - part.codomain.event_dim, 0) + part.domain.event_dim
        for part in self.parts:
            first = max(first - part.domain.event_dim, 0) + part.codomain.event_dim
        return last, first

    @staticmethod
    def _with_event_dim(constraint, event_dim):
        missing = event_dim - constraint.event_dim
        return constraints.independent(constraint, missing) if missing > 0 else constraint

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Return what the first part takes."""
        return self._with_event_dim(self.parts[0].domain, self._event_dims()[0]) if self.parts else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """Return what the last part gives."""
        return self._with_event_dim(self.parts[-1].codomain, self._event_dims()[1]) if self.parts else constraints.real

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        """Return the product of the parts' signs."""
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> ComposeTransform:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return facula.full_like(x, 0)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms = []
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inside = ",\n    ".join(repr(part) for part in self.parts)
        return f"ComposeTransform(\n    {inside}\n)"


identity_transform: ComposeTransform = ComposeTransform([])


class IndependentTransform(Transform):
    """Take the last batch dimensions of another transform as part of the event: log-determinants are summed over them.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: the number of dimensions that belong to the event.
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: those of base_transform.

    Errors: ValueError, when called, for fewer dimensions than belong to the event.

    >>> t = torch.distributions.IndependentTransform(torch.distributions.ExpTransform(), 1)
    >>> x = torch.tensor([1.0, 2.0])
    >>> t.log_abs_det_jacobian(x, t(x))
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Return the base's domain, over more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """Return the base's codomain, over more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's."""
        return self.base_transform.sign

    def _call(self, x):
        _check_shape(self, x.shape, x.dim() >= self.domain.event_dim, f"at least {self.domain.event_dim} dimensions")
        return self.base_transform(x)

    def _inverse(self, y):
        _check_shape(self, y.shape, y.dim() >= self.codomain.event_dim, f"at least {self.codomain.event_dim} dimensions")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Give the last dimensions another shape of as many elements.

    Args:
        in_shape: their shape in the input.
        out_shape: their shape in the output.
        cache_size: 1 stores the last input and output, see `Transform`.

    Shapes: input (..., *in_shape); output (..., *out_shape).

    Errors: ValueError for another number of elements, here and from forward_shape; RuntimeError when called with others.

    >>> t = torch.distributions.ReshapeTransform((4,), (2, 2))
    >>> t(torch.zeros(3, 4)).shape, t.inverse_shape((3, 2, 2))
    (torch.Size([3, 2, 2]), torch.Size([3, 4]))
    """

    bijective = True
    in_shape: Any
    out_shape: Any

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = facula.Size(in_shape), facula.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(f"ReshapeTransform: expected as many elements, got {tuple(in_shape)} and {tuple(out_shape)}")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Return real numbers of shape in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Return real numbers of shape out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _replace(self, shape, old, new):
        cut = len(shape) - len(old)
        _check_shape(self, shape, cut >= 0 and tuple(shape[cut:]) == tuple(old), f"a shape that ends in {tuple(old)}")
        return facula.Size(shape[:cut]) + new

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace(shape, self.out_shape, self.in_shape)


class _PartsTransform(Transform):
    """Apply a sequence of transforms, each to its part of dimension `dim`."""

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.transforms)

    def _each(self, apply, *values):
        """Return apply(transform, part of each value) for all parts, with sizes checked."""
        for value in values:
            _check_shape(
                self, value.shape, -value.dim() <= self.dim < value.dim() and value.size(self.dim) == self._size(),
                f"size {self._size()} in dimension {self.dim}",
            )  # fmt: skip
        parts = zip(*(self._split(value) for value in values), strict=True)
        return [apply(transform, *part) for transform, part in zip(self.transforms, parts, strict=True)]

    def _call(self, x):
        return self._join(self._each(lambda t, x: t(x), x))

    def _inverse(self, y):
        return self._join(self._each(lambda t, y: t.inv(y), y))


class CatTransform(_PartsTransform):
    """Apply transforms to slices along a dimension.

    Args:
        tseq: a sequence of transforms, one for each slice.
        dim: the dimension.
        lengths: the sizes of the slices; None means 1 for each.
        cache_size: 1 stores the last input and output of each, see `Transform`.

    Shapes: input with the sum of lengths along dim; output the same.

    Errors: TypeError for what is no transform, ValueError for another number of lengths.

    >>> from torch.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(torch.tensor([0.0, 1.0, 2.0]))
    tensor([1., 1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
                 cache_size: int = 0) -> None:  # fmt: skip
        self.transforms: Any = _check_transforms(tseq, cache_size, "CatTransform")
        super().__init__(cache_size=cache_size)
        self.lengths: list[int] = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform: expected {len(self.transforms)} lengths, got {len(self.lengths)}")
        self.dim = dim

    @lazy_property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self):
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _size(self):
        return self.length

    def _split(self, value):
        return value.split(self.lengths, self.dim)

    def _join(self, parts):
        return facula.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        def one(transform, x, y):
            return _sum_rightmost(transform.log_abs_det_jacobian(x, y), self.event_dim - transform.event_dim)

        terms = self._each(one, x, y)
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return facula.cat(terms, dim=dim) if dim < 0 else functools.reduce(operator.add, terms)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Return the domains of the parts, side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the codomains of the parts, side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_PartsTransform):
    """Apply transforms to the single indices along a dimension.

    Args:
        tseq: a sequence of transforms, one for each index.
        dim: the dimension.
        cache_size: 1 stores the last input and output of each, see `Transform`.

    Shapes: input with as many indices along dim as there are transforms; output the same.

    Errors: TypeError for what is no transform.

    >>> from torch.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([ExpTransform(), identity_transform], dim=1)(torch.tensor([[0.0, 1.0], [1.0, 2.0]]))
    tensor([[1.0000, 1.0000],
            [2.7183, 2.0000]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self.transforms: Any = _check_transforms(tseq, cache_size, "StackTransform")
        super().__init__(cache_size=cache_size)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _size(self):
        return len(self.transforms)

    def _split(self, value):
        return value.unbind(self.dim)

    def _join(self, parts):
        return facula.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join(self._each(lambda t, x, y: t.log_abs_det_jacobian(x, y), x, y))

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Return the domains of the parts, along a dimension."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the codomains of the parts, along a dimension."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


def _check_transforms(tseq, cache_size, what):
    for transform in tseq:
        if not isinstance(transform, Transform):
            raise TypeError(f"{what}: expected transforms, got {type(transform).__name__}")
    return [t.with_cache(cache_size) if cache_size else t for t in tseq]
