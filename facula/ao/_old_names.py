"""Provide modules that moved below `ao` under their old names; these lead to the same modules."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def same_modules(old: Any, new: Any) -> list[str]:
    """Make the modules below the package `new` known below the package `old` too; return the names of those directly below.

    All of them are loaded, so that none is loaded a second time under its old name.
    """
    direct = []
    package = importlib.import_module(new)
    for found in pkgutil.walk_packages(package.__path__, f"{new}."):
        below = found.name[len(new) + 1 :]
        if any(part.startswith("_") for part in below.split(".")):
            continue
        module = sys.modules[f"{old}.{below}"] = importlib.import_module(found.name)
        if "." not in below and not hasattr(sys.modules[old], below):  # a function may have the name of its module
            setattr(sys.modules[old], below, module)
            direct.append(below)
    return direct
