"""Define helpers around tensors and modules: data loading, checkpointing, hooks, pytrees."""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

    from ._summary import summary as summary

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: for CMAKE_PREFIX_PATH: both find_package(Facula) and find_package(Torch), for programs written for libtorch
cmake_prefix_path: str = os.path.join(_package, "share", "cmake")
#: the same with find_package(Facula) alone, for builds that have libtorch from elsewhere
facula_cmake_prefix_path: str = os.path.join(_package, "lib", "cmake")


def __getattr__(name: str) -> Any:
    if name == "summary":
        from ._summary import summary as summary

        return globals().setdefault(name, summary)
    if not name.startswith("_") and name in _modules():
        return importlib.import_module(f"{__name__}.{name}")
    from facula.compat import placeholders

    return placeholders.member("torch.utils", name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | _modules() | {"summary"})


def _modules():
    return {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}


def set_module(obj: Any, mod: str) -> None:
    """Make `obj`, a class or function, say that it comes from the module `mod`.

    Errors: TypeError for a name that is no str.

    >>> def example():
    ...     pass
    >>> torch.utils.set_module(example, "package.module")
    >>> example.__module__
    'package.module'
    """
    if not isinstance(mod, str):
        raise TypeError(f"set_module: expected a module name, got {mod!r}")
    obj.__module__ = mod


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: memory, shape, class, gradient and attributes. Both objects stay, and a graph that was
    recorded with one of them before can no longer be walked to it.

    Args:
        t1, t2: the tensors.

    Errors: RuntimeError where something else than the object refers to a tensor (a weak reference, a view, a value that a graph
        saved), and for classes with other slots.

    >>> a, b = torch.zeros(2), torch.ones(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    import copyreg
    import weakref

    from facula import _C

    for tensor in (t1, t2):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(
                f"swap_tensors: a tensor without weak references is expected, got a {type(tensor).__name__} that has one"
            )
    slots = [set(copyreg._slotnames(type(t))) for t in (t1, t2)]
    if slots[0] != slots[1]:
        raise RuntimeError(f"swap_tensors: classes with the same slots are expected, got {slots[0]} and {slots[1]}")
    _C._swap_tensors(t1, t2)
    for name in slots[0]:
        values = [getattr(t, name, None) for t in (t1, t2)]
        for tensor, value in zip((t1, t2), reversed(values), strict=True):
            if value is not None or hasattr(tensor, name):
                setattr(tensor, name, value)
