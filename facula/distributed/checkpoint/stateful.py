"""Define the protocol of objects that have a state of their own."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Define an object whose `state_dict()` is saved in its place, and which `load_state_dict` restores. This is a
    protocol: any class that has the two methods conforms to it.

    Args:
        args, kwargs: a protocol is not made.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> from torch.distributed.checkpoint.stateful import Stateful
    >>> class Counter:
    ...     def __init__(self):
    ...         self.count = 0
    ...     def state_dict(self):
    ...         return {"count": self.count}
    ...     def load_state_dict(self, state_dict):
    ...         self.count = state_dict["count"]
    >>> counter = Counter()
    >>> isinstance(counter, Stateful)
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"counter": counter}, checkpoint_id=folder)
    >>> list(metadata.state_dict_metadata)
    ['counter.count']
    >>> counter.load_state_dict({**counter.state_dict(), "count": 5})
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state, a dict that can be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state.

        Args:
            state_dict: what `state_dict` gave.
        """
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
