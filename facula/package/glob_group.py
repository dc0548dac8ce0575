"""Match names of modules and paths with patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["GlobGroup"]


class GlobGroup:
    """Match names that patterns include and no other pattern excludes.

    A pattern is a name, its parts between separators. `*` stands for any text within a part; a part `**` for any
    number of parts, none, too.

    Args:
        include: one pattern, or several.
        exclude: what is left out of those, one pattern or several.
        separator: between the parts, "." for modules and "/" for files.

    Errors: TypeError for what is no pattern; ValueError where `**` is only a piece of a part.

    Example:
        >>> group = torch.package.GlobGroup("models.**", exclude="models.old.*")
        >>> group.matches("models"), group.matches("models.new.layers"), group.matches("models.old.layers")
        (True, True, False)
    """

    def __init__(self, include: Sequence[str] | str, *, exclude: str | tuple[Any, ...] = (), separator: str = ".") -> None:
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.include: Any = self._glob_list(include, separator)
        self.exclude: Any = self._glob_list(exclude, separator)
        self.separator = separator

    def __str__(self) -> str:
        return self._dbg

    __repr__ = __str__

    def matches(self, candidate: str) -> bool:
        """Return whether the name `candidate` belongs to the group."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(p.fullmatch(candidate) for p in self.exclude)

    @staticmethod
    def _glob_list(patterns, separator="."):
        patterns = [patterns] if isinstance(patterns, str) else patterns
        try:
            patterns = list(patterns)
        except TypeError:
            patterns = [patterns]
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"GlobGroup: patterns must be str, got {type(pattern).__name__}")
        return [GlobGroup._glob_to_re(pattern, separator) for pattern in patterns]

    @staticmethod
    def _glob_to_re(pattern, separator="."):
        mark = re.escape(separator)

        def part(text):
            if "**" in text:
                if text != "**":
                    raise ValueError(f"GlobGroup: ** must stand alone between separators, got {pattern!r}")
                return f"(?:{mark}[^{mark}]+)*"
            return mark + f"[^{mark}]*".join(re.escape(piece) for piece in text.split("*"))

        return re.compile("".join(part(text) for text in pattern.split(separator)))
