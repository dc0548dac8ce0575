"""Read the zip container of a checkpoint, and trust nothing in it before it is checked.

Entries must not repeat, overlap or reach outside the file, and the directory must agree with the local headers. The
bytes come from a `source`, so the bytes that are checked are the same copy as the bytes that are used.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from .source import MAP_ALIGNMENT
from .texts import shown
from .zip_records import CENTRAL, END, END64, LOCAL, LOCATOR64, U32

if TYPE_CHECKING:
    from facula._serialization.source import FileSource, MemorySource

_STORED, _DEFLATED = 0, 8
_MAX_COMMENT = 0xFFFF
_ENCRYPTED_FLAG = 0x1


class Entry:
    """Describe one record: its payload lies at [start, start + packed) of the file and has `nbytes` bytes once it is
    unpacked.
    """

    __slots__ = ("name", "start", "packed", "nbytes", "crc", "method")
    name: str
    start: float
    packed: int
    nbytes: int
    crc: int
    method: int

    def __init__(self, name: str, start: float, packed: int, nbytes: int, crc: int, method: int) -> None:
        self.name, self.start, self.packed, self.nbytes = name, start, packed, nbytes
        self.crc, self.method = crc, method


def looks_like_zip(head):
    """Return whether the first bytes of a file are those of a zip archive."""
    return bytes(head[:4]) == b"PK\3\4"


class ZipReader:
    """Read the records of a checkpoint by their names below its single top folder.

    Args:
        source: the whole file, see `source.py`.
    Raises:
        RuntimeError: the archive is damaged, truncated or not made like a checkpoint.
    """

    root: Any

    def __init__(self, source: FileSource | MemorySource) -> None:
        self._source = source
        self.root, self._entries = self._read_directory()

    def __contains__(self, name: Any) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Return all records, in the order of the archive."""
        return list(self._entries)

    def entry(self, name: str) -> Entry:
        """Return the `Entry` called `name`; RuntimeError where there is none."""
        try:
            return self._entries[name]
        except KeyError:
            raise RuntimeError(f"load: the checkpoint has no record '{name}'") from None

    def mapped(self, name: str) -> Any:
        """Return the payload as a view of the file, not copied. Refuses a record that is compressed or badly placed."""
        entry = self.entry(name)
        if entry.method != _STORED:
            raise RuntimeError(
                f"load: record '{name}' is compressed and cannot be mapped; "
                "load with mmap=False, or save the file again"
            )
        if entry.start % MAP_ALIGNMENT:
            raise RuntimeError(
                f"load: record '{name}' lies at byte {entry.start}, not a multiple of {MAP_ALIGNMENT}, and cannot "
                "be mapped; load with mmap=False, or save the file again"
            )
        return self._source.map(entry.start, entry.nbytes)

    def read(self, name: str) -> bytes:
        """Return the payload as bytes, inflated if need be, its checksum verified."""
        entry = self.entry(name)
        packed = self._source.read(entry.start, entry.packed)
        data = bytes(packed) if entry.method == _STORED else _inflate(packed, entry)
        _check_crc(data, entry)
        return data

    def read_into(self, name: str, target: Any) -> None:
        """Copy the payload into `target`, a writable buffer of exactly its size."""
        entry = self.entry(name)
        target = memoryview(target).cast("B")
        if entry.method == _STORED:
            self._source.read_into(entry.start, target)
        else:
            target[:] = _inflate(self._source.read(entry.start, entry.packed), entry)
        _check_crc(target, entry)

    # -- the directory ----------------------------------------------------------------------------

    def _read_directory(self):
        count, start, size = self._find_directory()
        directory, at = self._source.read(start, size), 0
        spans, entries, root = [], {}, None
        for _ in range(count):
            if size - at < CENTRAL.size:
                raise _damaged("its directory ends early")
            entry, path, at = self._read_central(directory, at)
            spans.append((entry[0], entry[1].start + entry[1].packed))
            if not path.endswith("/"):
                root = self._add(entries, root, path, entry[1])
        if at != size:
            raise _damaged(f"its directory holds {size - at} bytes that belong to no record")
        spans.append((start, len(self._source)))
        spans.sort()
        # Overlapping records are the usual way to make a small file unpack to a huge size.
        for (_, stop), (begin, _) in zip(spans, spans[1:]):
            if stop > begin:
                raise _damaged("two records overlap")
        if root is None:
            raise _damaged("it holds no records")
        return root, entries

    @staticmethod
    def _add(entries, root, path, entry):
        top, slash, name = path.partition("/")
        if not slash or not top or (root is not None and top != root):
            raise _damaged(f"record {shown(path)} is not below the one top folder every checkpoint has")
        if name in entries:
            raise _damaged(f"record {shown(path)} appears twice")
        entry.name = name
        entries[name] = entry
        return top

    def _find_directory(self):
        """Return (number of entries, offset, size) of the central directory."""
        whole = len(self._source)
        tail_start = max(0, whole - _MAX_COMMENT - END.size - LOCATOR64.size)
        tail = bytes(self._source.read(tail_start, whole - tail_start))
        # From the end: a comment, which comes last, may contain this mark as well, and is refused below.
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < END.size:
            raise _damaged("it has no end-of-directory record (a truncated file?)")
        _, disk, disk2, here, count, size, start, comment = END.unpack_from(tail, at)
        end = tail_start + at
        if end + END.size + comment != whole:
            raise _damaged("bytes follow its end-of-directory record")
        # PyTorch writes the zip64 records always, small as the file may be
        locator = tail[max(0, at - LOCATOR64.size) : at]
        if locator[:4] == b"PK\6\7" and len(locator) == LOCATOR64.size:
            here, count, size, start, end = self._find_directory64(locator, end - LOCATOR64.size)
        if disk or disk2 or here != count:
            raise _damaged("it is part of a multi-volume archive")
        if start + size != end:
            raise _damaged(f"its directory claims [{start}, {start + size}) but must end at {end}")
        if count * CENTRAL.size > size:
            raise _damaged(f"its directory of {size} bytes cannot hold {count} records")
        return count, start, size

    def _find_directory64(self, locator, at):
        _, disk, where, disks = LOCATOR64.unpack(locator)
        if disk or disks != 1 or where + END64.size > at:
            raise _damaged("its zip64 locator is wrong")
        record = self._source.read(where, END64.size)
        magic, length, _, _, disk, disk2, here, count, size, start = END64.unpack(record)
        if magic != b"PK\6\6" or disk or disk2 or where + 12 + length != at:
            raise _damaged("its zip64 end-of-directory record is wrong")
        return here, count, size, start, where

    def _read_central(self, view, at):
        """Return ((local header offset, Entry), path, offset of the next record) of the directory `view`."""
        (
            magic,
            _,
            _,
            flags,
            method,
            _,
            _,
            crc,
            packed,
            nbytes,
            name_len,
            extra_len,
            comment_len,
            _,
            _,
            _,
            offset,
        ) = CENTRAL.unpack_from(view, at)
        after = at + CENTRAL.size + name_len + extra_len + comment_len
        if magic != b"PK\1\2" or after > len(view):
            raise _damaged("a directory record is wrong")
        at += CENTRAL.size
        try:
            path = str(view[at : at + name_len], "utf-8")
        except UnicodeDecodeError:
            raise _damaged("a record's name is not UTF-8") from None
        extra = bytes(view[at + name_len : at + name_len + extra_len])
        nbytes, packed, offset = _widen(extra, [nbytes, packed, offset], path)
        if flags & _ENCRYPTED_FLAG or method not in (_STORED, _DEFLATED):
            raise _damaged(f"record {shown(path)} is encrypted or packed by method {method}")
        if method == _STORED and packed != nbytes:
            raise _damaged(f"record {shown(path)} is stored, yet has two sizes, {packed} and {nbytes}")
        start = self._check_local(offset, path, packed, method)
        return (offset, Entry(path, start, packed, nbytes, crc, method)), path, after

    def _check_local(self, offset, path, packed, method):
        """Return the payload's offset, from a local header that must agree with the directory."""
        expected, whole = path.encode(), len(self._source)
        if offset + LOCAL.size + len(expected) > whole:
            raise _damaged(f"record {shown(path)} lies outside the file")
        header = self._source.read(offset, LOCAL.size + len(expected))
        magic, _, _, method2, _, _, _, _, _, name_len, extra_len = LOCAL.unpack_from(header)
        start = offset + LOCAL.size + name_len + extra_len
        same_name = name_len == len(expected) and header[LOCAL.size :] == expected
        if magic != b"PK\3\4" or method2 != method or not same_name:
            raise _damaged(f"record {shown(path)} has a header that contradicts the directory")
        if start + packed > whole:
            raise _damaged(
                f"record {shown(path)} claims [{start}, {start + packed}) of a file of {whole} bytes"
            )
        return start


