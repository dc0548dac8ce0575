"""Helpers around tensors and modules: data loading, checkpointing, hooks, pytrees."""

import importlib
import os
import pkgutil

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# For CMAKE_PREFIX_PATH: find_package(Facula), and apart from it find_package(Torch), for programs written for libtorch.
cmake_prefix_path = os.path.join(_package, "lib", "cmake")
torch_cmake_prefix_path = os.path.join(_package, "share", "compat", "cmake")


def __getattr__(name):
    if not name.startswith("_") and name in _modules():
        return importlib.import_module(f"{__name__}.{name}")
    from facula.compat import placeholders

    return placeholders.member("torch.utils", name)


def __dir__():
    return sorted(set(globals()) | _modules())


def _modules():
    return {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}


def set_module(obj, mod):
    """Makes `obj` say that it comes from module `mod`."""
    if not isinstance(mod, str):
        raise TypeError(f"set_module: expected a module name, got {mod!r}")
    obj.__module__ = mod
