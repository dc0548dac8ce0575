"""Average parameters often within small groups, and less often within larger ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from facula import distributed as dist

from . import averagers, utils

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(averagers.ModelAverager):
    """Average parameters over groups of several sizes: often in small groups, seldom over all processes.

    In a step that is a multiple of several periods the longest one counts.

    Args:
        period_group_size_dict: period -> size of groups, both growing; the last size is that of the whole group.
        warmup_steps: the first step with averages.
        process_group: the processes. Default: all.

    Errors: ValueError for periods and sizes that do not grow, and for another last size.

    The group of the example is rank 0 of eight that send nothing.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
    >>> dist.init_process_group("fake", rank=0, world_size=8)
    >>> averager = HierarchicalModelAverager({2: 4, 8: 8}, warmup_steps=100)
    >>> {period: group.size() for period, group in averager.period_process_group_dict.items()}
    {2: 4, 8: 8}
    >>> dist.destroy_process_group()
    """

    def __init__(self, period_group_size_dict: Any = None, warmup_steps: int = 0,
                 process_group: ProcessGroup | None = None) -> None:  # fmt: skip
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError(f"HierarchicalModelAverager: expected periods and sizes, got {period_group_size_dict}")
        periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        if periods[0] <= 0 or sizes[0] <= 1 or sorted(set(periods)) != periods or sorted(set(sizes)) != sizes:
            raise ValueError(
                "HierarchicalModelAverager: periods and sizes must grow, from above 0 and above 1, got "
                f"{dict(period_group_size_dict)}"
            )
        size = dist.get_world_size(self.process_group)
        if sizes[-1] != size:
            raise ValueError(f"HierarchicalModelAverager: the last size must be that of the group, {size}, got {sizes[-1]}")
        if warmup_steps < 0:
            raise ValueError(f"HierarchicalModelAverager: warmup_steps must not be negative, got {warmup_steps}")
        self.period_process_group_dict: dict[Any, Any] = OrderedDict()
        for period, group_size in period_group_size_dict.items():
            if group_size == size:
                self.period_process_group_dict[period] = self.process_group
            else:
                self.period_process_group_dict[period], _ = dist.new_subgroups(group_size=group_size, group=self.process_group)
        self.warmup_steps = warmup_steps

    def average_parameters(self, params: Any) -> None:
        group = None
        if self.step >= self.warmup_steps:
            for period in reversed(self.period_process_group_dict):
                if (self.step - self.warmup_steps) % period == 0:
                    group = self.period_process_group_dict[period]
                    break
        if group is not None:
            utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
