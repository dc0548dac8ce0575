"""Choose how modules convert and load their parameters.

They hold for the whole process.
"""

from __future__ import annotations

__all__ = [
    "set_overwrite_module_params_on_conversion", "get_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion", "get_swap_module_params_on_conversion",
]  # fmt: skip

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of a module (`Module.to`, `Module.double` and others) make new parameters. By default they
    give the parameters that are there new values.

    Args:
        value: whether new ones are made.

    >>> layer = nn.Linear(2, 1)
    >>> before = layer.weight
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer.double().weight is before
    False
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions of a module make new parameters.

    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of a module, and `Module.load_state_dict`, exchange each parameter with the converted one by
    `torch.utils.swap_tensors`. So parameters of any class can be converted, and references to them stay good.

    Args:
        value: whether they do.

    >>> layer = nn.Linear(2, 1)
    >>> before = layer.weight
    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> layer.double().weight is before, before.dtype
    (True, torch.float64)
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Return whether conversions of a module exchange parameters with the converted ones.

    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swap
