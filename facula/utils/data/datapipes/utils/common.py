"""Wrap open files of streams, so that they are closed when nobody needs them any more."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["StreamWrapper"]


class StreamWrapper:
    """Wrap an open file and close it when the wrapper is freed. All other attributes are those of the file.

    Args:
        file_obj: the file.
        parent_stream: the wrapper of an archive that the file is in; it may close when its last file has.
        name: of the file, for its text.

    >>> import io
    >>> from torch.utils.data.datapipes.utils.common import StreamWrapper
    >>> file = io.StringIO("text")
    >>> wrapped = StreamWrapper(file)
    >>> wrapped.read(), wrapped.closed
    ('text', False)
    >>> del wrapped
    >>> file.closed
    True
    """

    def __init__(self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None) -> None:
        self.file_obj, self.name, self.parent_stream = file_obj, name, parent_stream
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(f"StreamWrapper: parent_stream must be a StreamWrapper, got {type(parent_stream).__name__}")
            parent_stream.child_counter += 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close all wrapped files in `v`, a wrapper or nested lists, tuples and dicts; `depth` is how deep this call is.

        Args:
            v: a wrapper, or nested lists, tuples and dicts of them.
            depth: how deep this call is.

        >>> import io
        >>> from torch.utils.data.datapipes.utils.common import StreamWrapper
        >>> file = StreamWrapper(io.StringIO())
        >>> StreamWrapper.close_streams([(1, file)])
        >>> file.closed
        True
        """
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        for part in v.values() if isinstance(v, dict) else v if isinstance(v, (list, tuple)) else ():
            cls.close_streams(part, depth + 1)

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":  # not there yet, or pickled away
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file, and the archive around it when this was its last open one.

        Args:
            args, kwargs: of the file's own `close`.

        >>> import io
        >>> from torch.utils.data.datapipes.utils.common import StreamWrapper
        >>> file = StreamWrapper(io.StringIO())
        >>> file.close()
        >>> file.closed
        True
        """
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(AttributeError):  # what cannot be closed need not be
            self.file_obj.close(*args, **kwargs)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if parent.child_counter == 0 and parent.close_on_last_child:
                parent.close()

    def autoclose(self) -> None:
        """Close when there are no open files within; at once where there are none now.

        >>> import io
        >>> from torch.utils.data.datapipes.utils.common import StreamWrapper
        >>> archive = StreamWrapper(io.BytesIO())
        >>> inner = StreamWrapper(io.BytesIO(), archive)
        >>> archive.autoclose()
        >>> archive.closed, inner.close(), archive.closed
        (False, None, True)
        """
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(type(self)), *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in self.__dict__:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.file_obj!r}>" if self.name is None else f"StreamWrapper<{self.name},{self.file_obj!r}>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, obj: Any) -> None:
        self.file_obj, self.name, self.parent_stream = obj, None, None
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
