"""Join all parameters in one vector, and split the vector again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_same_device(parameters: list) -> None:
    devices = {p.device for p in parameters}
    if len(devices) > 1:
        raise TypeError(
            f"parameters_to_vector: all parameters must be on one device, got {sorted(map(str, devices))}"
        )


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """Return the values of all parameters as one vector, with gradient.

    Args:
        parameters: an iterable of tensors on one device.

    Returns: a vector of as many elements as the parameters have together.

    Errors: TypeError for several devices.

    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.parameters_to_vector(layer.parameters()).shape
    torch.Size([3])
    """
    parameters = list(parameters)
    _check_same_device(parameters)
    return facula.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Cut a vector into pieces and make each the data of a parameter; memory is shared with the vector.

    Args:
        vec: a vector of as many elements as the parameters have together.
        parameters: an iterable of tensors on one device.

    Errors: TypeError for a vec that is not a tensor, or several devices.

    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, facula.Tensor):
        raise TypeError(f"vector_to_parameters: vec must be a Tensor, got {type(vec).__name__}")
    parameters = list(parameters)
    _check_same_device(parameters)
    start = 0
    for p in parameters:
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
