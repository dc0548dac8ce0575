"""Define layers that join dimensions, or split one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Join the dimensions from start_dim to end_dim into one.

    Args:
        start_dim: the first of them; 1 leaves the batch alone.
        end_dim: the last of them.

    Shapes: input (N, *sizes); output (N, product of sizes).

    Errors: RuntimeError, when called, for a start_dim behind end_dim, IndexError for a dimension that does not exist.

    >>> nn.Flatten()(torch.randn(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    __constants__: ClassVar[list[str]] = ["start_dim", "end_dim"]
    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several: the inverse of `Flatten`.

    Args:
        dim: the dimension, a number (or a name, for tensors whose dimensions have names).
        unflattened_size: a tuple of sizes whose product is that of dim, where one may be -1 (or, for a name, a tuple of
            pairs of name and size).

    Shapes: input (..., n, ...) with n along dim; output (..., *unflattened_size, ...).

    Errors: TypeError for sizes that are not integers; RuntimeError, when called, for another product.

    >>> nn.Unflatten(1, (3, 4))(torch.randn(2, 12)).shape
    torch.Size([2, 3, 4])
    """

    __constants__: ClassVar[list[str]] = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Any) -> None:
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

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
