"""Import modules from the running Python, or from packages."""

from __future__ import annotations

import importlib
import pickle
import types
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from facula._serialization.classes import facula_name, function_home, torch_name

from ._mangling import demangle, get_mangle_prefix, is_mangled

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ObjNotFoundError", "ObjMismatchError", "Importer", "OrderedImporter", "sys_importer"]


class ObjNotFoundError(Exception):
    """Report that an importer has nothing of the name that an object claims to have."""


class ObjMismatchError(Exception):
    """Report that an importer has another object of that name."""


def _where(module):
    return get_mangle_prefix(module) if is_mangled(module) else "the current Python environment"


def _whose(module):
    return f"the importer for {get_mangle_prefix(module)}" if is_mangled(module) else "'sys_importer'"


def _walk(module, name):
    """Return module.a.b for "a.b"; AttributeError where it has none."""
    for part in name.split("."):
        if part == "<locals>":
            raise AttributeError(f"{name!r} is local to a function")
        module = getattr(module, part)
    return module


class Importer(ABC):
    """Find modules by name, and the names of classes and functions in them.

    Subclasses define `import_module(module_name)`, which gives the module. `sys_importer` is that of the running Python.

    >>> importer = torch.package.sys_importer
    >>> importer.import_module("torch.nn") is nn
    True
    >>> importer.get_name(nn.Linear), importer.whichmodule(nn.Linear, "Linear")
    (('torch.nn.modules.linear', 'Linear'), 'torch.nn.modules.linear')
    """

    modules: dict[Any, Any]

    @abstractmethod
    def import_module(self, module_name: str) -> None:
        """Return the module called `module_name`; ModuleNotFoundError where there is none."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """Return the names (of its module, in it) by which this importer finds `obj`.

        Args:
            obj: a class, a function, or an object that knows its name.
            name: in the module; default: what the object says.

        Errors: ObjNotFoundError where this importer has nothing of the name, ObjMismatchError where it has something else.
        """
        if name is None:
            reduced = getattr(obj, "__reduce__", None) if not isinstance(obj, type) else None
            said = reduced() if reduced is not None and not isinstance(obj, types.FunctionType) else None
            name = said if isinstance(said, str) else getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
            if name is None:
                raise ObjNotFoundError(f"get_name: a {type(obj).__name__} has no name to be found by, got {obj!r}")
        home = self.whichmodule(obj, name)
        own = demangle(home)
        try:
            found = _walk(self.import_module(own), name)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {own}.{name}") from None
        if found is obj:
            return own, name
        other = getattr(found, "__module__", None) or own
        raise ObjMismatchError(
            f"get_name: {name} of {own!r} comes from {_where(home)}, but importing {own!r} gives another one, from "
            f"{_where(other)}; PackageExporter's importers must list {_whose(home)} before {_whose(other)}, got {obj!r}"
        )

    def whichmodule(self, obj: Any, name: str) -> str:
        """Return the name of the module that `obj` says it is from, "__main__" where it says nothing."""
        home = getattr(obj, "__module__", None)
        return home if isinstance(home, str) else self._search(obj, name)

    def _search(self, obj, name):
        for module_name, module in list(self.modules.items()):
            if module_name in ("__main__", "__mp_main__") or module is None:
                continue
            try:
                if _walk(module, name) is obj:
                    return module_name
            except AttributeError:
                continue
        return "__main__"


class _SysImporter(Importer):
    """Import from the running Python. Modules of PyTorch are Facula's, whether or not `import torch` gives them here."""

    def import_module(self, module_name: str) -> ModuleType:
        own = facula_name(module_name)
        if own == module_name:
            return importlib.import_module(module_name)
        try:
            return importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name is None or not (own == error.name or own.startswith(f"{error.name}.")):
                raise
        from facula.compat import placeholders

        if not placeholders.is_known_module(module_name):
            raise ModuleNotFoundError(f"No module named {module_name!r}", name=module_name)
        parent, _, last = module_name.rpartition(".")
        return placeholders.member(parent, last)

    def whichmodule(self, obj: Any, name: str) -> str:
        home = function_home(obj) or getattr(obj, "__module__", None)
        return torch_name(home if isinstance(home, str) else pickle.whichmodule(obj, name))


#: The importer of the running Python.
sys_importer: Any = _SysImporter()


def _is_folder_only(module):
    """Return whether a module of a package has no source there: something below it was packed, and it was not."""
    is_packed = getattr(module, "__torch_package__", False)
    return is_packed and getattr(module, "__file__", None) is None and hasattr(module, "__path__")


class OrderedImporter(Importer):
    """Try several importers in order; the first one that has a module imports it.

    Args:
        *args: the importers, for example that of a package and `sys_importer`.

    Errors: TypeError for what is no importer.

    >>> importer = torch.package.OrderedImporter(torch.package.sys_importer)
    >>> importer.import_module("math").floor(2.5)
    2
    """

    def __init__(self, *args: Any) -> None:
        for importer in args:
            if not isinstance(importer, Importer):
                raise TypeError(f"OrderedImporter: all arguments must be importers, got {type(importer).__name__}")
        self._importers = list(args)

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """Return what `Importer.get_name` gives, of the first importer that finds the object; the last one's error where none
        does."""
        error = None
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as raised:
                error = error if isinstance(error, ObjMismatchError) else raised
        raise error or ObjNotFoundError(f"get_name: there are no importers to find it, got {obj!r}")

    def import_module(self, module_name: str) -> ModuleType:
        error = None
        for importer in self._importers:
            if not hasattr(importer, "import_module"):
                continue
            try:
                module = importer.import_module(module_name)
            except ModuleNotFoundError as raised:
                error = raised
                continue
            if not _is_folder_only(module):
                return module
        raise error or ModuleNotFoundError(f"No module named {module_name!r}", name=module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        for importer in self._importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"
