"""Define datasets, samplers and the DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand
from facula.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from facula.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from facula.utils.data.dataloader import (  # isort: skip
    DataLoader,
    _DatasetKind,
    default_collate,
    default_convert,
    get_worker_info,
)
from facula.utils.data.distributed import DistributedSampler

if TYPE_CHECKING:
    from facula.utils.data.datapipes._decorator import argument_validation as argument_validation
    from facula.utils.data.datapipes._decorator import functional_datapipe as functional_datapipe
    from facula.utils.data.datapipes._decorator import guaranteed_datapipes_determinism as guaranteed_datapipes_determinism
    from facula.utils.data.datapipes._decorator import non_deterministic as non_deterministic
    from facula.utils.data.datapipes._decorator import runtime_validation as runtime_validation
    from facula.utils.data.datapipes._decorator import runtime_validation_disabled as runtime_validation_disabled
    from facula.utils.data.datapipes.datapipe import DataChunk as DataChunk
    from facula.utils.data.datapipes.datapipe import DFIterDataPipe as DFIterDataPipe
    from facula.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
    from facula.utils.data.datapipes.datapipe import MapDataPipe as MapDataPipe

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_PIPES = "DFIterDataPipe DataChunk IterDataPipe MapDataPipe".split()
_DECORATORS = """
    argument_validation functional_datapipe guaranteed_datapipes_determinism non_deterministic runtime_validation
    runtime_validation_disabled
    """.split()
__all__ += _PIPES + _DECORATORS

__getattr__ = _on_demand(
    __name__,
    ("datapipes", "graph", "graph_settings"),
    **dict.fromkeys(_PIPES, "facula.utils.data.datapipes.datapipe"),
    **dict.fromkeys(_DECORATORS, "facula.utils.data.datapipes._decorator"),
)
