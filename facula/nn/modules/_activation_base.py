"""What activation layers share."""

from __future__ import annotations

from typing import ClassVar

from .module import Module


class _InplaceActivation(Module):
    """An activation whose only option is to write into its input."""

    __constants__: ClassVar[list[str]] = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _PlainActivation(Module):
    """An activation without options."""

    def __init__(self) -> None:
        super().__init__()
