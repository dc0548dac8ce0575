"""Implement the import hook that makes `torch.x.y` the same module as `facula.x.y`.

Both names lead to one module object, so classes compare equal whichever way a program reached them. Where
Facula has no such module, one of the known names gives a placeholder module (placeholders.py).

Finders and loaders are known by their methods: a base of `importlib.abc` would load a dozen modules with it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING

from facula.compat import placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from facula import Tensor

#: PyTorch's packages, and what stands in their places
_PACKAGES = {"torch": "facula", "functorch": "facula.compat.functorch"}
#: modules without a file: the module that puts each in sys.modules
_MADE_BY = {"facula._C._nn": "facula.fx._public"}


def facula_name(name: str) -> str:
    """Return the name of a module in Facula: facula.nn for torch.nn."""
    package, dot, rest = name.partition(".")
    return f"{_PACKAGES[package]}{dot}{rest}"


class TorchFinder:
    """Find `torch` and `functorch`, and everything below them, for the import system and importlib.metadata."""

    def find_spec(self, fullname: str, path: Any = None, target: Tensor | None = None) -> Any:
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        own = facula_name(fullname)
        origin, is_package = _locate(own)
        if origin is None:
            if not placeholders.is_known_module(fullname):
                return None
            origin, is_package = "facula placeholder", True
        spec = importlib.machinery.ModuleSpec(
            fullname, _AliasLoader(own), origin=origin, is_package=is_package
        )
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        if context is None or context.name is None or context.name.lower() == "torch":
            from facula.compat._distribution import Distribution

            yield Distribution()


def _locate(own):
    """Return (origin, whether a package) of the Facula module called so; (None, False) where there is none."""
    if own in _MADE_BY:
        importlib.import_module(_MADE_BY[own])
    module = sys.modules.get(own)
    if module is None:
        try:
            spec = importlib.util.find_spec(own)
        except (ModuleNotFoundError, ValueError):  # the parent is no package
            spec = None
        if spec is None:
            return None, False
        return spec.origin or own, spec.submodule_search_locations is not None
    return getattr(module, "__file__", None) or own, hasattr(module, "__path__")


class _AliasLoader:
    """Load a `torch` name by importing the Facula module that it stands for."""

    def __init__(self, own):
        self._own = own

    def create_module(self, spec):
        try:
            module = importlib.import_module(self._own)
        except ModuleNotFoundError as error:
            if error.name != self._own and not self._own.startswith(f"{error.name}."):
                raise
            return placeholders.make_module(spec.name)
        self._original_spec = module.__spec__
        return placeholders.complete_module(module, spec.name)

    def exec_module(self, module):
        # The import system has just put the `torch` spec on the module, which keeps its own.
        if hasattr(self, "_original_spec"):
            module.__spec__ = self._original_spec
        if self._own == "facula":
            module.__name__ = "torch"  # programs compare it
        _keep_shadows(module, self._own)
        placeholders.complete_loaded()


def _keep_shadows(package, own):
    """Keep functions that have the name of the module that they come from: loading it again would put the module there."""
    for name, module in list(sys.modules.items()):
        parent, _, child = name.rpartition(".")
        if parent == own and getattr(package, child, module) is not module:
            sys.modules.setdefault("torch" + name.removeprefix("facula"), module)
