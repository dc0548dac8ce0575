"""Define when parameters are averaged."""

from __future__ import annotations

import abc
import warnings
from typing import TYPE_CHECKING

from facula import distributed as dist

from . import utils

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(abc.ABC):
    """Average parameters in some steps; call `average_parameters` after each. PeriodicModelAverager and
    HierarchicalModelAverager derive from it.

    Args:
        process_group: the processes. Default: all.

    >>> from torch.distributed.algorithms.model_averaging.averagers import ModelAverager, PeriodicModelAverager
    >>> issubclass(PeriodicModelAverager, ModelAverager)
    True
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group: ProcessGroup | None = process_group if process_group is not None else dist.group.WORLD
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Count a step, and average if it is time.

        Args:
            params: parameters, or the groups of an optimizer; those with a gradient are averaged.

        >>> import torch.distributed as dist
        >>> from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> averager = PeriodicModelAverager(period=4)
        >>> averager.average_parameters(nn.Linear(4, 2).parameters())
        >>> averager.step
        1
        >>> dist.destroy_process_group()
        """


class PeriodicModelAverager(ModelAverager):
    """Average parameters in every `period`-th step, from step `warmup_steps` on.

    Args:
        period: a positive number (else ValueError); 1 is warned of.
        warmup_steps: how many steps are not averaged at first.
        process_group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> layer, averager = nn.Linear(4, 2), PeriodicModelAverager(period=4, warmup_steps=100)
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    >>> for step in range(3):
    ...     layer(torch.ones(1, 4)).sum().backward()
    ...     optimizer.step()
    ...     averager.average_parameters(optimizer.param_groups)
    >>> averager.step
    3
    >>> dist.destroy_process_group()
    """

    warmup_steps: int

    def __init__(self, period: Any, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"PeriodicModelAverager: warmup_steps must not be negative, got {warmup_steps}")
        if period < 1:
            raise ValueError(f"PeriodicModelAverager: period must be positive, got {period}")
        if period == 1:
            warnings.warn("PeriodicModelAverager: with period 1 averaging gradients costs the same and is closer")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Any) -> None:
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