def _widen(extra, fields, path):
    """Return `fields` with each 0xFFFFFFFF replaced by its ZIP64 value."""
    if U32 not in fields:
        return fields
    at = 0
    while at + 4 <= len(extra):
        tag, size = struct.unpack_from("<2H", extra, at)
        at += 4
        if tag == 1:
            wide = [i for i, v in enumerate(fields) if v == U32]
            if size < 8 * len(wide) or at + 8 * len(wide) > len(extra):
                break
            for i, value in zip(wide, struct.unpack_from(f"<{len(wide)}Q", extra, at)):
                fields[i] = value
            return fields
        at += size
    raise _damaged(f"record {shown(path)} lacks its zip64 sizes")


def _inflate(packed, entry):
    worker = zlib.decompressobj(-15)
    try:
        data = worker.decompress(packed, entry.nbytes + 1)
    except zlib.error as error:
        raise _damaged(f"record '{entry.name}' does not decompress: {error}") from None
    if len(data) != entry.nbytes:
        raise _damaged(f"record '{entry.name}' does not decompress to its {entry.nbytes} bytes")
    return data


def _check_crc(data, entry):
    # Zero stands for "not computed": PyTorch and Facula can both leave checksums out.
    if entry.crc and zlib.crc32(data) != entry.crc:
        raise _damaged(f"record '{entry.name}' does not match its checksum")


def _damaged(why):
    return RuntimeError(f"load: this checkpoint is damaged or not one: {why}")
