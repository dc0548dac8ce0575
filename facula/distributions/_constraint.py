"""What all constraints share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import Tensor

if TYPE_CHECKING:
    from typing import Any


class Constraint:
    """A set of values, the base class of all constraints.

    Attributes:
        is_discrete: whether the values are isolated points.
        event_dim: how many of the last dimensions make one value.

    >>> constraints = torch.distributions.constraints
    >>> constraints.positive.check(torch.tensor([-1.0, 2.0]))
    tensor([False,  True])
    >>> constraints.simplex.check(torch.tensor([[0.5, 0.5], [0.5, 0.6]])), constraints.simplex.event_dim
    (tensor([ True, False]), 1)
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Any:
        """Whether each value lies in the set: a bool tensor of the shape without the event's dimensions."""
        raise NotImplementedError(f"{type(self).__name__}.check")

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"
