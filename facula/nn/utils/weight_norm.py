"""Weight normalisation by a forward pre-hook: weight = g * v / ||v||."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import facula

from ..modules.module import Module
from ..parameter import Parameter, UninitializedParameter

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["WeightNorm", "weight_norm", "remove_weight_norm"]


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """2-norm over all dimensions but ``dim`` (kept with size 1); over all of them for -1."""
    if dim == -1:
        return facula.linalg.vector_norm(v, 2)
    dims = [d for d in range(v.dim()) if d != dim]
    return facula.linalg.vector_norm(v, 2, dims, keepdim=True) if dims else v.abs()


class WeightNorm:
    """The pre-hook: before every call it computes ``name`` from ``name_g`` and ``name_v``."""

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from its length and direction."""
        g = getattr(module, self.name + "_g")
        v = getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace the parameter ``name`` of ``module`` by its length and direction, and register the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"weight_norm: the parameter already has one, got {name!r}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(f"weight_norm: run the lazy module once before, got uninitialised {name!r}")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, fn.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again, with its current value."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a parameter into length ``name_g`` and direction ``name_v``; return the module.

    Args:
        name: the parameter.
        dim: lengths are taken per index of this dimension; None: one for the whole tensor.
    """
    warnings.warn(
        "weight_norm: deprecated, use nn.utils.parametrizations.weight_norm", FutureWarning, stacklevel=2
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`; return the module."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"remove_weight_norm: {type(module).__name__} has no such normalisation, got {name!r}")
