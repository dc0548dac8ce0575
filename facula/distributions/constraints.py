"""Define sets of values: the possible values of a parameter, and the support of a distribution.

A constraint checks a tensor: `check` reduces the last `event_dim` dimensions, in which elements belong together, and
gives one bool for each that remains.

Long because PyTorch has all constraints in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "independent",
    "integer_interval",
    "interval",
    "half_open_interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_semidefinite",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


# ---- What all constraints share


class Constraint:
    """Define a set of values; the base class of all constraints.

    Attributes:
        is_discrete: True if the values are isolated points.
        event_dim: the number of the last dimensions that make one value.

    Shapes: `check` takes (..., *event) and returns a bool tensor (...).

    >>> constraints = torch.distributions.constraints
    >>> constraints.positive.check(torch.tensor([-1.0, 2.0]))
    tensor([False,  True])
    >>> constraints.simplex.check(torch.tensor([[0.5, 0.5], [0.5, 0.6]])), constraints.simplex.event_dim
    (tensor([ True, False]), 1)
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Any:
        """Return whether each value lies in the set: a bool tensor of the shape without the event's dimensions."""
        raise NotImplementedError(f"{type(self).__name__}.check: this class does not define it")

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"


# ---- Constraints made of others


class _IndependentConstraint(Constraint):
    """Apply another constraint to values that consist of the last dimensions of its results: all of their elements must
    satisfy it.

    Args:
        base_constraint: the constraint.
        reinterpreted_batch_ndims: how many dimensions make one value.

    >>> constraints = torch.distributions.constraints
    >>> constraints.independent(constraints.positive, 1).check(torch.tensor([[1.0, 2.0], [-1.0, 2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"{self!r}: expected at least {self.event_dim} dimensions, got shape {tuple(value.shape)}")
        kept = result.dim() - self.reinterpreted_batch_ndims
        return result.reshape(result.shape[:kept] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Require values in the support of all components of a mixture, which is the last dimension of its results.

    Args:
        base_constraint: the support of the components.

    >>> constraints = torch.distributions.constraints
    >>> support = constraints.interval(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
    >>> constraints.MixtureSameFamilyConstraint(support).check(torch.tensor([1.5, 0.5]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise ValueError(f"{self!r}: expected at least {self.event_dim} dimensions, got shape {tuple(value.shape)}")
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """Apply a sequence of constraints, each to its part of dimension `dim`."""

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        return max(c.event_dim for c in self.cseq)

    def _parts(self, value, size, split):
        if not -value.dim() <= self.dim < value.dim() or value.size(self.dim) != size:
            raise ValueError(f"{self!r}: expected size {size} in dimension {self.dim}, got shape {tuple(value.shape)}")
        return [c.check(part) for c, part in zip(self.cseq, split(value), strict=True)]


def _check_sequence(cseq, what):
    for constraint in cseq:
        if not isinstance(constraint, Constraint):
            raise TypeError(f"constraints.{what}: expected constraints, got {type(constraint).__name__}")


class _Cat(_Joined):
    """Apply constraints to slices along a dimension.

    Args:
        cseq: a sequence of constraints, one for each slice.
        dim: the dimension.
        lengths: the sizes of the slices; None means 1 for each.

    Errors: TypeError for what is no constraint, ValueError for another number of lengths.

    >>> constraints = torch.distributions.constraints
    >>> both = constraints.cat([constraints.positive, constraints.real], lengths=[1, 2])
    >>> both.check(torch.tensor([-1.0, -1.0, 1.0]))
    tensor([False,  True,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        _check_sequence(cseq, "cat")
        self.cseq: list[Constraint] = list(cseq)
        self.lengths: list[int] = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"constraints.cat: expected {len(self.cseq)} lengths, got {len(self.lengths)}")
        self.dim = dim

    def check(self, value: Tensor) -> Tensor:
        return facula.cat(self._parts(value, sum(self.lengths), lambda v: v.split(self.lengths, self.dim)), self.dim)


class _Stack(_Joined):
    """Apply constraints to the single indices along a dimension.

    Args:
        cseq: a sequence of constraints, one for each index.
        dim: the dimension.

    Errors: TypeError for what is no constraint.

    >>> constraints = torch.distributions.constraints
    >>> constraints.stack([constraints.positive, constraints.real], dim=0).check(torch.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        _check_sequence(cseq, "stack")
        self.cseq: list[Constraint] = list(cseq)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        inner = max(c.event_dim for c in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner  # stacked inside the event, it gains a dimension

    def check(self, value: Tensor) -> Tensor:
        return facula.stack(self._parts(value, len(self.cseq), lambda v: v.unbind(self.dim)), self.dim)


class _Bounded(Constraint):
    """Hold bounds, which are numbers or tensors and the only attributes."""

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__.removeprefix('_')}({inside})"


class _BoundedBelow(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _BoundedAbove(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _BoundedTwice(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _GreaterThan(_BoundedBelow):
    """Require numbers above ``lower_bound``.

    Args:
        lower_bound: a number or a tensor.

    >>> torch.distributions.constraints.greater_than(2.0).check(torch.tensor([2.0, 3.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_BoundedBelow):
    """Require numbers of at least ``lower_bound``.

    Args:
        lower_bound: a number or a tensor, which belongs to it.

    >>> torch.distributions.constraints.greater_than_eq(2.0).check(torch.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_BoundedAbove):
    """Require numbers below ``upper_bound``.

    Args:
        upper_bound: a number or a tensor.

    >>> torch.distributions.constraints.less_than(2.0).check(torch.tensor([1.0, 2.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_BoundedTwice):
    """Require numbers from ``lower_bound`` to ``upper_bound``, both included.

    Args:
        lower_bound: a number or a tensor.
        upper_bound: a number or a tensor.

    >>> torch.distributions.constraints.interval(0.0, 1.0).check(torch.tensor([0.0, 1.0, 2.0]))
    tensor([ True,  True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_BoundedTwice):
    """Require numbers from ``lower_bound``, which is included, to ``upper_bound``, which is not.

    Args:
        lower_bound: a number or a tensor.
        upper_bound: a number or a tensor.

    >>> torch.distributions.constraints.half_open_interval(0.0, 1.0).check(torch.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


def _whole(value):
    return value % 1 == 0


class _IntegerInterval(_BoundedTwice):
    """Require integers from ``lower_bound`` to ``upper_bound``, both included; their dtype may be a floating-point one.

    Args:
        lower_bound: a number or a tensor.
        upper_bound: a number or a tensor.

    >>> torch.distributions.constraints.integer_interval(0, 2).check(torch.tensor([0.0, 0.5, 3.0]))
    tensor([ True, False, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_BoundedAbove):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_BoundedBelow):
    """Require integers of at least ``lower_bound``, which is included in spite of the name."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _whole(value) & (value >= self.lower_bound)


class _Real(Constraint):
    """Require numbers other than NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Require vectors of numbers that are not negative and sum to 1 within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_BoundedAbove):
    """Require vectors of numbers that are not negative and sum to at most ``upper_bound``.

    Args:
        upper_bound: a number.

    >>> torch.distributions.constraints.multinomial(3).check(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    __repr__ = Constraint.__repr__


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Require lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _LowerTriangular.check(self, value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Require Cholesky factors of correlation matrices: lower triangular, with a positive diagonal and rows of length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        # The rounding error of a length grows with the number of elements.
        tolerance = facula.finfo(value.dtype).eps * value.shape[-1] * 10
        unit = ((facula.linalg.vector_norm(value.detach(), dim=-1) - 1).abs() <= tolerance).all(-1)
        return unit & _LowerCholesky.check(self, value)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return facula.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=facula.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return facula.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (facula.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (facula.linalg.cholesky_ex(value).info == 0)


class _Dependent(Constraint):
    """Stand for a constraint that is known only when the distribution exists. Facts that are known before can be passed."""

    def __init__(self, *, is_discrete: bool | Any = NotImplemented, event_dim: int | Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self._known("is_discrete")

    @property
    def event_dim(self) -> Any:
        return self._known("event_dim")

    def _known(self, name):
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f"{name}: that of a dependent constraint is not known before the distribution is")
        return value

    def __call__(self, *, is_discrete: bool | Any = NotImplemented, event_dim: int | Any = NotImplemented) -> Any:
        """Return the same with more known of it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Any:
        raise ValueError(f"{self!r}: a dependent constraint has nothing to check by, got a value of shape {tuple(value.shape)}")


class _DependentProperty(property, _Dependent):
    """Define a property whose value is a constraint that depends on parameters; read from the class, it shows that it
    does.

    Args:
        fn: the function that gives the constraint; without it, a decorator is returned.
        is_discrete: whether the values are isolated points, where that is known.
        event_dim: how many of the last dimensions make one value, where that is known.

    >>> from torch.distributions import constraints
    >>> class UpTo(torch.distributions.Distribution):
    ...     arg_constraints = {}
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.interval(0.0, 5.0)
    >>> UpTo().support, constraints.is_dependent(UpTo.support)
    (Interval(lower_bound=0.0, upper_bound=5.0), True)
    """

    def __init__(self, fn: Callable[..., Any] | None = None, *, is_discrete: bool | Any = NotImplemented,
                 event_dim: int | Any = NotImplemented) -> None:  # fmt: skip
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Constraint:
        """Decorate, as a decorator that was given arguments."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Constraint) -> bool:
    """Return whether a constraint is known only when the distribution is there.

    Args:
        constraint: the constraint, as the class shows it.

    >>> constraints = torch.distributions.constraints
    >>> constraints.is_dependent(torch.distributions.Uniform.support), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


dependent: Any = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector: independent = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval: Constraint = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat = _Cat
stack = _Stack
