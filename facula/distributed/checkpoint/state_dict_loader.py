"""Load checkpoints, also with another number of processes than saved them: each process reads the parts that overlap
what it needs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

from ._state import assign, chunk_of, flattened, part_of
from .default_planner import DefaultLoadPlanner, checked
from .filesystem import CheckpointException, FileSystemReader
from .metadata import MetadataIndex, TensorStorageMetadata
from .state_dict_saver import _world, with_states

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["load", "load_state_dict"]


def load(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None,
         planner: DefaultLoadPlanner | None = None, process_group: ProcessGroup | None = None, no_dist: bool = False) -> None:
    """Fill a state dict from a checkpoint: tensors in place, everything else by replacing it. All processes call it.

    It may have been saved by another number of processes, and by PyTorch.

    Args:
        state_dict: what to load; names that the checkpoint has beside it are left out. Objects with `load_state_dict()` get
            theirs.
        checkpoint_id: a folder. RuntimeError where neither it nor `storage_reader` is given.
        storage_reader: a FileSystemReader, in the place of it.
        planner: a DefaultLoadPlanner; NotImplementedError for one of your own.
        process_group: the processes; they learn of each other's failures. Default: all.
        no_dist: whether this process loads alone.
    Raises:
        CheckpointException: a name is missing, a size differs, or files are damaged; also when another process failed.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> state = {"x": torch.zeros(2), "step": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2), "step": 3}, checkpoint_id=folder)
    ...     dcp.load(state, checkpoint_id=folder)
    >>> state
    {'x': tensor([1., 1.]), 'step': 3}
    """
    partial = checked("load", planner, DefaultLoadPlanner).allow_partial_load
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("load: checkpoint_id or storage_reader must be given, got neither")
        storage_reader = FileSystemReader(os.fspath(checkpoint_id))
    if not isinstance(storage_reader, FileSystemReader):
        raise NotImplementedError(f"load: expected a FileSystemReader, got {type(storage_reader).__name__}")
    rank, size = _world(process_group, no_dist)
    error, state = None, with_states(state_dict)
    try:
        _fill(state, storage_reader, partial)
    except Exception as failure:
        # Raised later: the other processes have to learn of it, or they would wait for this one.
        error = failure
    if size > 1:
        everybody: list[Any] = [None] * size
        dist.all_gather_object(everybody, None if error is None else f"{type(error).__name__}: {error}", group=process_group)
        failed = {r: text for r, text in enumerate(everybody) if text is not None}
        if failed:
            raise CheckpointException(f"load: processes failed, got {failed}") from error
    elif error is not None:
        raise error
    for key, value in state.items():
        if state_dict[key] is not value and hasattr(state_dict[key], "load_state_dict"):
            state_dict[key].load_state_dict(value)
        else:
            state_dict[key] = value


def _fill(state, reader: FileSystemReader, partial: bool) -> None:
    metadata = reader.read_metadata()
    flat, paths = flattened(state)
    for name, value in flat.items():
        found = metadata.state_dict_metadata.get(name)
        if found is None and partial:
            continue
        if found is None:
            raise CheckpointException(f"load: the checkpoint has no entry of this name, got {name!r}")
        if isinstance(value, facula.Tensor):
            _fill_tensor(name, value, found, metadata.storage_data, reader)
        else:
            assign(state, paths[name], reader.read(_place(metadata.storage_data, MetadataIndex(name))))


def _place(storage, index: MetadataIndex):
    if index not in storage:
        raise CheckpointException(f"load: .metadata does not say where an entry is, got {index}")
    return storage[index]


def _fill_tensor(name, value, found, storage, reader) -> None:
    if not isinstance(found, TensorStorageMetadata) or tuple(found.size) != tuple(value.shape):
        sizes = tuple(found.size) if isinstance(found, TensorStorageMetadata) else "no tensor"
        raise CheckpointException(f"load: {name} has shape {tuple(value.shape)} here, got {sizes} in the checkpoint")
    mine, target, filled = chunk_of(value), part_of(value), 0
    with facula.no_grad():
        for chunk in found.chunks:
            here, there = _overlap(mine, chunk)
            if here is None:
                continue
            part = reader.read(_place(storage, MetadataIndex(name, facula.Size(chunk.offsets))))
            if not isinstance(part, facula.Tensor) or tuple(part.shape) != tuple(chunk.sizes):
                got = getattr(part, "shape", type(part).__name__)
                raise CheckpointException(f"load: {name} has a part of {tuple(chunk.sizes)}, got {got}")
            target[here].copy_(part[there])
            filled += part[there].numel()
    if filled < target.numel():
        raise CheckpointException(f"load: parts of {name} are missing, got {filled} of {target.numel()} elements")


def _overlap(a, b):
    """Return where two parts overlap, as slices of each; (None, None) where they do not."""
    here, there = [], []
    for a_first, a_size, b_first, b_size in zip(a.offsets, a.sizes, b.offsets, b.sizes):
        first, last = max(a_first, b_first), min(a_first + a_size, b_first + b_size)
        if first >= last:
            return None, None
        here.append(slice(first - a_first, last - a_first))
        there.append(slice(first - b_first, last - b_first))
    return tuple(here), tuple(there)


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: ProcessGroup | None = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> None:  # fmt: skip
    """Call `load`, of which this is an older form.

    Args:
        state_dict: what to load.
        storage_reader: a FileSystemReader.
        process_group: the processes. Default: all.
        coordinator_rank: accepted.
        no_dist: whether this process loads alone.
        planner: a DefaultLoadPlanner.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> state = {"x": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
    ...     dcp.load_state_dict(state, dcp.FileSystemReader(folder))
    >>> state
    {'x': tensor([1., 1.])}
    """
    del coordinator_rank
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)
