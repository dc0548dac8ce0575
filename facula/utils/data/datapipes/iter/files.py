"""Define streams of files."""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING, Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FileListerIterDataPipe", "FileOpenerIterDataPipe", "StreamReaderIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe["Any"]):
    """Yield the paths of files in folders.

    Args:
        root: a folder, several, or a stream of them.
        masks: patterns for names, one of which must fit; none: all.
        recursive: if True, go through folders within.
        abspath: if True, paths begin at the root of the file system.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.txt").write_text("text"), pathlib.Path(folder, "b.bin").write_bytes(b"")
    ...     [pathlib.Path(path).name for path in torch.utils.data.datapipes.iter.FileLister(folder, "*.txt")]
    ['a.txt']
    """

    recursive: bool
    abspath: bool

    def __init__(self, root: str = ".", masks: str = "", *, recursive: bool = False, abspath: bool = False) -> None:
        self.roots: list[str] = [root] if isinstance(root, str) else root
        self.masks: list[str] = [masks] if isinstance(masks, str) else masks
        self.recursive, self.abspath = recursive, abspath

    def _fits(self, name):
        return not any(self.masks) or any(fnmatch.fnmatch(os.path.basename(name), mask) for mask in self.masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.roots:
            if not os.path.isdir(root):  # a file is listed as such
                if self._fits(root):
                    yield root
                continue
            for folder, inner, files in os.walk(os.path.abspath(root) if self.abspath else root):
                inner.sort()
                for name in sorted(files):
                    if self._fits(name):
                        yield os.path.join(folder, name)
                if not self.recursive:
                    break


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe["Any"]):
    """Yield (path, open file) for paths. A file is a StreamWrapper, which closes it when the wrapper is freed.

    Args:
        datapipe: the paths.
        mode: "r" or "rt" for text, "rb" for bytes; the "r" may be left out. ValueError for others.
        encoding: of text, as of `open`.

    >>> import pathlib, tempfile
    >>> pipes = torch.utils.data.datapipes.iter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt")
    ...     _ = path.write_text("text")
    ...     list(pipes.StreamReader(pipes.FileOpener([str(path)])))[0][1]
    'text'
    """

    datapipe: IterDataPipe[Any]
    encoding: str | None

    def __init__(self, datapipe: IterDataPipe[Any], mode: str = "r", encoding: str | None = None) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"FileOpener: a mode of open() is expected, got {mode}")
        self.datapipe, self.mode, self.encoding = datapipe, mode if "r" in mode else f"r{mode}", encoding

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path in self.datapipe:
            yield path, StreamWrapper(open(path, self.mode, encoding=self.encoding))  # noqa: SIM115 - the wrapper closes it


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe["Any"]):
    """Yield (path, contents) for open files, and close each file at its end.

    Args:
        datapipe: pairs of a path and an open file.
        chunk: characters or bytes to read at once, a sample each; by default a file is one sample.

    >>> import io
    >>> list(torch.utils.data.datapipes.iter.StreamReader([("name", io.StringIO("abc"))], chunk=2))
    [('name', 'ab'), ('name', 'c')]
    """

    datapipe: IterDataPipe[Any]
    chunk: int | None

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, bytes | str]]:
        for path, file in self.datapipe:
            with file:
                while part := file.read(-1 if self.chunk is None else self.chunk):
                    yield path, part
