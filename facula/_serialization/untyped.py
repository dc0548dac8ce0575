"""Make untyped storages from the bytes of files and buffers."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from typing import TYPE_CHECKING

import facula
from facula._serialization import tensors as _core

if TYPE_CHECKING:
    from typing import Any

    from facula import UntypedStorage

_FILES = weakref.WeakKeyDictionary()  # {storage: the path of the file that it maps}


def untyped_from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """Return the first `nbytes` bytes of a file as a storage, without reading them: `UntypedStorage.from_file`.

    Args:
        filename: the path of the file.
        shared: what is written reaches the file, which is made, or made longer, where needed; otherwise writes stay in this
            process.
        nbytes: how many bytes; 0 gives an empty storage.

    Errors: RuntimeError where the file cannot be opened, or is shorter than `nbytes`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bytes")
    ...     _ = path.write_bytes(b"abc")
    ...     torch.storage.untyped_from_file(str(path), nbytes=2).tolist()
    [97, 98]
    """
    try:
        with open(filename, ("r+b" if os.path.exists(filename) else "w+b") if shared else "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < nbytes and shared:
                file.truncate(nbytes)
            elif size < nbytes:
                raise RuntimeError(f"from_file: {nbytes} bytes of {filename}, got a file of {size}")
            if nbytes == 0:  # cannot be mapped
                return facula.UntypedStorage(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapped = _core.storage_from_buffer(mmap.mmap(file.fileno(), nbytes, access=access))
            _FILES[mapped] = os.fspath(filename)
            return mapped
    except OSError as error:
        raise RuntimeError(f"from_file: cannot open {filename}: {error.strerror}") from None


def untyped_from_buffer(buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0,
                        dtype: facula.dtype | None = None) -> UntypedStorage:  # fmt: skip
    """Return a copy of bytes as a storage, each element's in this machine's order: `UntypedStorage.from_buffer`.

    Args:
        buffer: bytes, or what has them.
        byte_order: that of the buffer, "native", "little" or "big"; may be left out where elements are one byte.
        count: how many elements; -1: as many as there are.
        offset: bytes to leave out in front.
        dtype: of the elements. Default: bytes.

    Errors: ValueError for another byte order, and for bytes that are not whole elements or too few; RuntimeError without a
    byte order where it matters.

    >>> torch.storage.untyped_from_buffer(bytes([1, 2, 3, 4]), "big", dtype=torch.int16).tolist()
    [2, 1, 4, 3]
    """
    size = 1 if dtype is None else dtype.itemsize
    if byte_order is None and size > 1:
        raise RuntimeError(f"from_buffer: elements of {size} bytes need a byte_order, got none")
    orders = {"native": sys.byteorder, "little": "little", "big": "big", None: sys.byteorder}
    if byte_order not in orders:
        raise ValueError(f"from_buffer: invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')")
    data = memoryview(buffer).cast("B")
    if not 0 <= offset <= len(data):
        raise ValueError(f"from_buffer: offset must be from 0 to {len(data)}, got {offset}")
    if count < 0 and (len(data) - offset) % size:
        raise ValueError(f"from_buffer: buffer size ({len(data) - offset}) must be a multiple of element size ({size})")
    end = offset + count * size if count >= 0 else len(data)
    if end > len(data):
        raise ValueError(f"from_buffer: {count} elements of {size} bytes, got {len(data) - offset} bytes")
    data = bytearray(data[offset:end])
    untyped = _core.storage_from_buffer(data).clone() if data else facula.UntypedStorage(0)
    if orders[byte_order] != sys.byteorder:
        untyped.byteswap(dtype or facula.uint8)
    return untyped


