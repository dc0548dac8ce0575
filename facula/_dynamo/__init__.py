"""What `compile` makes of a module. Nothing is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula._on_demand import _on_demand

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(nn.Module):
    """A module under the name `_orig_mod`; attributes are those of the module inside, and so are new ones.

    Args:
        mod: the module.
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.training: bool = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._modules["_orig_mod"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" or "_orig_mod" not in modules:
            return super().__getattr__(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

__getattr__ = _on_demand(__name__)


from . import eval_frame  # noqa: E402, F401  programs reach it as an attribute
