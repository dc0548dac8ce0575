"""Averages of parameters over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Any, process_group: ProcessGroup) -> None:
    """Every process gets the average of its group; one message for each dtype and device."""
    group = process_group if process_group is not None else dist.group.WORLD
    if dist.get_rank(group) < 0:
        return  # not a member
    size, kinds = dist.get_world_size(group), {}
    for p in params:
        kinds.setdefault((p.dtype, p.device), []).append(p)
    with facula.no_grad():
        for members in kinds.values():
            flat = facula.cat([p.detach().reshape(-1) for p in members])
            flat.div_(size)
            dist.all_reduce(flat, group=group)
            offset = 0
            for p in members:
                p.detach().copy_(flat[offset : offset + p.numel()].view(p.shape))
                offset += p.numel()


def get_params_to_average(params: Any) -> list[Any]:
    """Those of a list of parameters, or of the groups of an optimizer, that have a gradient."""
    found = []
    for entry in params:
        for p in entry["params"] if isinstance(entry, dict) else [entry]:
            if not isinstance(p, facula.Tensor):
                raise TypeError(f"get_params_to_average: expected parameters or groups of them, got {type(p).__name__}")
            if p.grad is not None:
                found.append(p)
    return found


def average_parameters_or_parameter_groups(params: Any, process_group: ProcessGroup) -> None:
    """Averages parameters, or those of the groups of an optimizer, that have a gradient."""
    average_parameters(iter(get_params_to_average(params)), process_group)
