"""Import submodules, names of other files and placeholders when a program first reads them from a module."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any


def _on_demand(module: str, modules: Collection[str] = (), **homes: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module: files below it and names from other files are imported when they are first used;
    for what PyTorch has and Facula has not, a placeholder stands, which is the same object each time.

    Args:
        module: its `__name__`.
        modules: files and packages below it.
        homes: name -> the module that has it.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # imports ask for __path__
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in modules:
            return importlib.import_module(f"{module}.{name}")
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
        else:
            from facula.compat import placeholders

            value = placeholders.member("torch" + module.removeprefix("facula"), name)
        setattr(sys.modules[module], name, value)
        return value

    return __getattr__
