"""Convert state dicts to flat names, and tensors to parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ..tensor import DTensor, Partial, Replicate
from .metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata

if TYPE_CHECKING:
    from typing import Any


def flattened(state_dict) -> tuple[dict, dict]:
    """Return ({name: value}, {name: path}).

    A name joins keys by dots: those of nested dicts, and numbers in lists that have tensors or dicts in them.
    """
    flat: dict[Any, Any] = {}
    paths: dict[Any, Any] = {}

    def walk(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*path, key))
        elif isinstance(value, list) and _is_walked(value):
            for number, inner in enumerate(value):
                walk(inner, (*path, number))
        else:
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"save: two entries have one name, got {name!r} and {path}")
            flat[name], paths[name] = value, path

    walk(state_dict, ())
    return flat, paths


def _is_walked(values) -> bool:
    return any(isinstance(v, (dict, facula.Tensor)) or isinstance(v, list) and _is_walked(v) for v in values)


def told_path(state_dict, path) -> tuple:
    """Return a path as files have it: keys of dicts as text, numbers in lists as they are."""
    told = []
    for key in path:
        told.append(str(key) if isinstance(state_dict, dict) else key)
        state_dict = state_dict[key]
    return tuple(told)


def assign(state_dict, path, value) -> None:
    """Put a value at a path of nested dicts and lists."""
    for key in path[:-1]:
        state_dict = state_dict[key]
    state_dict[path[-1]] = value


def chunk_of(value) -> ChunkStorageMetadata:
    """Return the part that this process has."""
    if not isinstance(value, DTensor):
        return ChunkStorageMetadata(facula.Size([0] * value.dim()), value.shape)
    if any(isinstance(p, Partial) for p in value.placements):
        raise ValueError(f"save: a DTensor that is still to be summed is not saved, got {value.placements}")
    shape, offset = value._spec.local_shape_and_offset()
    return ChunkStorageMetadata(facula.Size(offset), facula.Size(shape))


def is_written_here(value, rank: int) -> bool:
    """Return whether this process writes its part: of parts that several have, the first."""
    if not isinstance(value, DTensor):
        return rank == 0
    coordinate = value.device_mesh.get_coordinate()
    first = all(c == 0 for c, p in zip(coordinate, value.placements) if isinstance(p, Replicate))
    # Empty parts are left out, but an empty tensor needs one part.
    return first and (value.to_local().numel() > 0 or (value.numel() == 0 and not any(coordinate)))


def described(value) -> TensorStorageMetadata:
    """Return a tensor without its parts."""
    properties = TensorProperties(dtype=value.dtype, requires_grad=value.requires_grad)
    return TensorStorageMetadata(properties, facula.Size(value.shape), [])


def part_of(value):
    """Return the part that this process has, as a Tensor."""
    return (value.to_local() if isinstance(value, DTensor) else value).detach()
