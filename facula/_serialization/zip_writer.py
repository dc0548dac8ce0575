"""Write the zip container of a checkpoint: records are stored without compression, and each payload is aligned to 64
bytes.

The size and checksum of a record are known before it is written. Local headers are therefore complete, and no data
descriptor follows a payload. ZIP64 fields appear only where 32 bits do not suffice.
"""

import struct
import zlib

from .zip_records import CENTRAL, END, END64, LOCAL, LOCATOR64, U16, U32

ALIGNMENT = 64
_UTF8_FLAG = 0x0800
_DATE_1980 = 0x21  # 1 January 1980, the earliest date a zip can hold: equal objects give equal files
_PADDING_ID = b"FB"  # the id PyTorch uses for the padding that aligns a payload


class ZipWriter:
    """Append records to `file`, which must be binary and writable and need not be seekable."""

    def __init__(self, file, root, alignment=ALIGNMENT, checksums=True):
        self._file = file
        self._root = root
        self._alignment = alignment
        self._checksums = checksums
        self._position = 0
        self._central = []

    def write(self, name, data):
        """Add `root/name` with the bytes of `data` (any contiguous buffer)."""
        view = memoryview(data).cast("B")
        crc = zlib.crc32(view) if self._checksums else 0
        self._header(name, view.nbytes, crc)
        self._raw(view)

    def reserve(self, name, nbytes):
        """Add `root/name` with room for `nbytes` bytes that somebody else fills in later."""
        self._header(name, nbytes, 0)
        # Zeros are written in pieces: a reserved record may be larger than memory.
        block = bytes(min(nbytes, 1 << 20))
        left = nbytes
        while left:
            step = min(left, len(block))
            self._raw(block[:step])
            left -= step

    def close(self):
        """Write the central directory; the file itself stays open."""
        start = self._position
        for record in self._central:
            self._raw(record)
        size = self._position - start
        count = len(self._central)
        if count >= U16 or start >= U32 or size >= U32:
            end64 = self._position
            self._raw(END64.pack(b"PK\6\6", END64.size - 12, 45, 45, 0, 0, count, count, size, start))
            self._raw(LOCATOR64.pack(b"PK\6\7", 0, end64, 1))
        self._raw(
            END.pack(
                b"PK\5\6", 0, 0, min(count, U16), min(count, U16), min(size, U32), min(start, U32), 0
            )
        )

    def _raw(self, data):
        self._file.write(data)
        self._position += len(data)

    def _header(self, name, nbytes, crc):
        path = f"{self._root}/{name}".encode()
        start = self._position
        zip64 = struct.pack("<2H2Q", 1, 16, nbytes, nbytes) if nbytes >= U32 else b""
        before_padding = start + LOCAL.size + len(path) + len(zip64) + 4
        # The payload follows the extra field, whose length therefore decides where the payload begins.
        padding = -before_padding % self._alignment
        extra = zip64 + _PADDING_ID + struct.pack("<H", padding) + b"Z" * padding
        size = min(nbytes, U32)
        needed = 45 if zip64 else 20
        self._raw(
            LOCAL.pack(
                b"PK\3\4", needed, _UTF8_FLAG, 0, 0, _DATE_1980, crc, size, size, len(path), len(extra)
            )
        )
        self._raw(path)
        self._raw(extra)
        wide = ([nbytes, nbytes] if zip64 else []) + ([start] if start >= U32 else [])
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        self._central.append(
            CENTRAL.pack(
                b"PK\1\2",
                45,
                45 if wide else 20,
                _UTF8_FLAG,
                0,
                0,
                _DATE_1980,
                crc,
                size,
                size,
                len(path),
                len(extra),
                0,
                0,
                0,
                0,
                min(start, U32),
            )
            + path
            + extra
        )
