"""Define the version of the PyTorch API that Facula provides, comparable with strings and tuples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """Represent a version: a str that compares by its numbers with strings, and with tuples of numbers.

    A local part (after "+") does not count; a pre-release ("2.14.0a0") comes before its release.

    Errors: ValueError for a text that is no version, TypeError for something else; == is False of both.

    >>> version = torch.torch_version.TorchVersion("2.13.0+local")
    >>> version >= (2, 4), version < "2.13.1", version == "2.13"
    (True, True, True)
    """

    def _key(self, other):
        if isinstance(other, str):
            text = other
        elif isinstance(other, Iterable):
            text = ".".join(str(part) for part in other)
        else:
            raise TypeError(f"TorchVersion: cannot compare with {other!r}")
        match = re.match(r"v?(\d+(?:\.\d+)*)(.*)$", text.partition("+")[0].strip())
        if not match:
            raise ValueError(f"TorchVersion: {text!r} is not a version")
        numbers = [int(part) for part in match.group(1).split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        rest = match.group(2).lstrip(".-_")
        pre = (0, rest) if re.match(r"a|b|c|rc|dev|alpha|beta", rest) else (1, rest)
        return numbers, pre

    def __lt__(self, other: Any) -> bool:
        return self._key(self) < self._key(other)

    def __le__(self, other: Any) -> bool:
        return self._key(self) <= self._key(other)

    def __gt__(self, other: Any) -> bool:
        return self._key(self) > self._key(other)

    def __ge__(self, other: Any) -> bool:
        return self._key(self) >= self._key(other)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return self._key(self) == self._key(other)
        except (TypeError, ValueError):
            return False

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+facula0.1.0")
