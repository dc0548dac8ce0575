"""Constraints made of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import Tensor

from ._constraint import Constraint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class _IndependentConstraint(Constraint):
    """Another constraint, of which the last dimensions of results make one value: all of its elements must meet it.

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
    """Values in the support of all components of a mixture, which is the last dimension of its results.

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
    """A sequence of constraints, each for its part of dimension `dim`."""

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
    """Constraints of slices along a dimension.

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
    """Constraints of the single indices along a dimension.

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
