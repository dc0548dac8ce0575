"""Transforms made of others, and of shapes."""

from __future__ import annotations

import functools
import operator
import weakref
from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._transform import Transform, check_shape
from .utils import _sum_rightmost, lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class ComposeTransform(Transform):
    """Several transforms, applied in order.

    Args:
        parts: a list of transforms.
        cache_size: 1 keeps the last input and output of each, see Transform.

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
        """Of domain and codomain: those of the ends, more where a part between needs more."""
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
        """What the first part takes."""
        return self._with_event_dim(self.parts[0].domain, self._event_dims()[0]) if self.parts else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """What the last part gives."""
        return self._with_event_dim(self.parts[-1].codomain, self._event_dims()[1]) if self.parts else constraints.real

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        """The product of the parts' signs."""
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
    """Another transform, of whose batch dimensions the last ones belong to the event: log-determinants are summed over them.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many dimensions belong to the event.
        cache_size: 1 keeps the last input and output, see Transform.

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
        """The base's, over more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The base's, over more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's."""
        return self.base_transform.sign

    def _call(self, x):
        check_shape(self, x.shape, x.dim() >= self.domain.event_dim, f"at least {self.domain.event_dim} dimensions")
        return self.base_transform(x)

    def _inverse(self, y):
        check_shape(self, y.shape, y.dim() >= self.codomain.event_dim, f"at least {self.codomain.event_dim} dimensions")
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
    """The last dimensions get another shape of as many elements.

    Args:
        in_shape: their shape in the input.
        out_shape: their shape in the output.
        cache_size: 1 keeps the last input and output, see Transform.

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
        """Real numbers of shape in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Real numbers of shape out_shape."""
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
        check_shape(self, shape, cut >= 0 and tuple(shape[cut:]) == tuple(old), f"a shape that ends in {tuple(old)}")
        return facula.Size(shape[:cut]) + new

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace(shape, self.out_shape, self.in_shape)


class _PartsTransform(Transform):
    """A sequence of transforms, each for its part of dimension `dim`."""

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.transforms)

    def _each(self, apply, *values):
        """apply(transform, part of each value) for all parts, with sizes checked."""
        for value in values:
            check_shape(
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
    """Transforms of slices along a dimension.

    Args:
        tseq: a sequence of transforms, one for each slice.
        dim: the dimension.
        lengths: the sizes of the slices; None means 1 for each.
        cache_size: 1 keeps the last input and output of each, see Transform.

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
        """The domains of the parts, side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The codomains of the parts, side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_PartsTransform):
    """Transforms of the single indices along a dimension.

    Args:
        tseq: a sequence of transforms, one for each index.
        dim: the dimension.
        cache_size: 1 keeps the last input and output of each, see Transform.

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
        """The domains of the parts, along a dimension."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The codomains of the parts, along a dimension."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


def _check_transforms(tseq, cache_size, what):
    for transform in tseq:
        if not isinstance(transform, Transform):
            raise TypeError(f"{what}: expected transforms, got {type(transform).__name__}")
    return [t.with_cache(cache_size) if cache_size else t for t in tseq]
