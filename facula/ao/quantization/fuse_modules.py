"""Fuse neighboring layers of a model."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from facula import nn
from facula.nn.utils.parametrize import type_before_parametrizations

from .fuser_method_mappings import fuse_conv_bn, fuse_conv_bn_relu, get_fuser_method  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def fuse_known_modules(mod_list: Sequence[Module], is_qat: bool,
                       additional_fuser_method_mapping: dict[Sequence[type], Any] | None = None) -> list[Any]:  # fmt: skip
    """Return the layers that `get_fuser_method` knows, made one: the first of the list is it, the others are nn.Identity.

    Hooks before the first layer and after the last one stay.

    Args:
        mod_list: layers that follow each other.
        is_qat: if True, they go on training.
        additional_fuser_method_mapping: as for `get_fuser_method`.

    Errors: AssertionError for other layers.

    >>> from torch.ao.quantization.fuse_modules import fuse_known_modules
    >>> fuse_known_modules([nn.Linear(2, 1), nn.ReLU()], is_qat=False)
    [LinearReLU(
      (0): Linear(in_features=2, out_features=1, bias=True)
      (1): ReLU()
    ), Identity()]
    """
    kinds = tuple(type_before_parametrizations(module) for module in mod_list)
    fuser = get_fuser_method(kinds, additional_fuser_method_mapping)
    before, after = mod_list[0]._forward_pre_hooks, mod_list[-1]._forward_hooks
    taken = list(before.values()), list(after.values())
    before.clear()
    after.clear()
    fused = fuser(is_qat, *mod_list)
    for hook in taken[0]:
        fused.register_forward_pre_hook(hook)
    for hook in taken[1]:
        fused.register_forward_hook(hook)
    made = [fused]
    for _ in mod_list[1:]:
        identity = nn.Identity()
        identity.training = mod_list[0].training
        made.append(identity)
    return made


def _fuse(model, names, is_qat, fuser_func, config):
    """Put what the fuser makes of the modules of these names in their places."""
    additional = config.get("additional_fuser_method_mapping", {})
    made = fuser_func([model.get_submodule(name) for name in names], is_qat, additional)
    for name, module in zip(names, made):
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, module)


def _fuse_modules(model, modules_to_fuse, is_qat, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    if not inplace:
        model = copy.deepcopy(model)
    lists = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in lists:
        _fuse(model, names, is_qat, fuser_func, fuse_custom_config_dict or {})
    return model


def fuse_modules(model: Module, modules_to_fuse: Sequence[Sequence[str] | str], inplace: bool = False,
                 fuser_func: Callable[..., Any] = fuse_known_modules,
                 fuse_custom_config_dict: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Return the model with layers fused that follow each other: convolution, batch normalization, ReLU; linear, ReLU; and so
    on.

    Args:
        model: in evaluation mode, where batch normalizations are among the layers.
        modules_to_fuse: a list of names of layers, or a list of such lists.
        inplace: if True, change the model, otherwise a copy.
        fuser_func: what makes a list of modules of a list of modules, `fuse_known_modules`.
        fuse_custom_config_dict: a dictionary with `additional_fuser_method_mapping`, as for `get_fuser_method`.

    Errors: AssertionError for layers that cannot be one.

    Example::

        >>> from torch.ao.quantization import fuse_modules
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
        >>> [type(layer).__name__ for layer in fuse_modules(model, ["0", "1", "2"])]
        ['ConvReLU2d', 'Identity', 'Identity']
    """
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model: Module, modules_to_fuse: Sequence[Sequence[str] | str], inplace: bool = False,
                     fuser_func: Callable[..., Any] = fuse_known_modules,
                     fuse_custom_config_dict: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Return what `fuse_modules` gives, of a model that goes on training: batch normalizations stay, within containers.

    Args:
        model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict: as for `fuse_modules`, the model in training
            mode.

    >>> from torch.ao.quantization import fuse_modules_qat
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    >>> type(fuse_modules_qat(model, ["0", "1", "2"])[0]).__name__
    'ConvBnReLU2d'
    """
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
