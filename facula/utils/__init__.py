"""Helpers around tensors and modules: data loading, checkpointing, hooks, pytrees."""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# For CMAKE_PREFIX_PATH: find_package(Facula), and apart from it find_package(Torch), for programs written for libtorch. Where
# Facula is `torch`, a build that asks for the first means the second.
cmake_prefix_path: str
facula_cmake_prefix_path: str = os.path.join(_package, "lib", "cmake")
torch_cmake_prefix_path: str = os.path.join(_package, "share", "compat", "cmake")


def __getattr__(name: str) -> Any:
    if name == "cmake_prefix_path":
        from facula import compat

        return torch_cmake_prefix_path if compat.is_installed() else facula_cmake_prefix_path
    if not name.startswith("_") and name in _modules():
        return importlib.import_module(f"{__name__}.{name}")
    from facula.compat import placeholders

    return placeholders.member("torch.utils", name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | _modules())


def _modules():
    return {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}


def set_module(obj: Any, mod: str) -> None:
    """Makes `obj`, a class or function, say that it comes from the module `mod`. Errors: TypeError for a name that is no str.

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
    """Exchanges what two tensors are: memory, shape, gradient and attributes. Both objects stay.

    Args:
        t1, t2: leaves of one class.

    Errors: RuntimeError for tensors that ops gave and that have weak references; NotImplementedError for two classes, whose
        objects cannot become each other here.

    >>> a, b = torch.zeros(2), torch.ones(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    import weakref

    for tensor in (t1, t2):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {type(tensor).__name__} because it has weakref associated with it")
        if not tensor.is_leaf:
            raise RuntimeError(f"swap_tensors: only leaves are exchanged, got one with grad_fn {tensor.grad_fn}")
    if type(t1) is not type(t2):
        kinds = f"{type(t1).__name__} and {type(t2).__name__}"
        raise NotImplementedError(f"swap_tensors: tensors must be of one class, got {kinds}")
    states = [(t.data, t.requires_grad, t.grad, dict(vars(t))) for t in (t1, t2)]
    for tensor, (data, requires_grad, grad, attributes) in zip((t1, t2), reversed(states), strict=True):
        tensor.grad = None
        tensor.requires_grad_(False)
        tensor.data = data
        if requires_grad:
            tensor.requires_grad_()
        tensor.grad = grad
        vars(tensor).clear()
        vars(tensor).update(attributes)
