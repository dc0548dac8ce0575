"""Padding in nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C, _autocast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

_nn = _C.nn_functional


def pad(input: Tensor, pad: Sequence[int] | tuple[int, ...], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add elements (or, with negative numbers, remove them) at both ends of the last dimensions.

    Args:
        pad: (before, after) of the last dimension, then of the last but one, ...
        mode: 'constant', 'reflect', 'replicate' or 'circular'.
        value: of the constant mode. Default: 0.
    """
    if mode != "constant" and _C._is_autocast_enabled("cpu") and (mode == "replicate" or mode == "reflect" and len(pad) <= 4):
        input = _autocast.cast(input, facula.float32, ("cpu",))
    return _nn.pad(input, pad, mode, value)
