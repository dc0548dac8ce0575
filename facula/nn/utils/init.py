"""Make a module without spending time on its initial values."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ..modules.module import Module

if TYPE_CHECKING:
    from typing import Any

__all__ = ["skip_init"]


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Module:
    """Return ``module_cls(*args, **kwargs)`` with uninitialized parameters and buffers: made on the meta device, then given
    memory.

    Args:
        module_cls: a class of modules that takes a ``device`` and passes it to everything that it makes.
        args, kwargs: what it is called with; ``device`` is where the module shall be, by default the CPU.

    Errors: RuntimeError for something that is no such class.

    >>> nn.utils.skip_init(nn.Linear, 20, 30).weight.shape
    torch.Size([30, 20])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: needs a Module class, got {module_cls!r}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: the class must take a device argument, got {module_cls.__name__}")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
