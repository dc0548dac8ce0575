"""Layers that join dimensions, or split one."""

from __future__ import annotations

from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins dimensions ``start_dim`` to ``end_dim`` (both included) into one."""

    __constants__ = ["start_dim", "end_dim"]
    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension ``dim`` (a number, or a name for named tensors) into ``unflattened_size``."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim, unflattened_size) -> None:
        super().__init__()
        if isinstance(dim, int):
            self._require_tuple_int(unflattened_size)
        elif isinstance(dim, str):
            self._require_tuple_tuple(unflattened_size)
        else:
            raise TypeError(f"Unflatten: dim must be an int or a str, got {type(dim).__name__}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    @staticmethod
    def _require_tuple_tuple(size) -> None:
        if not isinstance(size, tuple):
            raise TypeError(
                f"Unflatten: with a named dim the size is a tuple of (name, size), got {type(size).__name__}"
            )
        for element in size:
            if not isinstance(element, tuple):
                raise TypeError(
                    f"Unflatten: with a named dim the size holds (name, size) pairs, got {element!r}"
                )

    @staticmethod
    def _require_tuple_int(size) -> None:
        if not isinstance(size, (tuple, list)):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple of ints, got {type(size).__name__}")
        for element in size:
            if not isinstance(element, int):
                raise TypeError(f"Unflatten: unflattened_size must hold ints, got {element!r}")

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
