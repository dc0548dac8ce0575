"""Save checkpoints: every process writes the parts that it has, and the first one also writes what all of them share."""

from __future__ import annotations

import os
import threading
import uuid
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import facula
from facula import distributed as dist
from facula.distributed._store import default_store_timeout
from facula.futures import Future

from ._state import chunk_of, described, flattened, is_written_here, part_of, told_path
from .default_planner import DefaultSavePlanner, checked
from .filesystem import CheckpointException, FileSystemWriter, _StorageInfo, serialized
from .metadata import BytesStorageMetadata, Metadata, MetadataIndex, StorageMeta

if TYPE_CHECKING:
    from facula.distributed._group import ProcessGroup

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Name who writes while the program goes on. A thread does so also where a process is requested.

    >>> from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
    >>> AsyncCheckpointerType("thread")
    <AsyncCheckpointerType.THREAD: 'thread'>
    """

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Hold a pair of futures. PyTorch's programs that stage values themselves use the name; `async_save` returns one
    future here.

    Args:
        staging_completion, upload_completion: futures of the copy and of the files.

    >>> from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
    >>> AsyncSaveResponse(torch.futures.Future(), torch.futures.Future()).upload_completion.done()
    False
    """

    staging_completion: Future[Any]
    upload_completion: Future[Any]


def _world(process_group, no_dist) -> tuple[int, int]:
    if no_dist or not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(process_group), dist.get_world_size(process_group)


def _writer(caller, checkpoint_id, storage_writer, planner):
    checked(caller, planner, DefaultSavePlanner)
    if storage_writer is None:
        if checkpoint_id is None:
            raise RuntimeError(f"{caller}: checkpoint_id or storage_writer must be given, got neither")
        return FileSystemWriter(os.fspath(checkpoint_id))
    if not isinstance(storage_writer, FileSystemWriter):
        raise NotImplementedError(f"{caller}: expected a FileSystemWriter, got {type(storage_writer).__name__}")
    return storage_writer


def with_states(state_dict: dict[str, Any]) -> dict[Any, Any]:
    """Return the state of objects that have a `state_dict()` in their place."""
    def state(value):
        return value.state_dict() if hasattr(value, "state_dict") and hasattr(value, "load_state_dict") else value

    return {key: state(value) for key, value in state_dict.items()}


class _Plan:
    """Hold the bytes that this process writes, and what .metadata says about them."""

    def __init__(self, state_dict, rank: int) -> None:
        state = with_states(state_dict)
        flat, paths = flattened(state)
        self.paths = {name: told_path(state, path) for name, path in paths.items()}
        self.name, self.data, self.tensors, self.objects, self.places = f"__{rank}_0.distcp", [], {}, [], []
        offset = 0
        for name, value in flat.items():
            is_tensor = isinstance(value, facula.Tensor)
            if is_tensor:
                self.tensors[name] = described(value)
            elif rank == 0:
                self.objects.append(name)
            if not (is_written_here(value, rank) if is_tensor else rank == 0):
                continue
            # A clone has a storage of its own: serializing a view would write all of the storage behind it.
            data = serialized(part_of(value).cpu().contiguous().clone() if is_tensor else value)
            chunk = chunk_of(value) if is_tensor else None
            index = MetadataIndex(name, chunk.offsets if chunk else None)
            self.data.append(data)
            self.places.append((index, chunk, _StorageInfo(self.name, offset, len(data))))
            offset += len(data)

    def told(self):
        """Return what the first process needs of it."""
        return self.tensors, self.places


def _metadata(plan: _Plan, everybody) -> Metadata:
    entries = {name: BytesStorageMetadata() for name in plan.objects}
    storage = {}
    for tensors, places in everybody:
        for name, tensor in tensors.items():
            entries.setdefault(name, tensor)
        for index, chunk, info in places:
            if chunk is not None:
                entries[index.fqn].chunks.append(chunk)
            storage[index] = info
    return Metadata(entries, plan.paths, storage, StorageMeta(save_id=uuid.uuid4().hex), "1.0.0")


def save(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
         planner: Any = None, process_group: ProcessGroup | None = None, no_dist: bool = False,
         use_collectives: bool = True) -> Metadata:  # fmt: skip
    """Save nested dicts of tensors, DTensors and anything else that `facula.save` takes. All processes call it.

    Each process writes a file with its parts; what all have is written by one. PyTorch can load it.

    Args:
        state_dict: what to save; objects with `state_dict()` are asked for theirs.
        checkpoint_id: a folder. RuntimeError where neither it nor `storage_writer` is given.
        storage_writer: a FileSystemWriter, in the place of it.
        planner: a DefaultSavePlanner; NotImplementedError for one of your own.
        process_group: the processes. Default: all.
        no_dist: whether this process saves alone.
        use_collectives: accepted.
    Returns:
        what was written, in the first process.

    Errors: CheckpointException, in all processes, where one has failed.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> model, step = nn.Linear(2, 1), 3
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"model": model, "step": step}, checkpoint_id=folder)
    >>> list(metadata.state_dict_metadata)
    ['step', 'model.weight', 'model.bias']
    """
    del use_collectives
    rank, size = _world(process_group, no_dist)
    writer = _writer("save", checkpoint_id, storage_writer, planner)
    plan, told, error = _planned(writer, state_dict, rank, size, process_group, at_once=True)
    _report("save", told, error)
    error = metadata = None
    try:
        if rank == 0:
            metadata = _metadata(plan, [described for _, described, _ in told])
            writer.write_metadata(metadata)
    except Exception as failure:
        error = failure
    _report("save", _gathered((_text_of(error),), size, process_group), error)
    return metadata


