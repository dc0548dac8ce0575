"""Read the records of a checkpoint one by one, with the methods of PyTorch's class of that name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import tensors
from .source import FileSource, MemorySource
from .zip_reader import ZipReader

if TYPE_CHECKING:
    import facula

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Read the files in the zip archive that `save` writes. The class neither executes nor unpickles their contents.

    Args:
        file: a path, or a file open for reading in binary mode.

    Errors: RuntimeError for a file that cannot be opened, is damaged or is not made like a checkpoint; TypeError for what is no
    file.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> facula.save({"x": facula.ones(2)}, file)
        >>> reader = facula.PyTorchFileReader(io.BytesIO(file.getvalue()))
        >>> reader.has_record("data.pkl"), reader.get_storage_from_record("data/0", 2, facula.float32).tolist()
        (True, [1.0, 1.0])
    """

    _file: Any = None

    def __init__(self, file: Any) -> None:
        if isinstance(file, (str, os.PathLike)):
            try:
                self._file = open(file, "rb", buffering=0)  # noqa: SIM115 - open as long as the reader is
            except OSError as error:
                raise RuntimeError(f"PyTorchFileReader: the file cannot be opened: {error}") from None
            source = FileSource(self._file)
        elif hasattr(file, "read"):
            source = MemorySource(file.read())
        else:
            raise TypeError(f"PyTorchFileReader: file must be a path or a binary file, got {type(file).__name__}")
        try:
            self._records = ZipReader(source)
        except BaseException:
            self._close()
            raise

    def _close(self):
        if self._file is not None:
            self._file.close()

    __del__ = _close

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of that `name`.

        Args:
            name: the name of the record, without the folder of the archive.
        """
        return name in self._records

    def get_all_records(self) -> list[Any]:
        """Return the names of the records, in the order of the file.

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save(torch.ones(2), file)
        >>> "data.pkl" in torch.PyTorchFileReader(io.BytesIO(file.getvalue())).get_all_records()
        True
        """
        return self._records.names()

    def get_record(self, name: str) -> bytes:
        """Return the bytes of the record `name`; RuntimeError where there is none, or where it is damaged.

        Args:
            name: the name of the record, without the folder of the archive.

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save(torch.ones(2), file)
        >>> torch.PyTorchFileReader(io.BytesIO(file.getvalue())).get_record("byteorder")
        b'little'
        """
        return self._records.read(name)

    def get_record_offset(self, name: str) -> Any:
        """Return at which byte of the file the payload of the record `name` begins, for example to map it.

        Args:
            name: the name of the record, without the folder of the archive.

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save(torch.ones(2), file)
        >>> offset = torch.PyTorchFileReader(io.BytesIO(file.getvalue())).get_record_offset("byteorder")
        >>> file.getvalue()[offset:offset + 6]
        b'little'
        """
        return self._records.entry(name).start

    def get_storage_from_record(self, name: str, numel: Any, dtype: facula.dtype) -> Any:
        """Return a tensor with the elements that a record holds.

        Args:
            name: the record's.
            numel: how many elements.
            dtype: of the elements.

        Errors: RuntimeError where the record has another length.
        """
        found, size = self._records.entry(name).nbytes, dtype.itemsize
        if isinstance(numel, bool) or not isinstance(numel, int) or numel < 0 or numel * size != found:
            text = f"the record has {found} bytes, which are not numel elements of {size} bytes"
            raise RuntimeError(f"get_storage_from_record: {text}, got {numel}")
        storage = tensors.new_storage(found)
        self._records.read_into(name, tensors.storage_view(storage))
        return tensors.tensor_from_storage(storage, dtype, 0, (numel,), (1,))

    def serialization_id(self) -> str:
        """Return what tells apart the files that `save` wrote, digits; "" where the file does not say.

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save(torch.ones(2), file)
        >>> torch.PyTorchFileReader(io.BytesIO(file.getvalue())).serialization_id().isdigit()
        True
        """
        name = ".data/serialization_id"
        return self.get_record(name).decode("ascii", "replace") if self.has_record(name) else ""
