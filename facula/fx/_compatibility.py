"""Mark functions whose interface PyTorch promises to preserve."""

from __future__ import annotations

import textwrap  # noqa: F401
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_F], _F]:
    """Return a decorator that notes whether what it decorates stays as it is."""

    def mark(fn):
        _MARKED_WITH_COMPATIBILITY.setdefault(fn, None)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn, None)
        return fn

    return mark