def _text_of(error):
    return None if error is None else f"{type(error).__name__}: {error}"


def _gathered(mine, size, process_group):
    """Return what every process gives here, by rank."""
    if size == 1:
        return [mine]
    everybody: list[Any] = [None] * size
    dist.all_gather_object(everybody, mine, group=process_group)
    return everybody


def _planned(writer, state_dict, rank, size, process_group, at_once=False):
    """Plan what this process writes, and tell all others, also where that fails: they would wait for ever.

    Returns the plan; what every process told: (text of its error or None, description of its part, a name for this save); the
    error of this one.
    """
    error = plan = None
    try:
        writer.prepare()
        plan = _Plan(state_dict, rank)
        if at_once:
            writer.write(plan.name, plan.data)
    except Exception as failure:
        error = failure
    mine = (_text_of(error), plan.told() if error is None else None, uuid.uuid4().hex)
    return plan, _gathered(mine, size, process_group), error


def _report(caller, told, error):
    """Raise, in every process, if one has failed."""
    failed = {rank: text for rank, (text, *_) in enumerate(told) if text is not None}
    if failed and error is not None and len(told) == 1:
        raise error
    if failed:
        raise CheckpointException(f"{caller}: processes failed, got {failed}") from error


class _Agreement:
    """Tell threads of several processes whether all have written, by keys of a store, while collectives go on
    elsewhere.

    Each process sets its key, also when it has failed, and the first process publishes the outcome. A process that
    receives nothing for as long as collectives wait raises DistStoreError.
    """

    def __init__(self, rank, size, key, process_group):
        self.rank, self.size, self.key, self.store = rank, size, key, None
        if size > 1:
            group = process_group if process_group is not None else dist.group.WORLD
            # A connection of its own, because this runs in a thread and a wait would block the main thread's requests.
            self.store = group.get_group_store().clone()
            self.store.set_timeout(max(group._timeout, default_store_timeout))

    def told(self, error):
        """Tell how this process did; in the first one, return what every process told."""
        mine = _text_of(error)
        if self.store is None:
            return [(mine,)]
        if self.rank:
            self.store.set(f"{self.key}/{self.rank}", mine or "")
            return []
        return [(mine,), *((self.store.get(f"{self.key}/{r}").decode() or None,) for r in range(1, self.size))]

    def concluded(self, error):
        """Tell the outcome, in the first process; in the others, raise what it told."""
        if self.store is None:
            return
        if self.rank == 0:
            self.store.set(f"{self.key}/outcome", str(error) if error is not None else "")
            return
        text = self.store.get(f"{self.key}/outcome").decode()
        if text:
            raise CheckpointException(text)


def async_save(state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None, planner: Any = None,
               process_group: ProcessGroup | None = None, no_dist: bool = False, **rest: Any) -> Future[Any]:  # fmt: skip
    """Save while the program goes on: values are those of the time of the call, which returns when they are copied.

    Args:
        state_dict: what to save; objects with `state_dict()` are asked for theirs.
        checkpoint_id: a folder. RuntimeError where neither it nor `storage_writer` is given.
        storage_writer: a FileSystemWriter, in the place of it.
        planner: a DefaultSavePlanner; NotImplementedError for one of your own.
        process_group: the processes. Default: all.
        no_dist: whether this process saves alone.
        rest: further arguments of PyTorch's function; accepted.
    Returns:
        a future of what was written (None but in the first process); it has the exception if a process failed.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> x = torch.ones(2)
    >>> folder = tempfile.TemporaryDirectory()
    >>> future = dcp.async_save({"x": x}, checkpoint_id=folder.name)
    >>> x = x.zero_()
    >>> metadata = future.wait()
    >>> dcp.FileSystemReader(folder.name).read(*metadata.storage_data.values())
    tensor([1., 1.])
    >>> folder.cleanup()
    """
    del rest
    rank, size = _world(process_group, no_dist)
    writer = _writer("async_save", checkpoint_id, storage_writer, planner)
    plan, told, error = _planned(writer, state_dict, rank, size, process_group)
    _report("async_save", told, error)
    agreement = _Agreement(rank, size, f"checkpoint/{told[0][2]}", process_group)
    future: Future[Any] = Future()

    def finish():
        error = metadata = None
        try:
            writer.write(plan.name, plan.data)
        except Exception as failure:
            error = failure
        written = agreement.told(error)
        try:
            _report("async_save", written, error)
            if rank == 0:
                metadata = _metadata(plan, [described for _, described, _ in told])
                writer.write_metadata(metadata)
        except Exception as failure:
            agreement.concluded(failure)
            raise
        agreement.concluded(None)
        return metadata

    def run():
        try:
            future.set_result(finish())
        except Exception as failure:
            future.set_exception(failure)

    threading.Thread(target=run, name="facula checkpoint").start()
    return future


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, process_group: ProcessGroup | None = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None) -> Metadata:  # fmt: skip
    """Call `save`, of which this is an older form.

    Args:
        state_dict: what to save.
        storage_writer: a FileSystemWriter.
        process_group: the processes. Default: all.
        coordinator_rank: accepted.
        no_dist: whether this process saves alone.
        planner: a DefaultSavePlanner.

    Returns: the Metadata of what was written.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save_state_dict({"x": torch.ones(2)}, dcp.FileSystemWriter(folder))
    >>> list(metadata.state_dict_metadata)
    ['x']
    """
    del coordinator_rank
    return save(state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner)
