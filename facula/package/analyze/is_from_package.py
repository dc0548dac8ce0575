"""Tell whether an object came out of a package."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from .._mangling import is_mangled

if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_from_package"]


def is_from_package(obj: Any) -> bool:
    """Return whether `obj`, a module, is one of an imported package's, or another object an instance of a class of one.

    >>> torch.package.is_from_package(nn), torch.package.is_from_package(nn.Linear(1, 1))
    (False, False)
    """
    return is_mangled(obj.__name__) if type(obj) is ModuleType else is_mangled(type(obj).__module__)
