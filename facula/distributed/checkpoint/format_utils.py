"""Convert folders of checkpoints to single files of `facula.save`, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import facula
from facula._shared.on_demand import _on_demand

from .filesystem import CheckpointException, FileSystemReader
from .metadata import TensorStorageMetadata
from .state_dict_loader import _fill_tensor, _place
from .state_dict_saver import save

if TYPE_CHECKING:
    from typing import Any

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Write what a folder holds, with whole tensors, to one file. One process calls it.

    Args:
        dcp_checkpoint_dir: the folder. CheckpointException if it is no checkpoint.
        torch_save_path: the file, for `torch.load`.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
    ...     dcp_to_torch_save(folder, f"{folder}/whole.pt")
    ...     torch.load(f"{folder}/whole.pt")
    {'x': tensor([1., 1.])}
    """
    facula.save(_everything(FileSystemReader(os.fspath(dcp_checkpoint_dir))), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Write the state dict of a file of `torch.save` to a folder. One process calls it.

    Args:
        torch_save_path: the file; it is loaded with `weights_only=False`, so it must be one that you trust. CheckpointException
            where it has no dict.
        dcp_checkpoint_dir: the folder, which is made where it is not there.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> from torch.distributed.checkpoint.format_utils import torch_save_to_dcp
    >>> state = {"x": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"x": torch.ones(2)}, f"{folder}/whole.pt")
    ...     torch_save_to_dcp(f"{folder}/whole.pt", f"{folder}/parts")
    ...     dcp.load(state, checkpoint_id=f"{folder}/parts")
    >>> state
    {'x': tensor([1., 1.])}
    """
    state = facula.load(torch_save_path, weights_only=False)
    if not isinstance(state, dict):
        raise CheckpointException(f"torch_save_to_dcp: expected a dict, got {type(state).__name__}")
    save(state, checkpoint_id=os.fspath(dcp_checkpoint_dir), no_dist=True)


def _everything(reader: FileSystemReader) -> dict:
    from .metadata import MetadataIndex

    metadata = reader.read_metadata()
    paths = metadata.planner_data or {}
    whole: dict[Any, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            value = facula.empty(entry.size, dtype=entry.properties.dtype)
            _fill_tensor(name, value, entry, metadata.storage_data, reader)
        else:
            value = reader.read(_place(metadata.storage_data, MetadataIndex(name)))
        _put(whole, paths.get(name, (name,)), value)
    return whole


def _put(container, path, value) -> None:
    """Put a value at a path of keys of dicts and numbers of lists, which are made as they are needed."""
    for key, following in zip(path, [*path[1:], None]):
        last = following is None
        made = value if last else [] if isinstance(following, int) else {}
        if isinstance(container, list):
            # The bound stops a damaged file from making a list that fills the memory.
            if not isinstance(key, int) or key < 0 or key > 1_000_000:
                raise CheckpointException(f"load: .metadata has a path that cannot be, got {path}")
            container.extend([None] * (key + 1 - len(container)))
            if last or container[key] is None:
                container[key] = made
        elif last or key not in container:
            container[key] = made
        container = container[key]

__getattr__ = _on_demand(__name__)
