"""Two functions that keep sizes as tensors in a traced program; here sizes that vary are recorded anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of `x` as an int64 tensor."""
    return facula.tensor(list(x.shape), dtype=facula.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` with the sizes that a tensor holds."""
    return x.reshape(shape.tolist())
