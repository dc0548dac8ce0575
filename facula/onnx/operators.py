"""Define two functions that represent sizes as tensors in a traced program; here sizes that vary are recorded anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from facula import Tensor


def shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of `x` as an int64 tensor.

    Args:
        x: a tensor.

    >>> from facula.onnx.operators import shape_as_tensor
    >>> shape_as_tensor(torch.ones(2, 3))
    tensor([2, 3])
    """
    return facula.tensor(list(x.shape), dtype=facula.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """Return `x` with the sizes that a tensor holds.

    Args:
        x: a tensor.
        shape: an int64 tensor of sizes, one of which may be -1.

    >>> from facula.onnx.operators import reshape_from_tensor_shape
    >>> reshape_from_tensor_shape(torch.ones(2, 3), torch.tensor([3, -1])).shape
    torch.Size([3, 2])
    """
    return x.reshape(shape.tolist())
