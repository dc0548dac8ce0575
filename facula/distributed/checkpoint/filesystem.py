"""Write checkpoints to a folder: one file for each process, and .metadata, which lists the place of every entry."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import facula
from facula._serialization import allowed
from facula._serialization.pickle_reader import PickleReader
from facula._serialization.pickle_writer import PickleWriter

from .metadata import Metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FileSystemReader", "FileSystemWriter"]


class CheckpointException(Exception):
    """Report processes that failed to save or load."""


@dataclass
class _StorageInfo:
    """Describe where an entry is: the file, its offset in the file, and its length."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


class FileSystemWriter:
    """Write a checkpoint to a folder; `save` calls the methods.

    Args:
        path: the folder.
        sync_files: whether files are on the disk when a save ends.
        overwrite: whether a checkpoint that is there is replaced.
        single_file_per_rank, thread_count, per_thread_copy_ahead, cache_staged_state_dict: accepted; a process writes one file.

    >>> import os, tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(folder))
    ...     sorted(os.listdir(folder))
    ['.metadata', '__0_0.distcp']

    What `save` calls, in this order:

    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = dcp.FileSystemWriter(folder.name)
    >>> writer.prepare()
    >>> writer.write("__0_0.distcp", [b"bytes of ", b"entries"])
    >>> writer.write_metadata(metadata)
    >>> sorted(os.listdir(folder.name))
    ['.metadata', '__0_0.distcp']
    >>> folder.cleanup()
    """

    path: Path
    sync_files: bool
    overwrite: bool
    single_file_per_rank: bool
    thread_count: int
    per_thread_copy_ahead: int
    cache_staged_state_dict: bool

    def __init__(
        self, path: Any, single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True,
    ) -> None:  # fmt: skip
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite
        self.single_file_per_rank, self.thread_count = single_file_per_rank, thread_count
        self.per_thread_copy_ahead, self.cache_staged_state_dict = per_thread_copy_ahead, cache_staged_state_dict

    def prepare(self) -> None:
        """Make the folder. RuntimeError if a checkpoint is there that must stay."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / ".metadata").exists():
            raise RuntimeError(f"FileSystemWriter: the folder has a checkpoint and overwrite is False, got {self.path}")

    def write(self, name: str, entries: Sequence[bytes]) -> None:
        """Write bytes, one behind the other, under a name that appears when all are there.

        Args:
            name: of the file.
            entries: the bytes.
        """
        partial = self.path / f"{name}.tmp"
        with open(partial, "wb") as file:
            for data in entries:
                file.write(data)
            if self.sync_files:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(self.path / name)

    def write_metadata(self, metadata: Metadata) -> None:
        """Write what makes the files a checkpoint, last of all.

        Args:
            metadata: a Metadata.
        """
        pickled = PickleWriter(allowed.Scope(whole_objects=True), _no_storages).dumps(metadata)
        self.write(".metadata", [pickled])


def _no_storages(storage):
    raise CheckpointException(f"checkpoint: metadata hold no tensors, got a {type(storage).__name__}")


class FileSystemReader:
    """Read a checkpoint from a folder; `load` calls the methods.

    Args:
        path: the folder.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
    ...     reader = dcp.FileSystemReader(folder)
    ...     places = reader.read_metadata().storage_data
    ...     [reader.read(info) for info in places.values()]
    [tensor([1., 1.])]
    """

    def __init__(self, path: Any) -> None:
        self.path: Path = Path(path)
        self._lock = threading.Lock()
        self._cache: tuple[Any, ...] | None = None

    def read_metadata(self) -> Metadata:
        """Return what the folder holds, a Metadata. CheckpointException if it is no checkpoint.

        >>> import tempfile
        >>> import torch.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
        ...     list(dcp.FileSystemReader(folder).read_metadata().state_dict_metadata)
        ['x']
        """
        try:
            data = (self.path / ".metadata").read_bytes()
        except FileNotFoundError:
            raise CheckpointException(f"load: the folder has no .metadata, got {self.path}") from None
        found = PickleReader(data, allowed.Scope(whole_objects=True), _no_storages).load()
        if not isinstance(found, Metadata) or not isinstance(found.state_dict_metadata, dict):
            raise CheckpointException(f"load: .metadata must hold a Metadata, got {type(found).__name__}")
        return found

    def read(self, info: _StorageInfo) -> Any:
        """Return the tensor or object at a place; nothing that a checkpoint holds is executed.

        Args:
            info: the place, a value of `Metadata.storage_data`. CheckpointException where the file is cut off, or lies outside
                of the folder.

        >>> import tempfile
        >>> import torch.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
        ...     dcp.FileSystemReader(folder).read(next(iter(metadata.storage_data.values())))
        tensor([1., 1.])
        """
        name = os.path.normpath(str(info.relative_path))
        if os.path.isabs(name) or name.startswith("..") or info.offset < 0 or info.length < 0:
            raise CheckpointException(f"load: an entry must lie in the folder, got {info}")
        if info.transform_descriptors:
            raise NotImplementedError(f"load: entries that are transformed are not supported, got {info.transform_descriptors}")
        key = (name, info.offset, info.length)
        with self._lock:
            if self._cache is not None and self._cache[0] == key:
                return self._cache[1]
        with open(self.path / name, "rb") as file:
            file.seek(info.offset)
            data = file.read(info.length)
        if len(data) != info.length:
            raise CheckpointException(
                f"load: {name} is cut off, expected {info.length} bytes at {info.offset}, got {len(data)}"
            )
        value = facula.load(io.BytesIO(data), weights_only=False)
        with self._lock:
            self._cache = (key, value)
        return value


def serialized(value: Any) -> bytes:
    """Return a tensor or object as the bytes of `facula.save`."""
    out = io.BytesIO()
    facula.save(value, out)
    return out.getvalue()
