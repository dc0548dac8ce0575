"""Read the files of a package, from a zip file or from a folder with its contents."""

import os
from pathlib import Path

from facula import serialization
from facula._serialization import source
from facula._serialization.zip_reader import ZipReader

_MOST_FOLDERS = 64


class Folder:
    """Read a package that somebody has unpacked; links are not part of it."""

    def __init__(self, path):
        self.root = os.path.basename(os.path.normpath(path))
        self._paths = {}
        for folder, below, files in os.walk(path):
            below[:] = sorted(name for name in below if not os.path.islink(os.path.join(folder, name)))
            for name in sorted(files):
                whole = Path(folder, name)
                if whole.is_file() and not whole.is_symlink():
                    self._paths[whole.relative_to(path).as_posix()] = whole

    def __contains__(self, name):
        return name in self._paths

    def names(self):
        """Return the paths."""
        return list(self._paths)

    def read(self, name):
        """Return the bytes of the file at the path."""
        return self._paths[name].read_bytes()


def opened(file_or_buffer):
    """Return (records with names(), read(name) and `in`; what to call the file) of a path or a binary file.

    Errors: RuntimeError for what is no package; OSError for files that cannot be read; TypeError for what is no file.
    """
    if isinstance(file_or_buffer, (str, os.PathLike)):
        shown = os.fspath(file_or_buffer)
        if os.path.isdir(shown):
            return _checked(Folder(shown), shown), shown
        with open(shown, "rb", buffering=0) as file:
            return _checked(_zip(source.MemorySource(file.readall()), shown), shown), shown
    if not hasattr(file_or_buffer, "read"):
        raise TypeError(f"PackageImporter: a path or a binary file is needed, got {type(file_or_buffer).__name__}")
    data = file_or_buffer.read()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"PackageImporter: a file opened in binary mode is needed, got one that reads {type(data).__name__}")
    return _checked(_zip(source.MemorySource(data), "<binary>"), "<binary>"), "<binary>"


def _zip(data, shown):
    try:
        return ZipReader(data)
    except RuntimeError as error:
        text = str(error).removeprefix("load: ").replace("checkpoint", "package")
        raise RuntimeError(f"PackageImporter: {text}, got {shown}") from None


def _checked(records, shown):
    for name in records.names():
        parts = name.split("/")
        if len(parts) > _MOST_FOLDERS or any(part in ("", ".", "..") or set(part) & {"\\", "\0"} for part in parts):
            raise RuntimeError(f"PackageImporter: a file of the package has the path {name[:80]!r}, got {shown}")
    if ".data/extern_modules" not in records:
        raise RuntimeError(f"PackageImporter: this is no package, it has no .data/extern_modules, got {shown}")
    return records


def byte_order(records):
    """ Return "little" or "big", the order in which the numbers of the package are."""
    order = records.read("byteorder").decode("ascii", "replace") if "byteorder" in records else serialization._byte_order()
    if order not in ("little", "big"):
        raise RuntimeError(f"PackageImporter: the byte order is little or big, got {order[:40]!r}")
    return order
