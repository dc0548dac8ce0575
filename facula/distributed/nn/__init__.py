"""Define collectives with gradients, and modules on other workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

if TYPE_CHECKING:
    from .api.remote_module import RemoteModule

__all__ = [
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

__getattr__ = _on_demand(__name__, RemoteModule="facula.distributed.nn.api.remote_module")  # which needs remote calls
