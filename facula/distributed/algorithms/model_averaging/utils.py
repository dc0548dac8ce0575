"""Average parameters over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Any, process_group: ProcessGroup | None) -> None:
    """Give every process the average of parameters over its group, in place; one message for each dtype and device.

    Args:
        params: the parameters.
        process_group: the processes; None for all. Who is no member does nothing.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.model_averaging.utils import average_parameters
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> average_parameters(nn.Linear(4, 2).parameters(), None)
    >>> dist.destroy_process_group()
    """
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
    """Return those of a list of parameters, or of the groups of an optimizer, that have a gradient.

    Args:
        params: parameters or groups; TypeError for anything else.

    >>> from torch.distributed.algorithms.model_averaging.utils import get_params_to_average
    >>> layer = nn.Linear(4, 2)
    >>> layer.bias.grad = torch.ones(2)
    >>> len(get_params_to_average(layer.parameters()))
    1
    """
    found = []
    for entry in params:
        for p in entry["params"] if isinstance(entry, dict) else [entry]:
            if not isinstance(p, facula.Tensor):
                raise TypeError(f"get_params_to_average: expected parameters or groups of them, got {type(p).__name__}")
            if p.grad is not None:
                found.append(p)
    return found


def average_parameters_or_parameter_groups(params: Any, process_group: ProcessGroup | None) -> None:
    """Average parameters, or those of the groups of an optimizer, that have a gradient, in place.

    Args:
        params: parameters or groups; TypeError for anything else.
        process_group: the processes; None for all.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> optimizer = torch.optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1)
    >>> average_parameters_or_parameter_groups(optimizer.param_groups, None)
    >>> dist.destroy_process_group()
    """
    average_parameters(iter(get_params_to_average(params)), process_group)
