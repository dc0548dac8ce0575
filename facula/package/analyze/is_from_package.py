"""Whether something came out of a package."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from .._mangling import is_mangled

if TYPE_CHECKING:
    from typing import Any


def is_from_package(obj: Any) -> bool:
    """Whether a module is one of an imported package's, or an object an instance of a class of one."""
    return is_mangled(obj.__name__) if type(obj) is ModuleType else is_mangled(type(obj).__module__)
