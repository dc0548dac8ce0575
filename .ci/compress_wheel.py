"""Compresses a wheel again, in place, with libdeflate's search for the shortest form, which zlib has not.

    python .ci/compress_wheel.py dist/facula-*.whl

What unpacks wheels sees the same format and the same files.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import deflate


class Shortest:
    """What `zipfile` expects of a compressor. A file is compressed as a whole."""

    def __init__(self, *_: int | None) -> None:
        self.parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self.parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(b"".join(self.parts), 12))


def compress(wheel: Path) -> None:
    made = wheel.with_suffix(".new")
    zipfile._get_compressor = Shortest
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for info in source.infolist():
            target.writestr(info, source.read(info))
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made) as target:
        for old, new in zip(source.infolist(), target.infolist(), strict=True):
            what = [(i.filename, i.date_time, i.external_attr, i.file_size, i.CRC) for i in (old, new)]
            if what[0] != what[1] or target.read(new) != source.read(old):
                raise SystemExit(f"compress_wheel: {what[0]} has become {what[1]}")
    if made.stat().st_size >= wheel.stat().st_size:
        raise SystemExit(f"compress_wheel: {wheel.name} has not become smaller: zipfile has compressed by zlib")
    made.replace(wheel)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        compress(Path(name))
