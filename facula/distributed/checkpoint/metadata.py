"""Define the contents of the file .metadata of a distributed checkpoint.

The classes and fields are PyTorch's, so that each reads the other's files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import facula

if TYPE_CHECKING:
    from facula import Tensor

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """Describe a part of a tensor.

    Args:
        offsets: where it begins, along each dimension.
        sizes: its sizes.

    >>> from torch.distributed.checkpoint import ChunkStorageMetadata
    >>> ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([2, 3])).sizes
    torch.Size([2, 3])
    """

    offsets: facula.Size
    sizes: facula.Size


class _MEM_FORMAT_ENCODING(Enum):
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


@dataclass
class TensorProperties:
    """Describe a tensor apart from its sizes.

    Args:
        dtype: its dtype. Default: that of `torch.get_default_dtype()`.
        layout: its layout.
        requires_grad: whether it requires a gradient.
        memory_format: its memory format.
        pin_memory: whether it is in pinned memory.

    >>> from torch.distributed.checkpoint.metadata import TensorProperties
    >>> TensorProperties.create_from_tensor(torch.ones(2)).dtype
    torch.float32
    """

    dtype: facula.dtype = field(default_factory=facula.get_default_dtype)
    layout: facula.layout = field(default=facula.strided)
    requires_grad: bool = False
    memory_format: facula.memory_format = field(default=facula.contiguous_format)
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Return the metadata of a tensor.

        Args:
            tensor: a Tensor.
        """
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)

    def __getstate__(self) -> Any:
        encoding = _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format))
        return self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory = state
        self.memory_format = _FORMATS[encoding.value]


_FORMATS = [facula.contiguous_format, facula.channels_last, facula.preserve_format]


@dataclass
class TensorStorageMetadata:
    """Describe a tensor of a checkpoint and its parts.

    Args:
        properties: its TensorProperties.
        size: the shape of the whole.
        chunks: a ChunkStorageMetadata for each part.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     entries = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder).state_dict_metadata
    >>> entries["x"].size, len(entries["x"].chunks)
    (torch.Size([2]), 1)
    """

    properties: TensorProperties
    size: facula.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Mark an entry of a checkpoint that is not a tensor.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dcp.save({"step": 3}, checkpoint_id=folder).state_dict_metadata
    {'step': BytesStorageMetadata()}
    """


@dataclass
class StorageMeta:
    """Identify the save that wrote a checkpoint.

    Args:
        checkpoint_id: where; None in those that Facula writes.
        save_id: a name of the save, which differs each time.
        load_id: a name of the load.
        modules: names of modules.

    >>> from torch.distributed.checkpoint.metadata import StorageMeta
    >>> StorageMeta().modules
    []
    """

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """List all entries of a checkpoint and their places: the contents of the file .metadata.

    Args:
        state_dict_metadata: {name: TensorStorageMetadata or BytesStorageMetadata}.
        planner_data: {name: its path in the nested dicts that were saved}.
        storage_data: {MetadataIndex: the file, where the entry begins there, and its length}.
        storage_meta: who saved, a StorageMeta.
        version: of the format.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"model": {"weight": torch.ones(2)}}, checkpoint_id=folder)
    >>> metadata.planner_data
    {'model.weight': ('model', 'weight')}
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """Name an entry, or a part of a tensor, which its offset identifies.

    Args:
        fqn: the name of the entry.
        offset: where the part begins, along each dimension.
        index: a hint in PyTorch's files: not compared.

    >>> from torch.distributed.checkpoint.metadata import MetadataIndex
    >>> MetadataIndex("weight", torch.Size([0]), 0) == MetadataIndex("weight", torch.Size([0]))
    True
    """

    fqn: str
    offset: facula.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)
