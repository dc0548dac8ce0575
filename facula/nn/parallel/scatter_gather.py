"""Split arguments over devices and join results, through tuples, lists, dicts and named tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["scatter", "scatter_kwargs", "gather", "is_namedtuple"]


def is_namedtuple(obj: Any) -> bool:
    """Return whether an object is an instance of a named tuple.

    Args:
        obj: any object.

    >>> from torch.nn.parallel.scatter_gather import is_namedtuple
    >>> is_namedtuple(nn.utils.rnn.pack_sequence([torch.ones(2)])), is_namedtuple((1, 2))
    (True, False)
    """
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _rebuild(like, values):
    """Return ``values`` in a container of the class of ``like``."""
    return type(like)(*values) if is_namedtuple(like) else type(like)(values)


def scatter(inputs: Any, target_gpus: Sequence[str], dim: int = 0) -> list[Any]:
    """Split tensors into chunks, one for each device; other values are given to every device.

    Args:
        inputs: a tensor, or tuples, lists and dicts of tensors and other values.
        target_gpus: the devices.
        dim: the dimension that is split.

    Returns:
        a list with one set of inputs per device (fewer when a tensor has fewer chunks).

    >>> nn.parallel.scatter({"x": torch.arange(4), "scale": 2}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'scale': 2}, {'x': tensor([2, 3]), 'scale': 2}]
    """
    devices = [facula.device(d) if isinstance(d, str) else d for d in target_gpus]

    def split(obj) -> list:
        if isinstance(obj, facula.Tensor):
            return [chunk.to(device) for chunk, device in zip(obj.chunk(len(devices), dim), devices)]
        if isinstance(obj, (tuple, list)) and obj:
            return [_rebuild(obj, values) for values in zip(*map(split, obj))]
        if isinstance(obj, dict) and obj:
            return [type(obj)(zip(obj, values)) for values in zip(*map(split, obj.values()))]
        return [obj for _ in devices]

    return split(inputs)


def scatter_kwargs(inputs: tuple[Any, ...], kwargs: dict[Any, Any] | None, target_gpus: Any,
                   dim: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...]]:  # fmt: skip
    """Return `scatter` of positional arguments and those by name, filled up to the same number of devices.

    Args:
        inputs: a tuple.
        kwargs: a dict, or None.
        target_gpus: the devices.
        dim: the dimension that is split.

    Returns: two tuples, of tuples and of dicts.

    >>> from torch.nn.parallel.scatter_gather import scatter_kwargs
    >>> scatter_kwargs((torch.arange(4),), None, ["cpu", "cpu"])
    (((tensor([0, 1]),), (tensor([2, 3]),)), ({}, {}))
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    keywords = scatter(kwargs, target_gpus, dim) if kwargs else []
    n = max(len(positional), len(keywords))
    positional += [()] * (n - len(positional))
    keywords += [{}] * (n - len(keywords))
    return tuple(positional), tuple(keywords)


def gather(outputs: Any, target_device: str, dim: int = 0) -> Tensor:
    """Join the results of several devices: tensors are concatenated, numbers stacked, and lists, tuples and dicts joined by
    entry.

    Args:
        outputs: an iterable of results of one structure.
        target_device: the device on which they are joined.
        dim: the dimension of the batch.

    Returns: a result of the same structure.

    Errors: ValueError for no results, or dicts of different sizes; TypeError for other values.

    >>> nn.parallel.gather([{"x": torch.zeros(2)}, {"x": torch.ones(1)}], "cpu")
    {'x': tensor([0., 0., 1.])}
    """

    def join(values: list):
        first = values[0]
        if isinstance(first, facula.Tensor):
            moved = [v.to(target_device) for v in values]
            return facula.stack(moved) if first.dim() == 0 else facula.cat(moved, dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if not all(len(first) == len(v) for v in values):
                raise ValueError(
                    f"gather: all dicts must have the same keys, got sizes {[len(v) for v in values]}"
                )
            return type(first)((key, join([v[key] for v in values])) for key in first)
        if not isinstance(first, (list, tuple)):
            raise TypeError(f"gather: expected tensors, or lists, tuples and dicts of them, got {type(first).__name__}")
        return _rebuild(first, [join(list(group)) for group in zip(*values)])

    values = list(outputs)
    if not values:
        raise ValueError("gather: expected the results of one device or more, got none")
    return join(values)
