"""Apply weight normalization by a forward pre-hook: weight = g * v / ||v||."""

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
    """Return the 2-norm over all dimensions but ``dim`` (kept with size 1); over all of them for -1."""
    if dim == -1:
        return facula.linalg.vector_norm(v, 2)
    dims = [d for d in range(v.dim()) if d != dim]
    return facula.linalg.vector_norm(v, 2, dims, keepdim=True) if dims else v.abs()


class WeightNorm:
    """Compute ``name`` from ``name_g`` and ``name_v`` before every call of a module: the hook of `weight_norm`.

    Args:
        name: the name of the parameter.
        dim: lengths are taken per index of this dimension; None: one for the whole tensor.

    >>> from torch.nn.utils.weight_norm import WeightNorm
    >>> layer = nn.Linear(3, 2)
    >>> hook = WeightNorm.apply(layer, "weight", 0)
    >>> layer.weight_g.shape, layer.weight_v.shape, hook.compute_weight(layer).shape
    (torch.Size([2, 1]), torch.Size([2, 3]), torch.Size([2, 3]))
    >>> hook.remove(layer)
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight from its length and direction: ``g * v / norm(v)``.

        Args:
            module: has both.
        """
        g = getattr(module, self.name + "_g")
        v = getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by its length and direction, register the hook, and return it.

        Args:
            module: has the parameter.
            name: the name of the parameter.
            dim: lengths are taken per index of this dimension; None: one for the whole tensor.

        Errors: RuntimeError for a parameter that has such a hook already; ValueError for a lazy module before its first call.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"weight_norm: the parameter already has one, got {name!r}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(f"weight_norm: run the lazy module once, it may have uninitialized parameters, got {name!r}")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, fn.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again, with its present value; the hook itself stays registered, see
        `remove_weight_norm`.

        Args:
            module: that of `apply`.
        """
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a parameter into its length ``name_g`` and its direction ``name_v``: ``weight = g * v / norm(v)``; return the
    module.

    Deprecated, and warns: `nn.utils.parametrizations.weight_norm` does the same with a parametrization.

    Args:
        module: the module that has the parameter; it is changed in place.
        name: the name of the parameter.
        dim: lengths are taken per index of this dimension; None: one for the whole tensor.

    Returns: the module.

    Errors: RuntimeError for a second time; ValueError for a lazy module before its first call.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    warnings.warn(
        "weight_norm: deprecated, use nn.utils.parametrizations.weight_norm", FutureWarning, stacklevel=2
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`: the present value becomes the parameter.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.

    Returns: the module.

    Errors: ValueError for a parameter that is not normalized.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2)))
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"remove_weight_norm: {type(module).__name__} has no such normalization, got {name!r}")
