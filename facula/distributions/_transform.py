"""What all transforms share."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from facula import Tensor

from . import constraints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from ._constraint import Constraint


class Transform:
    """A differentiable map from ``domain`` to ``codomain``, the base class of all transforms.

    A subclass gives these two constraints, ``_call(x)``, ``_inverse(y)`` and, where it is ``bijective``,
    ``log_abs_det_jacobian(x, y)``, of which one number belongs to each event of the domain. One that is not bijective
    has an ``_inverse`` with t(t.inv(y)) == y. ``sign`` is 1 or -1 where the map is monotonic.

    Args:
        cache_size: 1 keeps the last pair of input and output, so that inverting an output gives its very input; 0 keeps none.

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
        raise NotImplementedError(f"{type(self).__name__}.sign")

    def with_cache(self, cache_size: int = 1) -> Self:
        """The same transform with that cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__}.with_cache")

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
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |det dy/dx|, of the shape of x without the domain's event."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Shape of the output for an input of that shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Shape of the input for an output of that shape."""
        return shape


class SameKind:
    """For transforms without parameters: all of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


def check_shape(transform, shape, fits, what):
    if not fits:
        raise ValueError(f"{type(transform).__name__}: expected {what}, got shape {tuple(shape)}")


class _InverseTransform(Transform):
    """The inverse of a transform, which has the cache."""

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
