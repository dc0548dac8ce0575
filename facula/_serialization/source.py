"""Read the bytes of a checkpoint from memory or from a file.

A file may change while it is read. What is checked must therefore be the same bytes as what is used: they are read once
into a copy, and a file that turns out shorter than it was is an error. Only `map` exposes the file itself, for storages
whose bytes a load does not interpret, and only where the caller requested it: if a mapped file is truncated later,
touching the missing part ends the process with SIGBUS.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: Storages that start at a multiple of this can be used where they lie, whatever their dtype.
MAP_ALIGNMENT = 16


class MemorySource:
    """Read from bytes in memory that nobody else changes."""

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data).cast("B")

    def __len__(self) -> int:
        return len(self._view)

    def read(self, start: float, count: int) -> memoryview[int]:
        """Return the `count` bytes from `start`, which the caller knows to be there."""
        return self._view[start : start + count]

    def read_into(self, start: float, target: Any) -> None:
        """Fill `target`, a writable buffer, with the bytes from `start`."""
        target = memoryview(target).cast("B")
        target[:] = self._view[start : start + len(target)]

    map = read

    def check_whole(self) -> None:
        """Raise RuntimeError when what was mapped has become shorter."""


class FileSource:
    """Read piece by piece from a regular file, beginning at its present position.

    Args:
        file: open for reading in binary mode, with seek and readinto.
        shared: `map` gives the file's own pages, not private copies of them.
    """

    def __init__(self, file: Any, shared: bool = False) -> None:
        self._file, self._shared = file, shared
        self._start = file.tell()
        self._size = max(0, file.seek(0, os.SEEK_END) - self._start)
        self._map = None

    def __len__(self) -> int:
        return self._size

    def read(self, start: float, count: int) -> memoryview[int]:
        """Return the `count` bytes from `start`, which the caller knows to be there."""
        target = bytearray(count)
        self.read_into(start, target)
        return memoryview(target)

    def read_into(self, start: float, target: Any) -> None:
        """Fill `target`, a writable buffer, with the bytes from `start`."""
        target, done = memoryview(target).cast("B"), 0
        self._file.seek(self._start + start)
        while done < len(target):
            # readinto may fill less than requested.
            step = self._file.readinto(target[done:])
            if not step:
                raise _shortened()
            done += step

    def map(self, start: float, count: int) -> memoryview[int]:
        """Return the `count` bytes from `start` as a view of the file, not copied."""
        if self._map is None:
            # ACCESS_COPY: a write to a tensor changes a private page and not the file.
            access = mmap.ACCESS_WRITE if self._shared else mmap.ACCESS_COPY
            self._map = memoryview(mmap.mmap(self._file.fileno(), 0, access=access))
        begin = self._start + start
        if begin + count > len(self._map):
            raise _shortened()
        return self._map[begin : begin + count]

    def check_whole(self) -> None:
        """Raise RuntimeError when what was mapped has become shorter."""
        if self._map is not None and os.fstat(self._file.fileno()).st_size < len(self._map):
            raise _shortened()


def of_file(file, shared=False):
    """Return the source for an open file: a device or a pipe is read to its end at once."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return FileSource(file, shared)
    return MemorySource(file.read())


def _shortened():
    return RuntimeError("load: the file became shorter while it was read")
