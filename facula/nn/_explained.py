"""Docstrings of functions and layers that share arguments: each argument is explained once."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

_LATER = ("Shapes", "Returns", "Errors", ">>>")  # what comes behind "Args:"


def explained(texts: dict[str, str], **others: str) -> Callable[[_F], _F]:
    """Add the section "Args:" to the docstring of a function or class: what `others`, else `texts`, says of each argument.

    It comes before the first paragraph that begins with one of `_LATER`. An argument that neither names is left out;
    tests/test_docs.py asks that every one of nn.functional's is explained.
    """

    def decorate(function):
        code = (function.__init__ if isinstance(function, type) else function).__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        lines = [_wrapped(f"{name}: {others.get(name) or texts[name]}") for name in names if name in others or name in texts]
        paragraphs = function.__doc__.rstrip().split("\n\n")
        place = next((i for i, text in enumerate(paragraphs) if text.lstrip().startswith(_LATER)), len(paragraphs))
        paragraphs.insert(place, "\n".join(["    Args:", *lines]))
        function.__doc__ = "\n\n".join(paragraphs) + "\n    "
        return function

    return decorate


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line, 128, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False, break_long_words=False
    )
