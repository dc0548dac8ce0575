"""Define the padding functions of nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared import autocast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = ["pad"]

_nn = _C.nn_functional


def pad(input: Tensor, pad: Sequence[int] | tuple[int, ...], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add elements (or, with negative numbers, remove them) at both ends of the last dimensions.

    Args:
        input: the values, of any shape; 'reflect', 'replicate' and 'circular' pad at most the last three dimensions.
        pad: (before, after) of the last dimension, then of the last but one, ...
        mode: 'constant', 'reflect' (mirrored without the edge), 'replicate' (the edge) or 'circular' (the other end).
        value: the number that the constant mode adds. Default: 0.

    Returns: a tensor like input, whose padded dimensions are longer by the sum of their two numbers.

    Errors: RuntimeError for an odd number of entries, more of them than the input has ends, a value with another mode than
    'constant', and a result with a negative size (with the other modes also one without elements); NotImplementedError for
    another mode, or a mode that does not take so many dimensions.

    >>> x = torch.tensor([[1, 2, 3]])
    >>> F.pad(x, (1, 2), value=9)
    tensor([[9, 1, 2, 3, 9, 9]])
    >>> F.pad(x, (2, 0), mode="reflect"), F.pad(x, (0, -1))
    (tensor([[3, 2, 1, 2, 3]]), tensor([[1, 2]]))
    """
    if mode != "constant" and _C._is_autocast_enabled("cpu") and (mode == "replicate" or mode == "reflect" and len(pad) <= 4):
        input = autocast.cast(input, facula.float32, ("cpu",))
    return _nn.pad(input, pad, mode, value)
