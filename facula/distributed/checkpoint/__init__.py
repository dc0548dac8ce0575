"""Save checkpoints to which every process writes its part, and load them with any number of processes.

The files are those of PyTorch; nothing that they hold is executed.
"""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import CheckpointException, FileSystemReader, FileSystemWriter
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "TensorStorageMetadata",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]

__getattr__ = _on_demand(__name__)
