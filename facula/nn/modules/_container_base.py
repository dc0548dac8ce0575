"""What containers share: submodules with numbers as names, and pairs of keys and values."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from .module import Module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self


def _absolute_index(name: str, size: int, index) -> int:
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"{name}: the index must be within {size} entries, got {index}")
    return index % size


class _NumberedModules(Module):
    """What Sequential and ModuleList share: submodules named '0', '1', ..."""

    def _get_item_by_idx(self, iterator, idx):
        return next(islice(iterator, _absolute_index(type(self).__name__, len(self), idx), None))

    def _renumber(self) -> None:
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Add a module at the end.

        Args:
            module: what is added.

        Returns: the container.

        Errors: TypeError for what is no Module.

        >>> nn.Sequential(nn.Linear(2, 3)).append(nn.ReLU())
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
        )
        """
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Remove an entry, or with a slice several; those behind move up.

        Args:
            key: its number, or a slice.

        Returns: what was removed.

        Errors: IndexError for an entry that does not exist.

        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> layers.pop(0), len(layers)
        (ReLU(), 1)
        """
        value = self[key]
        del self[key]
        return value


def _pairs(name: str, items) -> Iterable[tuple]:
    """(key, value) pairs of a mapping, or of an iterable of pairs."""
    if not isinstance(items, Iterable):
        raise TypeError(f"{name}.update: takes a mapping or an iterable of pairs, got {type(items).__name__}")
    if hasattr(items, "items"):
        return items.items()
    pairs = []
    for position, pair in enumerate(items):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name}.update: element {position} must be a pair, got {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name}.update: element {position} must have 2 entries, got {len(pair)}")
        pairs.append(pair)
    return pairs
