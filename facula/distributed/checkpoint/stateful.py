"""What has a state of its own."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object whose `state_dict()` is saved in its place, and which `load_state_dict` gives a state back."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
