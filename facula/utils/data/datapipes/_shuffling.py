"""What pipes that shuffle are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Shuffling:
    """A pipe whose order changes with every iterator, unless it is told otherwise."""

    _enabled = True
    _seed = None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turns shuffling on or off by `shuffle`; gives the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Sets the seed of the next iterator; gives the pipe."""
        self._seed = seed
        return self
