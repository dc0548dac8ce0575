"""Convert the weights of convolutions to a memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    from typing import TypeVar

    import facula
    from facula.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, classes: tuple, memory_format):
    if isinstance(module, classes):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, classes, memory_format)
    return module


def convert_conv2d_weight_memory_format(module: _M, memory_format: facula.memory_format) -> _M:
    """Lay out the weights of all Conv2d and ConvTranspose2d of a module anew, and return the module.

    Args:
        module: the module, which is changed in place.
        memory_format: such as ``torch.channels_last``, which then outputs have, too.

    >>> model = nn.Sequential(nn.Conv2d(8, 4, 3))
    >>> _ = nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
    >>> model[0].weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: _M, memory_format: facula.memory_format) -> _M:
    """Lay out the weights of all Conv3d and ConvTranspose3d of a module anew, and return the module.

    Args:
        module: the module, which is changed in place.
        memory_format: such as ``torch.channels_last_3d``, which then outputs have, too.

    >>> model = nn.Sequential(nn.Conv3d(8, 4, 3))
    >>> _ = nn.utils.convert_conv3d_weight_memory_format(model, torch.channels_last_3d)
    >>> model[0].weight.is_contiguous(memory_format=torch.channels_last_3d)
    True
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
