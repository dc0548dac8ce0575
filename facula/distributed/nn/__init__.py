"""Collectives with gradients, and modules on other workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from typing import Any

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


def __getattr__(name: str) -> Any:
    if name == "RemoteModule":  # which needs remote calls
        from .api.remote_module import RemoteModule

        return RemoteModule
    from facula.compat import placeholders

    found = globals()[name] = placeholders.member("torch.distributed.nn", name)  # the same object each time
    return found
